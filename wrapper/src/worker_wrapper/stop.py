"""The handle by which a turn is ended early: set by whoever learns of it, watched by process.py."""

import asyncio
from typing import Literal

StopReason = Literal["cancelled", "terminated"]
"""`cancelled`: nobody wants the answer any more. `terminated`: the container has to go."""


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
