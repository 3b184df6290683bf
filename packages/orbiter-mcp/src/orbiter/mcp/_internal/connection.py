"""One life of a connection to a server, held by a task of its own.

The SDK wants a connection closed by the task that opened it, while agents call tools from any
task. So a keeper opens it, waits until it is no longer wanted or the server is gone, and closes it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from orbiter.mcp._internal.transport import SAID_LINES, connected
from orbiter.mcp.errors import MCPConnectionError

if TYPE_CHECKING:
    from mcp import Client

# The registry of open connections: the event loop itself keeps no task alive.
_keepers: set[asyncio.Task[None]] = set()


class Connection:
    """A connection that is open from `open` until `close`, or until the server ends.

    Attributes:
        client: The SDK's client.
        failure: What ended it, if it was not closed.
    """

    client: Client

    def __init__(self, name: str, server: Any, answer: Any = None) -> None:
        self.name = name
        self._answer = answer
        self.failure: BaseException | None = None
        self._server = server
        self._done = asyncio.Event()
        self._lines: deque[str] = deque(maxlen=SAID_LINES)
        self._keeper: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether it is open, as far as is known."""
        return not self._done.is_set() and self._keeper is not None and not self._keeper.done()

    async def open(self, timeout: float) -> None:
        """Connect.

        Args:
            timeout: Seconds until the server has to have answered.

        Raises:
            MCPConnectionError: It could not be started or reached, or did not answer.
        """
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._keep(ready), name=f"MCP server {self.name}")
        _keepers.add(self._keeper)
        self._keeper.add_done_callback(_keepers.discard)
        try:
            await asyncio.wait(
                [ready, self._keeper], timeout=timeout, return_when="FIRST_COMPLETED"
            )
        except BaseException:
            await self.abandon()
            raise
        if ready.done():
            return
        timed_out = not self._keeper.done()
        await self.abandon()
        if timed_out:
            raise MCPConnectionError(
                self.name, f"no answer within {timeout:g} s of connecting{self._said()}"
            )
        raise MCPConnectionError(
            self.name, f"cannot be reached: {self.reason()}{self._said()}"
        ) from self.failure

    async def _keep(self, ready: asyncio.Future[None]) -> None:
        try:
            opening = connected(self._server, self._lines, self._done.set, self._answer)
            async with opening as self.client:
                if not ready.done():
                    ready.set_result(None)
                await self._done.wait()
        except asyncio.CancelledError as error:
            self.failure = error
            raise
        except BaseException as error:  # reported by `open`, or by the call it interrupts
            self.failure = _first(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._done.set()

    async def close(self) -> None:
        """Close it, and wait until the server's process is gone."""
        self._done.set()
        if self._keeper is not None:
            await asyncio.wait([self._keeper])

    async def abandon(self) -> None:
        """Close it also while it is still being opened."""
        if self._keeper is not None:
            self._keeper.cancel()
        await self.close()

    def reason(self) -> str:
        """Say what ended it."""
        if isinstance(self.failure, FileNotFoundError):
            return f"there is no program {self.failure.filename or 'of that name'!r}"
        if self.failure is None or isinstance(self.failure, asyncio.CancelledError):
            return "the server ended"
        return str(self.failure) or type(self.failure).__name__

    def _said(self) -> str:
        return "; it said: " + " | ".join(self._lines) if self._lines else ""


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
