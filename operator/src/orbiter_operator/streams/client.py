"""Clients of Redis with the timeouts the operator needs. Their errors never show the password.

A read that blocks until something has come cannot be asked to leave out the entry it wakes up with,
and that entry may be of any size. `HeadlineParser` lets contents go by as they come off the socket:
texts longer than a name and lists deeper than an entry are empty. `BoundedParser` does so only with
a reply that is larger than `LARGEST_REPLY`; what has no contents then is asked for in bounds
(`reader`).

Measured, per wake-up with an entry of 300 bytes: hiredis 0.16 ms of CPU, this parser in Python and
a second round trip for the contents 0.32 to 0.44.
"""

import asyncio
from typing import Any, Protocol, cast

import hiredis
from redis._parsers import _AsyncRESP2Parser
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, RedisError

from orbiter_contracts.bounds import one_line
from orbiter_contracts.redis_connection import connection_to
from orbiter_contracts.redis_url import read_redis_url
from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, too_large
from orbiter_operator.kube.leader_election import NotLeadingError

LONGEST_TEXT = 1024
"""Names of streams and ids of entries are shorter."""
DEEPEST_LIST = 4
"""XREAD answers a list of streams, each with its name and a list of entries, each with its id."""
LARGEST_REPLY = 1024 * 1024
"""In bytes. A batch of the messages people send is smaller."""
_CHUNK = 65536
_SHOWN = 80
_NO_REPLY_YET = object()
_CLOSED = "Connection closed by server."


class _Readable(Protocol):
    async def readline(self) -> bytes: ...

    async def readexactly(self, n: int) -> bytes: ...


class HeadlineParser(_AsyncRESP2Parser):
    """RESP2 without contents. An interrupted read ends its connection, so none is resumed."""

    async def read_response(self, disable_decoding: bool = False) -> Any:
        """Read one reply."""
        if not self._connected:
            raise RedisConnectionError(_CLOSED)
        return await self._headline(disable_decoding, 1)

    async def _headline(self, raw: bool, depth: int) -> Any:
        line = await self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            error: Exception = self.parse_error(rest.decode("utf-8", "replace"))  # type: ignore[no-untyped-call]
            if isinstance(error, RedisConnectionError):
                raise error
            return error
        if kind == b":":
            return int(rest)
        if kind == b"*":
            return await self._list(int(rest), raw, depth)
        if kind == b"$":
            text = await self._text(int(rest))
        elif kind == b"+":
            text = rest
        else:
            raise InvalidResponse(f"Protocol Error: {line[:80]!r}")
        encoder = cast("Any", self.encoder)
        return text if raw or text is None else encoder.decode(text)

    async def _list(self, length: int, raw: bool, depth: int) -> list[Any] | None:
        if length < 0:
            return None
        if depth <= DEEPEST_LIST:
            return [await self._headline(raw, depth + 1) for _ in range(length)]
        for _ in range(length):
            await self._headline(True, depth + 1)
        return []

    async def _text(self, length: int) -> bytes | None:
        if length < 0:
            return None
        if length <= LONGEST_TEXT:
            return (await self._exactly(length + 2))[:-2]
        left = length + 2
        while left:
            left -= len(await self._exactly(min(left, _CHUNK)))
        return b""

    async def _line(self) -> bytes:
        line = await cast("_Readable", self._stream).readline()
        if not line.endswith(b"\r\n"):
            raise RedisConnectionError(_CLOSED)
        return line[:-2]

    async def _exactly(self, length: int) -> bytes:
        try:
            return await cast("_Readable", self._stream).readexactly(length)
        except asyncio.IncompleteReadError as error:
            raise RedisConnectionError(_CLOSED) from error


