"""/healthz, /readyz and /metrics over HTTP, before anything else runs.

Healthy: the event loop turns and the parts that should run do. Ready: this replica does its duty,
which is to serve when it is active and to wait when it is not. The answers name what is missing.

Everybody on the pods' network can connect to these two ports, and nobody says who they are. So
nothing here grows with what they send: `MOST` connections of a port, a few KiB and seconds each.
One too many ends the oldest connection of the address that holds the most: whoever holds all of
them neither keeps the kubelet out, which asks from the node's address, nor takes its place away.
A general HTTP server has no such rule, and GET and HEAD over HTTP/1 with one answer per connection
need little of it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry

from orbiter_operator.runtime.metrics import MetricsPage

log = structlog.get_logger(__name__)

MOST: Final = 256
"""Connections of one port. More than arrive in the two turns of the event loop between a
connection's beginning and the reading of its request, so that a flood does not end it before."""
MOST_ARRIVING: Final = 64
LONGEST_HEAD: Final = 8 * 1024
HEAD_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 10.0
"""What a reader has to take the answer, as long as Prometheus waits by default."""
WORD_SECONDS: Final = 60.0
"""At most one line is logged in this time, however many connections there were to complain of."""
_PLAIN: Final = "text/plain; charset=utf-8"
_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a path answers."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = _PLAIN


class Port:
    """One listening port.

    Args:
        name: What it is for, in log lines.
        pages: What to answer, by path.
        number: The port; 0 picks a free one of 127.0.0.1.
        clock: Seconds that only ever grow, for the pauses between log lines.
    """

    def __init__(
        self,
        name: str,
        pages: Mapping[str, Callable[[], Answer]],
        number: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._pages = pages
        self._clock = clock
        self._open: dict[str, dict[_Connection, None]] = {}
        self._refused: Counter[str] = Counter()
        self._word_from = float("-inf")
        self._server: asyncio.Server | None = None
        self.number = number

    async def __aenter__(self) -> "Port":
        # On every address, because the kubelet asks from outside; a free port on one of them only.
        host = None if self.number else "127.0.0.1"
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self), host, self.number, backlog=MOST_ARRIVING
        )
        self.number = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None  # noqa: S101 - entered
        self._server.close()
        for connection in [each for mine in self._open.values() for each in mine]:
            connection.leave()
        await self._server.wait_closed()

    @property
    def connections(self) -> int:
        """How many there are."""
        return sum(map(len, self._open.values()))

    def enter(self, connection: "_Connection") -> None:
        """Count a new connection; end the one that has to make place for it."""
        if self.connections >= MOST:
            busiest = max(self._open.values(), key=len)
            next(iter(busiest)).end("surplus")
        self._open.setdefault(connection.peer, {})[connection] = None

    def forget(self, connection: "_Connection") -> None:
        """A connection has ended."""
        mine = self._open.get(connection.peer, {})
        mine.pop(connection, None)
        if not mine:
            self._open.pop(connection.peer, None)

    def refuse(self, why: str, peer: str) -> None:
        """Say, now and then, that connections were ended without the answer they asked for."""
        self._refused[why] += 1
        if self._clock() - self._word_from >= WORD_SECONDS:
            log.warning("connections refused", port=self._name, last=peer, **self._refused)
            self._refused.clear()
            self._word_from = self._clock()

    def answer(self, head: bytes) -> bytes:
        """Answer a request; total over what is sent.

        Args:
            head: The request line and the headers, of which none matters here.

        Raises:
            ValueError: It is no request of HTTP/1.
        """
        method, target, version = head.partition(b"\r\n")[0].decode("ascii").split(" ")
        if not (version in ("HTTP/1.0", "HTTP/1.1") and target.startswith("/")):
            raise ValueError("no request of HTTP/1")
        page = self._pages.get(target.partition("?")[0])
        if page is None:
            return _message(_short(HTTPStatus.NOT_FOUND))
        if method not in ("GET", "HEAD"):
            return _message(_short(HTTPStatus.METHOD_NOT_ALLOWED), "Allow: GET, HEAD\r\n")
        try:
            found = page()
        except Exception:
            log.exception("no answer", port=self._name, path=target[:100])
            found = _short(HTTPStatus.INTERNAL_SERVER_ERROR)
        return _message(found, bodiless=method == "HEAD")


