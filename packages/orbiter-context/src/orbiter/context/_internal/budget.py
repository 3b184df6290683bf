"""Brings a conversation that has outgrown its budget down to half of it, all at once.

What is done first costs least: old large results, files and arguments are shortened; then the
oldest steps become a summary, which stands before the prompt they belong to. A call and its result
stay together. Only when half of the budget is no help is anything shortened that is new.
"""

from collections.abc import Awaitable, Callable

from orbiter.context._internal.blocks import summary_block
from orbiter.context._internal.compactor import Shown, Size
from orbiter.context._internal.meter import Room
from orbiter.context._internal.shortening import Store, shortened, shortened_words
from orbiter.types import Message, ToolResult, UserMessage

# Of the goal, so that what stands for the past leaves room for the present.
SUMMARY_SHARE = 4
Summarize = Callable[[list[Message]], Awaitable[str]]


async def compact(
    shown: Shown, room: Room, *, input: str, store: Store, summarize: Summarize, size: Size
) -> None:
    """Bring a conversation to its goal, or as near as can be.

    Args:
        shown: The conversation; nothing is done while it is within its limit.
        room: How large it may be.
        input: What the run was started with; its message is shown as long as its steps are.
        store: Puts a text in a safe place and returns what stands for it.
        summarize: Returns what stands for all that was ever left out, and for these messages.
        size: Counts the tokens of a message.
    """
    if shown.tokens <= room.limit:
        return
    newest = _start_of_newest(shown.messages)
    for at in range(newest):
        if shown.tokens <= room.goal:
            return
        await _replace(shown, at, shortened, store, size)
    if shown.tokens > room.goal:
        await _leave_out(shown, room.goal, newest, input, summarize, size)
    for shorten in (shortened, shortened_words):
        for at in range(len(shown.messages)):
            if shown.tokens <= room.limit:
                return
            await _replace(shown, at, shorten, store, size)


async def _replace(
    shown: Shown,
    at: int,
    shorten: Callable[[Message, Store], Awaitable[Message]],
    store: Store,
    size: Size,
) -> None:
    if at == 0 and shown.prompt is not None:
        # the block before it is short by itself, and says more than its beginning
        prompt = await shorten(shown.prompt, store)
        if isinstance(prompt, UserMessage) and prompt is not shown.prompt:
            shown.cut(1, shown.block, prompt, size)
        return
    short = await shorten(shown.messages[at], store)
    if short is shown.messages[at]:
        return
    tokens = size(short)
    if tokens < shown.sizes[at]:
        shown.replace(at, short, tokens)


async def _leave_out(
    shown: Shown, goal: int, newest: int, input: str, summarize: Summarize, size: Size
) -> None:
    """Put a summary in the place of the oldest messages."""
    messages, most = list(shown.messages), max(goal // SUMMARY_SHARE, 1)
    if shown.prompt is not None:
        messages[0] = shown.prompt
    at, tail = newest, shown.tokens
    prompt: UserMessage | None = None
    for place, message in enumerate(messages[: newest + 1]):
        prompt = _prompt_at(message, prompt, input)
        if place > 0 and not isinstance(message, ToolResult):
            head = size(prompt) if prompt is not None and prompt is not message else 0
            if most + head + tail <= goal:
                at = place
                break
        tail -= shown.sizes[place]
    left = [message for message in messages[:at] if message is not prompt]
    if not left:
        return
    text = _clipped(await summarize(left), most, size)
    if prompt is None:
        prompt = UserMessage(content=input)
    # a prompt that would be next is shown with what stands for the messages before it
    shown.cut(at + (messages[at] is prompt), summary_block(text), prompt, size)


def _start_of_newest(messages: list[Message]) -> int:
    """Return where the newest step begins, whose results the model has not seen yet."""
    at = len(messages) - 1
    while at > 0 and isinstance(messages[at], ToolResult):
        at -= 1
    return at


def _prompt_at(message: Message, before: UserMessage | None, input: str) -> UserMessage | None:
    """Return what the user said that a message belongs to.

    What stands in the middle of a run, such as a correction by the run loop, is not it.
    """
    if not isinstance(message, UserMessage):
        return before
    if before is not None and before.content == input != "":
        return before
    return message


def _clipped(text: str, most: int, size: Size) -> str:
    """Return as much of a text as fits into so many tokens."""
    tokens = size(UserMessage(content=text))
    return text if tokens <= most else text[: len(text) * most // tokens]
