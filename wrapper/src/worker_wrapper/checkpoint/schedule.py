"""When checkpoints are made while an agent works: those of an attempt and of a session's turn."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

_FIRST_PAUSE_SECONDS: Final = 2.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
"""How soon the one that is made when we are asked to leave is tried again: twice as long each time.

A node that is drained has many pods, and each try of each of them is a mebibyte.
"""
_CANCEL_AGAIN_SECONDS: Final = 1.0


class Save(Protocol):
    """Makes a checkpoint; returns False when another try may succeed."""

    async def __call__(self, *, leaving: bool) -> bool: ...  # noqa: D102


async def from_time_to_time(
    save: Save,
    news: Callable[[], bool],
    seconds: float,
    asked_to_leave: asyncio.Event,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Make one so often while something happens, and one as soon as we are asked to leave.

    That one is tried until it is written. The agent may still work for an hour then, and the
    machine be gone at any moment of it, so it goes on as before, until it is cancelled.

    Args:
        save: Makes one now.
        news: Whether something has happened since the last one.
        seconds: How often; 0 for only when asked to leave.
        asked_to_leave: Set then.
        sleep: Waits so many seconds.
    """
    asked = asyncio.create_task(asked_to_leave.wait())
    try:
        while not asked.done():
            await asyncio.wait({asked}, timeout=seconds or None)
            if not asked.done() and news():
                await save(leaving=False)
    finally:
        asked.cancel()
    pause = 0.0 if await save(leaving=True) else _FIRST_PAUSE_SECONDS
    while pause or seconds:
        await sleep(pause or seconds)
        if pause or news():
            saved = await save(leaving=True)
            pause = 0.0 if saved else min(2 * pause or _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)


@asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Have something done beside, and end it behind the block.

    It is cancelled until it has ended: redis-py may swallow a cancellation that comes as an answer
    does, and a turn would wait for ever to be told of.
    """
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCEL_AGAIN_SECONDS)
        await asyncio.gather(task, return_exceptions=True)
