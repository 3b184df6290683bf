"""Time and chance of calls, replaceable in tests."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol


class Timer(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> object:
        """Do without it."""


def _later(seconds: float, then: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, then)


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance, replaceable in tests."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = time.time
    chance: Callable[[], float] = random.random
    monotonic: Callable[[], float] = time.monotonic
    later: Callable[[float, Callable[[], None]], Timer] = _later
