"""Messages as items of the Responses API, and its items as what a model said.

A message's text is a part; of what else an item has, an opaque part in front of it (`phase`) or
behind it (the encrypted thoughts) keeps what the vendor wants back.
"""

from typing import Any

from orbiter.models._internal.arguments import listed, plain
from orbiter.models._internal.files import PDF, media_type, parts_of, text_of
from orbiter.models._internal.replies import said
from orbiter.models._internal.settings import Refuse
from orbiter.models._words import words
from orbiter.parts import (
    ImagePart,
    OpaquePart,
    Part,
    ReplyPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from orbiter.types import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)

Item = dict[str, Any]


def to_items(messages: list[Message], refuse: Refuse, vendor: str) -> tuple[str, list[Item]]:
    """Write a conversation as the API takes it.

    Args:
        messages: The conversation.
        refuse: Builds the error that names the model.
        vendor: Whose thoughts go back: nobody else can read them.

    Returns:
        The instructions, and items.

    Raises:
        ModelError: A part of a message is of a kind that the API does not take.
    """
    system: list[str] = []
    items: list[Item] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            system.append(message.content)
        elif isinstance(message, AssistantMessage):
            items += _reply(message, vendor)
        elif isinstance(message, ToolResult):
            items.append(_result(message, refuse))
        elif isinstance(message, UserMessage) and message.parts:
            content = [_part(part, refuse) for part in parts_of(message)]
            items.append({"role": "user", "content": content})
        else:
            items.append({"role": "user", "content": message.content})
    return "\n\n".join(system), items


def _result(message: ToolResult, refuse: Refuse) -> Item:
    output: Any = message.content if message.error is None else f"Error: {message.error}"
    if message.parts:
        text = [_text(output)] if output else []
        output = [*text, *(_part(part, refuse) for part in message.parts)]
    return {"type": "function_call_output", "call_id": message.tool_call_id, "output": output}


def _text(text: str) -> Item:
    return {"type": "input_text", "text": text}


def _part(part: Part, refuse: Refuse) -> Item:
    if isinstance(part, TextPart):
        return _text(part.text)
    if isinstance(part, ImagePart):
        url = part.url or f"data:{media_type(part, 'OpenAI', refuse)};base64,{part.base64}"
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if part.url is not None:
        return {"type": "input_file", "file_url": part.url}
    if media_type(part, "OpenAI", refuse) != PDF:
        heading = f"{part.name}:\n" if part.name else ""
        return _text(heading + text_of(part, refuse))
    data = f"data:{PDF};base64,{part.base64}"
    return {"type": "input_file", "filename": part.name or "document.pdf", "file_data": data}


def _reply(message: AssistantMessage, vendor: str) -> list[Item]:
    items: list[Item] = []
    phase: Item = {}
    thoughts: dict[str, list[Item]] = {}
    for one in said(message):
        if isinstance(one, ToolCall):
            items.append(_call(one))
        elif isinstance(one, TextPart):
            if one.text:
                items.append({"role": "assistant", "content": one.text, **phase})
        elif one is None or one.vendor != vendor:
            continue
        elif isinstance(one, ThinkingPart):
            summary = {"type": "summary_text", "text": one.text}
            thoughts.setdefault(one.signature or "", []).append(summary)
        elif one.data.get("type") == "message":
            phase = {name: value for name, value in one.data.items() if name == "phase"}
        elif one.data.get("type") != "reasoning":
            items.append(one.data)
        elif one.data.get("encrypted_content"):
            items.append(one.data | {"summary": thoughts.pop(str(one.data.get("id")), [])})
    while items and items[-1].get("type") == "reasoning":
        # thoughts that nothing came of are refused
        items.pop()
    return items


def _call(call: ToolCall) -> Item:
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments or "{}",
    }


class Said:
    """What a model said: its items, taken one by one."""

    def __init__(self, vendor: str) -> None:
        self.calls: list[ToolCall] = []
        self.text = self.thoughts = ""
        self.refused = False
        self._vendor = vendor
        self._parts: list[ReplyPart] = []
        self._phase: str | None = None

    def take(self, item: Any) -> str:
        """Take an item; returns what a stream has told of it piece by piece."""
        kind = getattr(item, "type", None)
        if kind == "message":
            return self._message(item)
        if kind == "reasoning":
            return self._reasoning(item)
        if kind == "function_call":
            call = call_of(item)
            self._parts.append(ToolCallPart(index=len(self.calls)))
            self.calls.append(call)
            return call.arguments
        if isinstance(kind, str):
            # tools that the vendor runs
            self._parts.append(OpaquePart(vendor=self._vendor, data=_data(item)))
        return ""

    @property
    def parts(self) -> tuple[ReplyPart, ...]:
        """All that was said in its order, if it is more than text and calls."""
        if all(isinstance(part, TextPart | ToolCallPart) for part in self._parts):
            return ()
        return tuple(self._parts)

    def _message(self, item: Any) -> str:
        phase = words(getattr(item, "phase", None)) or None
        if phase != self._phase:
            self._phase = phase
            data = {"type": "message", **({"phase": phase} if phase else {})}
            self._parts.append(OpaquePart(vendor=self._vendor, data=data))
        whole = ""
        for content in listed(getattr(item, "content", None)):
            refusal = words(getattr(content, "refusal", None))
            self.refused = self.refused or bool(refusal)
            whole += words(getattr(content, "text", None)) or refusal
        self.text += whole
        self._parts.append(TextPart(text=whole))
        return whole

    def _reasoning(self, item: Any) -> str:
        told = _texts(getattr(item, "summary", None))
        open_ones = _texts(getattr(item, "content", None))
        # thoughts that can be read are not taken back
        data = {n: v for n, v in _data(item).items() if n != "content"} | {"summary": []}
        # whose summary it is, says the signature
        signature = str(data.get("id"))
        self._parts += [
            ThinkingPart(text=text, signature=signature, vendor=self._vendor) for text in told
        ]
        self._parts += [ThinkingPart(text=text, vendor=self._vendor) for text in open_ones]
        self._parts.append(OpaquePart(vendor=self._vendor, data=data))
        whole = "\n\n".join([*told, *open_ones])
        self.thoughts += whole
        return whole


def call_of(item: Any) -> ToolCall:
    """Return the call that an item is."""
    told = (words(getattr(item, name, None)) for name in ("call_id", "name", "arguments"))
    identity, name, arguments = told
    return ToolCall(id=identity, name=name, arguments=arguments)


def _texts(value: Any) -> list[str]:
    return [words(getattr(one, "text", None)) for one in listed(value)]


def _data(item: Any) -> Item:
    found: Item = plain(item.to_dict(mode="python", exclude_none=True, warnings=False))
    return found
