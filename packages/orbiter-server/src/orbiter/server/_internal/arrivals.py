"""Connections that ask for nothing are few, whoever opens them.

Everybody on the network can connect, and nobody says who they are before the first request. A
process has a number of descriptors, 1,024 in some containers: who opens as many and is silent, or
sends half a request, would keep out all others, the kubelet's probe among them. So a connection
waits for its next request only as long as there are not `MOST_WAITING` newer ones.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_WAITING: Final = 512
BACKLOG: Final = 128
"""How many are accepted before the first of them is looked at."""


def bounds(message: int) -> dict[str, Any]:
    """Return those of uvicorn's options that bound what strangers may have.

    Args:
        message: Bytes of a WebSocket's message, which is held until it has come whole.
    """
    return {"http": few_waiting(), "backlog": BACKLOG, "ws_max_size": message}


def few_waiting(most: int = MOST_WAITING) -> type[H11Protocol]:
    """Return uvicorn's protocol for one server, which ends the connection that waits longest.

    Args:
        most: How many may wait.
    """
    waiting: dict[H11Protocol, None] = {}

    class FewWaiting(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            waiting.pop(self, None)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            asked = self.cycle is not None and not self.cycle.response_complete
            # a WebSocket's transport has another protocol by now
            if asked or self.transport.get_protocol() is not self:
                waiting.pop(self, None)

        def on_response_complete(self) -> None:
            self._wait()
            super().on_response_complete()

        def _wait(self) -> None:
            waiting[self] = None
            if len(waiting) > most:
                oldest = next(iter(waiting))
                del waiting[oldest]
                oldest.transport.abort()

    return FewWaiting