class _Connection(asyncio.Protocol):
    """One stranger, from the first byte to the last; it costs no task and no stream."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._head = bytearray()
        self._answered = False
        self.peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio's and are not instances of them.
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if peer else ""
        self._clock = self._wait(HEAD_SECONDS)
        self._port.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clock.cancel()
        self._port.forget(self)

    def data_received(self, data: bytes) -> None:
        if self._answered:
            return
        self._head += data
        if _END in self._head[:LONGEST_HEAD]:
            try:
                self._say(self._port.answer(bytes(self._head)))
            except ValueError:
                self._refuse("malformed", HTTPStatus.BAD_REQUEST)
        elif len(self._head) >= LONGEST_HEAD:
            self._refuse("too_long", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def end(self, why: str) -> None:
        """End it at once, without an answer or in the middle of it."""
        self._port.refuse(why, self.peer)
        self.leave()

    def leave(self) -> None:
        """End it at once, for reasons of ours."""
        self._clock.cancel()
        self._port.forget(self)
        self._transport.abort()

    def _refuse(self, why: str, status: HTTPStatus) -> None:
        self._port.refuse(why, self.peer)
        self._say(_message(_short(status)))

    def _say(self, message: bytes) -> None:
        self._answered = True
        self._head.clear()
        self._clock.cancel()
        self._clock = self._wait(ANSWER_SECONDS)
        self._transport.write(message)
        self._transport.close()

    def _wait(self, seconds: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, self.end, "too_slow")


def _short(status: HTTPStatus) -> Answer:
    return Answer(status.phrase.encode(), status)


def _message(answer: Answer, more: str = "", *, bodiless: bool = False) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        f"{more}Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if bodiless else answer.body)


class Health:
    """What the probes ask. Each check answers None, or what is wrong in words."""

    def __init__(self) -> None:
        self._alive: dict[str, Callable[[], str | None]] = {}
        self._ready: dict[str, Callable[[], str | None]] = {}

    def alive_if(self, name: str, check: Callable[[], str | None]) -> None:
        """Add a check whose failure a restart would cure."""
        self._alive[name] = check

    def ready_if(self, name: str, check: Callable[[], str | None]) -> None:
        """Add a check whose failure will pass by itself."""
        self._ready[name] = check

    def alive(self) -> list[str]:
        """What is wrong beyond repair."""
        return _wrong(self._alive)

    def ready(self) -> list[str]:
        """What is wrong at the moment."""
        return _wrong(self._alive) + _wrong(self._ready)


class HealthServer:
    """The HTTP servers of probes and metrics.

    Args:
        health: The checks.
        registry: The metrics.
        health_port: Port of the probes; 0 picks one.
        metrics_port: Port of the metrics; 0 picks one.
    """

    def __init__(
        self, health: Health, registry: CollectorRegistry, health_port: int, metrics_port: int
    ) -> None:
        self._page = MetricsPage(registry)
        probes = {
            "/healthz": lambda: _answer(health.alive()),
            "/readyz": lambda: _answer(health.ready()),
        }
        self._health = Port("health", probes, health_port)
        self._metrics = Port("metrics", {"/metrics": self._shown}, metrics_port)
        self._open = AsyncExitStack()

    @property
    def health_port(self) -> int:
        """Where the probes are answered."""
        return self._health.number

    @property
    def metrics_port(self) -> int:
        """Where the metrics are."""
        return self._metrics.number

    async def __aenter__(self) -> "HealthServer":
        async with AsyncExitStack() as opened:
            for port in (self._health, self._metrics):
                await opened.enter_async_context(port)
            self._open = opened.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def _shown(self) -> Answer:
        return Answer(self._page.text(), content_type=CONTENT_TYPE_LATEST)


def _answer(wrong: list[str]) -> Answer:
    status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
    return Answer("\n".join(wrong).encode() or b"ok", status)


def _wrong(checks: dict[str, Callable[[], str | None]]) -> list[str]:
    answers = ((name, check()) for name, check in checks.items())
    return [f"{name}: {answer}" for name, answer in answers if answer is not None]
