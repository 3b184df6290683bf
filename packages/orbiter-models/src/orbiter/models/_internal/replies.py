"""What a model has said, on its way back to the vendor."""

from collections.abc import Iterator

from orbiter.parts import OpaquePart, TextPart, ThinkingPart, ToolCallPart
from orbiter.types import AssistantMessage, ToolCall

Said = TextPart | ThinkingPart | OpaquePart | ToolCall | None
"""None stands where a text or a call has been taken out."""


def said(message: AssistantMessage) -> Iterator[Said]:
    """Go through a message in its order, with its calls in their places.

    A text that a context has replaced, to shorten it or take a secret out, stands for all of them.
    Texts may be empty; what no part tells of comes last.
    """
    calls = dict(enumerate(message.tool_calls))
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    left = texts if "".join(texts) == message.content else [message.content]
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            yield calls.pop(part.index, None)
        elif isinstance(part, TextPart):
            yield TextPart(text=left.pop(0)) if left else None
        else:
            yield part
    yield from (TextPart(text=text) for text in left)
    yield from calls.values()
