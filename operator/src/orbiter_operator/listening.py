"""How the stream of a watch is read: much at once, and with an ear for silence. Used by `kube`.

A watch of a busy cluster is many small packets, and each costs a decryption, a wake-up and a timer.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import cast

import aiohttp

from orbiter_operator.pace import next_moment

_MUCH = 65536
_ROOM = 4 * _MUCH
"""Bytes that may come in a pause: about what the socket takes. The API server ends a watch that
does not take what it has to say."""


async def chunks(
    response: aiohttp.ClientResponse, *, silence: float, gather: float
) -> AsyncGenerator[bytes, None]:
    """Read a response that does not end by itself.

    Args:
        response: The response.
        silence: Seconds without a byte that mean that the connection is dead.
        gather: After each chunk nothing is read until the loop's clock is a multiple of these
            seconds. What comes meanwhile stays in the socket and is the next chunk. All of it is
            read before the next pause, and the more it was, the shorter that one is.

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
            if gather and len(chunk) < _MUCH:
                await _deaf(response, gather / (1 + taken // _ROOM))
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


async def _deaf(response: aiohttp.ClientResponse, seconds: float) -> None:
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
        await next_moment(seconds)
    finally:
        if not transport.is_closing():
            if limit is not None:
                limit()
            transport.resume_reading()
