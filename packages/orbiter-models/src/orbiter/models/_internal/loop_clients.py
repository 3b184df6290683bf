"""One client of an SDK for each event loop."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any


class LoopClients:
    """Clients by event loop: connections belong to the loop they were opened in.

    Each is closed at its loop's end.

    Args:
        make: Makes a client.
        close: Closes one.
    """

    def __init__(self, make: Callable[[], Any], close: Callable[[Any], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._open: dict[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[None, None]]] = {}

    async def get(self) -> Any:
        """Return the client of the running event loop."""
        loop = asyncio.get_running_loop()
        # a loop that was closed without its generators being shut down
        for gone in [other for other in list(self._open) if other.is_closed()]:
            self._open.pop(gone, None)
        if loop in self._open:
            return self._open[loop][0]
        client = self._make()
        life = self._life(loop, client)
        self._open[loop] = client, life
        await anext(life)
        return client

    async def close(self) -> None:
        """Close the client of the running event loop; other loops close theirs themselves."""
        _, life = self._open.get(asyncio.get_running_loop(), (None, None))
        if life is not None:
            await life.aclose()

    async def _life(
        self, loop: asyncio.AbstractEventLoop, client: Any
    ) -> AsyncGenerator[None, None]:
        """Last as long as the loop: before its end it closes the generators that it knows."""
        try:
            yield
        finally:
            self._open.pop(loop, None)
            await self._close(client)
