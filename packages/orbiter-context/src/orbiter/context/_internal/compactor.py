"""Shortens old tool results in what one model call sees, looking at each message only once.

The run loop hands over a longer copy of the same conversation at every step. `Shown` remembers how
far it was read and which results were replaced, so a step costs what is new in it.
"""

from collections import deque
from collections.abc import Awaitable, Callable

from orbiter.types import Message, ToolResult

KEEP_RESULTS = 8
LARGE_CHARS = 2_000


class Shown:
    """A conversation as the model sees it, and how far it was read."""

    __slots__ = ("large", "messages", "read", "shortened")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.read: Message | None = None
        self.large: deque[int] = deque()
        self.shortened = False


async def compacted(
    shown: Shown, messages: list[Message], shorten: Callable[[str], Awaitable[str]]
) -> list[Message]:
    """Return the messages with all but the newest large tool results shortened.

    Args:
        shown: What was remembered of earlier steps; it is brought up to date.
        messages: The conversation.
        shorten: Puts a text in a safe place and returns what stands for it.

    Returns:
        The same list when nothing was shortened so far, else a new one.
    """
    done = len(shown.messages)
    if done and (len(messages) < done or messages[done - 1] is not shown.read):
        # Another run of the same agent: nothing that was remembered holds.
        shown.messages, shown.large, shown.shortened = [], deque(), False
        done = 0
    for message in messages[done:]:
        if isinstance(message, ToolResult) and len(message.content) > LARGE_CHARS:
            shown.large.append(len(shown.messages))
        shown.messages.append(message)
    shown.read = messages[-1] if messages else None
    while len(shown.large) > KEEP_RESULTS:
        at = shown.large.popleft()
        old = shown.messages[at]
        if isinstance(old, ToolResult):
            shown.messages[at] = old.model_copy(update={"content": await shorten(old.content)})
            shown.shortened = True
    return shown.messages[:] if shown.shortened else messages
