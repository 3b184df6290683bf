"""One connection, many coroutines: transactions take turns.

A plain asyncio.Lock belongs to the loop that first waited for it; storages outlive loops
(`run.sync` makes a new one each time), so this one is made anew for each loop.
"""

import asyncio


class Turns:
    """Hands out the lock of the running loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    def mine(self) -> asyncio.Lock:
        """Return the lock to hold for the length of a transaction."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock
