"""The connection to the API server: how to reach it, and what comes over it, from bytes to dicts.

The pod's service account, or the current kubeconfig context: kopf reads both kinds; using its
readers means that the watch it runs and the client in `client` talk to the same server as the same
user.

Tenants have a part in what the server says: an overlay of a pod keeps whatever is in it, and one
object that cannot be decoded would take a list or a watch of all others with it.

A watch of a busy cluster is many small packets, and each costs a decryption, a wake-up and a timer:
it is read much at once, and with an ear for silence.
"""

import asyncio
import os
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, cast

import aiohttp
import kopf
import orjson
import structlog

from orbiter_contracts.json_text import bounded, is_heavy
from orbiter_operator.runtime.supervisor import Throttle

_REFRESH_SECONDS = 60.0


class Credentials:
    """The server's address and the headers that authenticate a request.

    Args:
        load: Reads the connection anew; called again now and then because tokens rotate.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        load: Callable[[], kopf.ConnectionInfo],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._clock = clock
        self._info = load()
        self._read_at = clock()

    @property
    def server(self) -> str:
        """URL of the API server, without a slash at its end."""
        return self._info.server.rstrip("/")

    def tls(self) -> ssl.SSLContext | bool:
        """The TLS context for connections to it."""
        return self._info.as_ssl_context() if self.server.startswith("https") else False

    def headers(self) -> dict[str, str]:
        """Headers for one request, with a token that is at most a minute old."""
        if self._clock() - self._read_at > _REFRESH_SECONDS:
            self._info = self._load()
            self._read_at = self._clock()
        return self._info.as_http_headers()


def load_connection() -> kopf.ConnectionInfo:
    """Read the service account or else the kubeconfig.

    Raises:
        kopf.LoginError: There is neither, or it cannot be used.
    """
    settings = kopf.OperatorSettings()
    found = kopf.login_with_service_account(settings=settings)
    try:
        found = found or kopf.login_with_kubeconfig(settings=settings)
    except (OSError, KeyError, ValueError) as error:
        where = os.environ.get("KUBECONFIG") or "~/.kube/config"
        raise kopf.LoginError(
            f"kubeconfig {where} is of no use ({error!r}); set KUBECONFIG to one whose current "
            "context has a token or a client certificate"
        ) from None
    if found is None:
        raise kopf.LoginError(
            "no way to the API server: neither a service account nor a kubeconfig; "
            "set KUBECONFIG to the path of one"
        )
    return found


log = structlog.get_logger(__name__)
OBJECT, EVENT, LIST = 1, 2, 3
"""On which level of a document the objects are."""
_LONG = 65_536
_FIELDS, _SPEC = b',"managedFields":[', b'},"spec":{'
_ENDS = (b']},"spec":{', b'],"name":"')
"""What follows `managedFields`: in built-in kinds they come last in the metadata, in custom ones,
whose fields are sorted, the name is next."""


def decode(text: bytes, root: int) -> Any:
    """Decode whatever JSON an API server may serve; see `json_text.bounded`.

    Of a single object without its `metadata.managedFields`, where they can be told. They are half
    of a Pod's bytes and most of its dicts: CPU for a Job of 8.9 kB as it was made 29 µs without
    them and 171 with. No text in them can look like their end, because quotes in texts are escaped;
    what a user calls so comes after the metadata.

    Args:
        text: The document.
        root: On which level its objects are.

    Raises:
        ValueError: It is no JSON.
    """
    begin = text.find(_FIELDS) if root != LIST else -1
    if 0 <= begin < text.find(_SPEC):
        ends = [end for mark in _ENDS if (end := text.find(mark, begin)) > 0]
        if ends:
            text = text[:begin] + text[min(ends) + 1 :]
    if not is_heavy(text):
        try:
            return orjson.loads(text)
        except ValueError:
            pass  # characters or numbers that cannot be, or no JSON at all
    return orjson.loads(bounded(text, root=root))


async def read(text: bytes, root: int) -> Any:
    """`decode`, beside the event loop when it may take long."""
    if len(text) > _LONG:
        return await asyncio.to_thread(decode, text, root)
    return decode(text, root)


def decode_event(line: bytes) -> dict[str, Any]:
    """Decode the event of a watch; see `decode`.

    Raises:
        ValueError: It is no event.
    """
    event = decode(line, EVENT)
    if isinstance(event, dict) and "type" in event and isinstance(event.get("object"), dict):
        return event
    raise ValueError("it has no type or no object")


_CHANGE = re.compile(
    rb'\{"type":"(ADDED|MODIFIED|DELETED)","object":\{"kind":"\w+","apiVersion":"[\w./]+",'
    rb'"metadata":\{"name":"[^"\\]*",(?:"generateName":"[^"\\]*",)?'
    rb'"namespace":"[^"\\]*","uid":"([^"\\]+)"'
)
"""How the change of a built-in kind begins. Nobody's own words come before its uid."""


