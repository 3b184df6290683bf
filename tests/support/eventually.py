"""Waiting for a condition instead of for a time: what tests use where others sleep."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
_PAUSE_SECONDS = 0.01


async def eventually(
    condition: Callable[[], T] | Callable[[], Awaitable[T]], *, seconds: float = 60.0
) -> T:
    """Ask again and again until the answer is true; return that answer.

    Args:
        condition: What to ask; an async function works too.
        seconds: How long to go on. A generous deadline costs nothing when all is well.

    Raises:
        AssertionError: It did not become true in time; the text has the last answer.
    """
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"still {answer!r} after {seconds} s: {condition}")
        await asyncio.sleep(_PAUSE_SECONDS)
