"""Wakes those who wait for news of a task, and those who wait for new tasks."""

import asyncio
from weakref import WeakValueDictionary


class Signals:
    """One future per task somebody waits for; it is gone when nobody waits any more.

    Take the future first, look at the store next, wait last: no news falls in between.
    """

    def __init__(self) -> None:
        self._next: WeakValueDictionary[str, asyncio.Future[None]] = WeakValueDictionary()

    def next(self, task_id: str) -> asyncio.Future[None]:
        """Return what will be done with the next news of the task."""
        future = self._next.get(task_id)
        if future is None:
            future = self._next[task_id] = asyncio.get_running_loop().create_future()
        return future

    def tell(self, task_id: str) -> None:
        """Wake all who wait for this task."""
        future = self._next.pop(task_id, None)
        if future is not None and not future.done():
            future.set_result(None)


class Bell:
    """Wakes one loop; ringing it several times before it listens counts once."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake the loop."""
        self._rung.set()

    async def heard(self, timeout: float) -> None:
        """Wait until it is rung, at most so many seconds."""
        if not self._rung.is_set():
            handle = asyncio.get_running_loop().call_later(timeout, self._rung.set)
            try:
                await self._rung.wait()
            finally:
                handle.cancel()
        self._rung.clear()