class BoundedParser(HeadlineParser):
    """Whole replies up to `LARGEST_REPLY`, the headlines of those beyond it."""

    def on_connect(self, connection: Any) -> None:
        """Begin with a connection's first byte."""
        super().on_connect(connection)  # type: ignore[no-untyped-call]
        self._replies = self._new_replies()
        self._taken = bytearray()
        self._began_with_a_reply = True

    async def read_response(self, disable_decoding: bool = False) -> Any:
        """Read one reply."""
        if not self._connected:
            raise RedisConnectionError(_CLOSED)
        decode = not disable_decoding
        while (reply := self._replies.gets(decode)) is _NO_REPLY_YET:
            if len(self._taken) > LARGEST_REPLY:
                return await self._let_go_by(disable_decoding)
            chunk = await cast("asyncio.StreamReader", self._stream).read(_CHUNK)
            if not chunk:
                raise RedisConnectionError(_CLOSED)
            self._replies.feed(chunk)
            self._taken += chunk
        self._taken.clear()
        self._began_with_a_reply = not self._replies.has_data()
        if isinstance(reply, RedisConnectionError):
            raise reply
        return reply

    def _new_replies(self) -> hiredis.Reader:
        encoder = cast("Any", self.encoder)
        text = {"encoding": encoder.encoding, "errors": encoder.encoding_errors}
        return hiredis.Reader(
            protocolError=InvalidResponse,
            replyError=self.parse_error,
            notEnoughData=_NO_REPLY_YET,
            **(text if encoder.decode_responses else {}),
        )

    async def _let_go_by(self, raw: bool) -> Any:
        if not self._began_with_a_reply:
            raise RedisConnectionError("A reply behind another one is too large.")
        stream = self._stream
        self._stream = cast(
            "Any", _Resumed(bytes(self._taken), cast("asyncio.StreamReader", stream))
        )
        self._taken.clear()
        try:
            return await self._headline(raw, 1)
        finally:
            self._stream = stream
            self._replies = self._new_replies()


class _Resumed:
    """A stream of which a part was read already; it ends within the part that was not."""

    def __init__(self, begin: bytes, stream: asyncio.StreamReader) -> None:
        self._begin = begin
        self._at = 0
        self._stream = stream

    async def readline(self) -> bytes:
        end = self._begin.find(b"\n", self._at) + 1
        if end:
            line, self._at = self._begin[self._at : end], end
            return line
        return self._take(len(self._begin)) + await self._stream.readline()

    async def readexactly(self, n: int) -> bytes:
        begin = self._take(n)
        return begin + await self._stream.readexactly(n - len(begin)) if len(begin) < n else begin

    def _take(self, length: int) -> bytes:
        taken = self._begin[self._at : self._at + length]
        self._at += len(taken)
        return taken


RETRIED = (ApiError, RedisError, NotLeadingError, *TRANSPORT_ERRORS)
"""What passes by itself: the API server or Redis is away, or this replica is not the active one."""
_NOT_THE_TASKS_FAULT = (401, 404, 408, 409, 429)
COMMAND_SECONDS = 5.0
BLOCKING_SECONDS = 15.0
"""Longer than any blocking read, so that an idle stream is no timeout."""


def passes_by_itself(error: ApiError) -> bool:
    """Whether a refusal says nothing about the task: another one would be refused too, for now.

    A 403 may be either: the operator's rights and a namespace's quota concern every task, an
    admission webhook and its policies this one. What is too large for the database stays so.
    """
    if too_large(error):
        return False
    if error.status == 403:
        return "cannot create resource" in error.message or "exceeded quota" in error.message
    return error.status >= 500 or error.status in _NOT_THE_TASKS_FAULT


def redis_client(url: str) -> Redis:
    """A client that reads replies as text and leaves trying again to its callers.

    Bytes that are not UTF-8 come as `surrogateescape` has them, and go back to Redis as they were.

    Args:
        url: The URL with user and password (`orbiter_contracts.redis_url`).
    """
    return _client(url, COMMAND_SECONDS)


def blocking_client(url: str) -> Redis:
    """A client for blocking reads, which is told where something has come, and small contents."""
    return _client(url, BLOCKING_SECONDS, parser_class=BoundedParser)


def _client(url: str, timeout: float, **options: Any) -> Redis:
    kind, found = connection_to(read_redis_url(url))
    ours: dict[str, Any] = {
        "decode_responses": True,
        "encoding_errors": "surrogateescape",
        "protocol": 2,
        "socket_timeout": timeout,
        "socket_connect_timeout": COMMAND_SECONDS,
        "retry": Retry(NoBackoff(), 0),
    }
    return Redis.from_pool(ConnectionPool(kind, **(found | ours | options)))


def redis_unusable(address: str, error: Exception) -> str:
    """Why Redis cannot be used, in a line for a status.

    Args:
        address: Where it is, without a password.
        error: What a command raised.
    """
    return (
        f"Redis at {address} cannot be used: {one_line(str(error), _SHOWN) or type(error).__name__}"
    )
