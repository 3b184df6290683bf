"""Work that nobody waits for: kept from being forgotten, and its errors from being lost."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

logger = logging.getLogger("orbiter.tasks")


class Background:
    """The unfinished pieces of work."""

    def __init__(self) -> None:
        self._unfinished: set[asyncio.Future[Any]] = set()

    def spawn(self, work: Awaitable[Any]) -> None:
        """Begin a piece of work."""
        future = asyncio.ensure_future(work)
        self._unfinished.add(future)
        future.add_done_callback(self._finished)

    def call(self, function: Callable[..., Any] | None, *args: Any) -> None:
        """Call a function, sync or async, without waiting for it."""
        told = function(*args) if function is not None else None
        if inspect.isawaitable(told):
            self.spawn(told)

    async def settle(self, timeout: float) -> None:
        """Wait for what is unfinished, at most so many seconds, and cancel the rest."""
        if self._unfinished:
            _, late = await asyncio.wait(self._unfinished, timeout=timeout)
            for future in late:
                future.cancel()

    def _finished(self, future: asyncio.Future[Any]) -> None:
        self._unfinished.discard(future)
        if not future.cancelled() and future.exception() is not None:
            logger.error("work in the background failed", exc_info=future.exception())