def _last_changes(lines: list[bytes]) -> list[bytes]:
    """The lines of a read, without changes that a later one of the same object has overtaken.

    Who follows a kind goes by how its objects are now, so what they were for less than a second
    need not be decoded. That an object is gone overtakes nothing.
    """
    kept: list[bytes] = []
    changed: set[bytes] = set()
    for line in reversed(lines):
        kind, uid = found.groups() if (found := _CHANGE.match(line)) else (b"", b"")
        if uid in changed and kind != b"DELETED":
            continue
        if kind == b"MODIFIED":
            changed.add(uid)
        kept.append(line)
    return kept[::-1]


async def events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[dict[str, Any], None]:
    """The events of a watch, from what comes over the wire; what is none is left out."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in _last_changes(lines) if len(lines) > 1 else lines:
            try:
                long = len(line) > _LONG
                event = await asyncio.to_thread(decode_event, line) if long else decode_event(line)
            except ValueError as error:
                log.warning("a line of a watch is left out", error=str(error), bytes=len(line))
                continue
            yield event


_MUCH = 65536


async def chunks(
    response: aiohttp.ClientResponse, *, silence: float, throttle: Throttle | None
) -> AsyncGenerator[bytes, None]:
    """Read a response that does not end by itself.

    Args:
        response: The response.
        silence: Seconds without a byte that mean that the connection is dead.
        throttle: When to read nothing; None for never. What comes meanwhile stays in the socket,
            and all of it is read before the next pause.

    Yields:
        What has come.

    Raises:
        SocketTimeoutError: Nothing came for `silence` seconds.
    """
    alarm = _Alarm(response, silence)
    taken = 0
    try:
        async for chunk in response.content.iter_any():
            alarm.heard()
            yield chunk
            taken += len(chunk)
            if throttle is not None and len(chunk) < _MUCH:
                await _deaf(response, throttle, taken)
                taken = 0
    finally:
        alarm.stop()


class _Alarm:
    """Ends the reading of a silent response.

    The library's own read timeout is a timer that is set anew for every packet; this one is set
    anew only when it rings.
    """

    def __init__(self, response: aiohttp.ClientResponse, silence: float) -> None:
        self._response = response
        self._silence = silence
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(silence, self._ring)

    def heard(self) -> None:
        """Something has come."""
        self._last = self._loop.time()

    def stop(self) -> None:
        """Nobody listens any more."""
        self._timer.cancel()

    def _ring(self) -> None:
        left = self._last + self._silence - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._ring)
        else:
            text = f"nothing was said for {self._silence:g} s"
            self._response.content.set_exception(aiohttp.SocketTimeoutError(text))


async def _deaf(response: aiohttp.ClientResponse, throttle: Throttle, taken: int) -> None:
    connection = response.connection
    if connection is None or connection.transport is None or connection.transport.is_closing():
        return
    # uvloop's transports have the methods of asyncio's and are not instances of them.
    transport = cast("asyncio.ReadTransport", connection.transport)
    transport.pause_reading()
    # Below TLS the socket is read on until so many bytes wait, and each packet would wake us.
    limit = getattr(transport, "set_read_buffer_limits", None)
    if limit is not None:
        limit(0)
    try:
        await throttle.wait(taken)
    finally:
        if not transport.is_closing():
            if limit is not None:
                limit()
            transport.resume_reading()
