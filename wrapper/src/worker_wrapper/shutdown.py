"""What SIGTERM asks of a worker: finish the current message, then leave; asked twice, leave now.

worker.py installs `Shutdown`; whoever waits (idle) or runs a turn (heartbeat.py) watches it. How a
single turn is ended early is `StopTurn`: set by whoever learns of it, watched by run.py.
"""

import asyncio
import signal
import time
from collections.abc import Awaitable
from typing import Literal, TypeVar

T = TypeVar("T")

StopReason = Literal["cancelled", "terminated"]
"""`cancelled`: nobody wants the answer any more. `terminated`: the container has to go."""


class Shutdown:
    """The state of our leaving.

    Attributes:
        requested: Set by the first signal: take no further message.
        requested_at: When that was, in monotonic seconds, which are those of the event loop.
        urgent: Set by the second, or when superseded: do not finish the current one either.
        superseded: Set when another process works under our name: leave, and publish nothing.
    """

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.requested_at = 0.0
        self.urgent = asyncio.Event()
        self.superseded = asyncio.Event()

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen to SIGTERM, and to SIGINT, which is what Ctrl-C sends."""
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.request)

    def request(self) -> None:
        """Be told to leave; the second time, at once."""
        if self.requested.is_set():
            self.urgent.set()
        else:
            self.requested_at = time.monotonic()
        self.requested.set()

    def supersede(self) -> None:
        """Be told that whatever we hold is somebody else's by now."""
        self.superseded.set()
        self.urgent.set()
        self.requested.set()

    async def unless(self, idle: Awaitable[T]) -> T | None:
        """Wait for something that may be given up as soon as we are asked to leave.

        Returns:
            Its result, or None when we were asked to leave first.
        """
        waiting = asyncio.ensure_future(idle)
        asked = asyncio.create_task(self.requested.wait())
        try:
            await asyncio.wait((waiting, asked), return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            for task in (waiting, asked):
                task.cancel()
            await asyncio.gather(waiting, asked, return_exceptions=True)


class StopTurn:
    """An event that carries why it was set; the first reason stays."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._reason: StopReason | None = None

    @property
    def reason(self) -> StopReason | None:
        """Why the turn shall end, or None while it may go on."""
        return self._reason

    def set(self, reason: StopReason) -> None:
        """End the running turn, and any that starts later with this handle."""
        self._reason = self._reason or reason
        self._event.set()

    def is_set(self) -> bool:
        """Whether the turn shall end."""
        return self._event.is_set()

    async def wait(self) -> StopReason:
        """Wait until somebody sets it; return why."""
        await self._event.wait()
        return self._reason or "terminated"
