"""What stands at the beginning of a conversation for all of it that is not shown."""

from collections.abc import Iterable
from typing import NamedTuple

from orbiter.additions import DATA, inside
from orbiter.parts import TextPart
from orbiter.types import Message, UserMessage


class Fitted(NamedTuple):
    """A conversation within its window.

    Attributes:
        messages: What is shown.
        block: What stands for the rest, at the beginning of the first message.
        first: That message without the block.
        passages: What of the rest the new input asks about, in the words of then.
    """

    messages: list[Message]
    block: str = ""
    first: UserMessage | None = None
    passages: str = ""


def summary_block(summary: str) -> str:
    """Return what stands for messages that are not shown; "" when there is nothing to say."""
    if not summary:
        return ""
    # It may quote what a tool has said.
    return f"<conversation_summary>\n{inside(summary)}\n</conversation_summary>"


def passages_block(summary: str, passages: Iterable[str]) -> str:
    """Return passages of messages that are not shown, but for what a summary of them says."""
    quoted = "\n\n".join(passage for passage in passages if not _says(summary, passage))
    return f"{DATA}\n<earlier_passages>\n{inside(quoted)}\n</earlier_passages>" if quoted else ""


def _says(summary: str, passage: str) -> bool:
    """Whether a summary has all lines of a passage in the same words."""
    lines = (line.partition(": ")[2] or line for line in passage.splitlines())
    return all(line in summary for line in lines)


def fronted(block: str, message: UserMessage) -> UserMessage:
    """Return a user's message with a block before it.

    A message of its own would make two in a row of the user's, which some models refuse.
    """
    block = f"{block}\n\n"
    parts = (TextPart(text=block), *message.parts) if message.parts else ()
    return UserMessage(content=f"{block}{message.content}", parts=parts)


def with_block(messages: list[Message], block: str) -> Fitted:
    """Return messages with what stands for those before in front of them."""
    if not block:
        return Fitted(messages)
    if messages and isinstance(messages[0], UserMessage):
        return Fitted([fronted(block, messages[0]), *messages[1:]], block, messages[0])
    first = UserMessage(content=block)
    return Fitted([first, *messages], block, UserMessage(content=""))
