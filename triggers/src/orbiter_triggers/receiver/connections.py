"""HTTP connections of strangers: few, and each for seconds only.

aiohttp speaks HTTP; what it does not have is here: until a request has come whole its connection
has a time to live, and gives its place up to a newer one when there are as many as may be. One
request of a connection is answered.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

HEAD_SECONDS: Final = 5.0
BODY_SECONDS: Final = 10.0
LINGER_SECONDS: Final = 2.0
"""How long the rest of a refused body is read, so that its sender reads the answer."""
LONGEST_LINE: Final = 4096
MOST_HEADERS: Final = 100
_SLOW: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b'Content-Length: 16\r\n\r\n{"error":"slow"}'
)


class Limits:
    """How many connections there may be, and which of them have not sent a whole request yet.

    Args:
        most: Connections at a time.
        refused: Called with `slow`, `malformed` or `surplus` for each that was ended.
        head_seconds: How long the head of a request may take.
        body_seconds: How long its body may take.
    """

    def __init__(
        self,
        most: int,
        refused: Callable[[str], None],
        *,
        head_seconds: float = HEAD_SECONDS,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self.most = most
        self.refused = refused
        self.head_seconds = head_seconds
        self.body_seconds = body_seconds
        self.open: set[Connection] = set()
        self.arriving: dict[Connection, None] = {}

    def enter(self, connection: "Connection") -> None:
        """A new connection; the one that takes longest makes place for it, or it is sent away."""
        self.open.add(connection)
        self.arriving[connection] = None
        if len(self.open) > self.most:
            self.refused("surplus")
            next(iter(self.arriving)).abort()

    def leave(self, connection: "Connection") -> None:
        """A connection has ended."""
        self.open.discard(connection)
        self.arriving.pop(connection, None)


class Connection(web.RequestHandler):
    """One of them."""

    __slots__ = ("_clock", "_limits", "ended")

    def __init__(self, manager: web.Server, limits: Limits, **options: Any) -> None:
        super().__init__(manager, **options)
        self._limits = limits
        self._clock: asyncio.TimerHandle | None = None
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the head of a request."""
        super().connection_made(transport)
        self._wait(self._limits.head_seconds)
        self._limits.enter(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give the place up."""
        self._stop()
        self._limits.leave(self)
        super().connection_lost(exc)

    def head_is_there(self) -> None:
        """Begin to wait for the body."""
        self._wait(self._limits.body_seconds)

    def request_is_there(self) -> None:
        """It has come whole: from now on we are the ones that take time."""
        self._stop()
        self._limits.arriving.pop(self, None)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP; nothing of it is logged."""
        self.request_is_there()
        self._limits.refused("malformed" if status < 500 else "failed")
        return answer(status, "malformed" if status < 500 else "failed")

    def abort(self) -> None:
        """End it at once, without an answer."""
        self._stop()
        self.ended = True
        self._limits.leave(self)
        if self.transport is not None:
            self.transport.abort()

    def _expire(self) -> None:
        self.ended = True
        self._limits.leave(self)
        self._limits.refused("slow")
        if self.transport is not None:
            self.transport.write(_SLOW)
            self.transport.close()

    def _wait(self, seconds: float) -> None:
        self._stop()
        self._clock = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None


class Server(web.Server):
    """aiohttp's server with such connections."""

    def __init__(self, handler: Callable[[web.BaseRequest], Any], limits: Limits) -> None:
        super().__init__(handler)
        self._limits = limits

    def __call__(self) -> web.RequestHandler:
        """A new connection."""
        return Connection(
            self,
            self._limits,
            loop=asyncio.get_running_loop(),
            access_log=None,
            keepalive_timeout=0,
            lingering_time=LINGER_SECONDS,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
            max_headers=MOST_HEADERS,
            auto_decompress=False,
        )


def answer(status: int, error: str = "", sentence: str = "") -> web.Response:
    """An answer as JSON, behind which the connection ends."""
    body = {"error": error, "message": sentence} if error else {"accepted": True}
    made = web.json_response({name: value for name, value in body.items() if value}, status=status)
    made.force_close()
    return made
