"""A parser of Redis replies that keeps the headlines and lets the contents go by.

For connections that block until something has come. Such a read cannot be asked to leave out the
entry it wakes up with, and that entry may be of any size: it is thrown away as it comes off the
socket, and what is wanted of it is then asked for in bounds (`streams`). The rule is short: texts
longer than a name and lists deeper than an entry are empty.
"""

import asyncio
from typing import Any, cast

from redis._parsers import _AsyncRESP2Parser
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse

LONGEST_TEXT = 1024
"""Names of streams and ids of entries are shorter."""
DEEPEST_LIST = 4
"""XREAD answers a list of streams, each with its name and a list of entries, each with its id."""
_CHUNK = 65536
_CLOSED = "Connection closed by server."


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
        line = await cast("asyncio.StreamReader", self._stream).readline()
        if not line.endswith(b"\r\n"):
            raise RedisConnectionError(_CLOSED)
        return line[:-2]

    async def _exactly(self, length: int) -> bytes:
        try:
            return await cast("asyncio.StreamReader", self._stream).readexactly(length)
        except asyncio.IncompleteReadError as error:
            raise RedisConnectionError(_CLOSED) from error
