"""What the receiver answers: 202 when Redis has the event, and else one reason.

| status | error | |
|---|---|---|
| 202 | | the event is in its tenant's stream |
| 400 | malformed | no event comes of it |
| 401 | forged, replayed | nobody has signed it who knows the secret, or not lately |
| 404, 405 | unknown | no address of a hook, or no POST |
| 408, 413 | slow, oversized | |
| 503 | full, unavailable | the tenant has as much as it may, or Redis is away: send it again |
"""

import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web
from redis.exceptions import RedisError

from orbiter_contracts.trigger_events import MAX_BODY_BYTES
from orbiter_contracts.webhook_signatures import Hook, read_hook_path
from orbiter_triggers.event_stream import EventStream, StreamFullError
from orbiter_triggers.events.refusals import Reason, RefusedRequestError
from orbiter_triggers.events.requests import read_event
from orbiter_triggers.receiver.connections import Connection, Limits, Server, answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = structlog.get_logger(__name__)
STATUS: Final[dict[Reason, int]] = {
    "forged": 401,
    "replayed": 401,
    "oversized": 413,
    "slow": 408,
    "malformed": 400,
}
RETRY_SECONDS: Final = 30
_LOST: Final = (ConnectionError, web.RequestPayloadError)


class Receiver:
    """Receives.

    Args:
        stream: Where events go.
        master_key: What the secrets of hooks follow from.
        generation: Of these secrets; those of the one before open, too.
        count: Called with what has become of each request.
        most: Connections at a time.
        clock: Seconds since 1970.
        head_seconds: See `Limits`.
        body_seconds: See `Limits`.
    """

    def __init__(
        self,
        *,
        stream: EventStream,
        master_key: str,
        generation: int,
        count: Callable[[str], None],
        most: int,
        clock: Callable[[], float] = time.time,
        head_seconds: float,
        body_seconds: float,
    ) -> None:
        self._stream = stream
        self._master_key = master_key
        self._generation = generation
        self._count = count
        self._clock = clock
        self.limits = Limits(most, count, head_seconds=head_seconds, body_seconds=body_seconds)

    @asynccontextmanager
    async def listen(self, port: int) -> "AsyncIterator[int]":
        """Be there at a port; 0 picks a free one of 127.0.0.1. Yields its number."""
        import asyncio

        server = Server(self._answered, self.limits)
        host = None if port else "127.0.0.1"
        listening = await asyncio.get_running_loop().create_server(server, host, port)
        try:
            yield int(listening.sockets[0].getsockname()[1])
        finally:
            listening.close()
            # What has come whole is answered, all else may come again.
            await server.shutdown(timeout=5.0)
            await listening.wait_closed()

    async def _answered(self, request: web.BaseRequest) -> web.Response:
        connection = request.protocol
        assert isinstance(connection, Connection)  # noqa: S101 - ours
        connection.head_is_there()
        hook = read_hook_path(request.rel_url.raw_path)
        if hook is None or request.method != "POST":
            connection.request_is_there()
            self._count("unknown")
            return answer(404 if hook is None else 405, "unknown")
        try:
            body = await _body(request)
            connection.request_is_there()
            return await self._received(hook, request, body)
        except RefusedRequestError as error:
            connection.request_is_there()
            self._count(error.reason)
            log.info("refused", hook=hook.path, reason=error.reason, why=str(error))
            return answer(STATUS[error.reason], error.reason, str(error))
        except _LOST:
            if not connection.ended:
                self._count("lost")
            return answer(400, "malformed", "the body has not come whole")

    async def _received(self, hook: Hook, request: web.BaseRequest, body: bytes) -> web.Response:
        generations = {self._generation, max(self._generation - 1, 1)}
        secrets = [hook.secret(self._master_key, number) for number in generations]
        event = read_event(hook, request.headers.items(), body, secrets, self._clock())
        try:
            await self._stream.add(hook.namespace, event)
        except StreamFullError:
            self._count("full")
            sentence = "as many events of this namespace wait as may; send it again later"
            return self._later("full", sentence)
        except (RedisError, OSError) as error:
            log.warning("event not stored", hook=hook.path, error=repr(error))
            self._count("unavailable")
            return self._later("unavailable", "the event could not be stored; send it again later")
        self._count("accepted")
        log.info("event", hook=hook.path, kind=event.kind, delivery=event.delivery)
        return answer(202)

    def _later(self, error: str, sentence: str) -> web.Response:
        made = answer(503, error, sentence)
        made.headers["Retry-After"] = str(RETRY_SECONDS)
        return made


async def _body(request: web.BaseRequest) -> bytes:
    """The body, as long as it is no longer than it may be.

    Raises:
        RefusedRequestError: It is.
        ConnectionError: The sender has gone.
    """
    size, parts = request.content_length or 0, []
    if size <= MAX_BODY_BYTES:
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        size = 0
        async for part in request.content.iter_any():
            size += len(part)
            if size > MAX_BODY_BYTES:
                break
            parts.append(part)
    if size > MAX_BODY_BYTES:
        raise RefusedRequestError("oversized", f"a body has at most {MAX_BODY_BYTES} bytes")
    return b"".join(parts)
