"""How the stream of a watch is read: much at once, and with an ear for silence. Used by `client`.

A watch of a busy cluster is many small packets, and each costs a decryption, a wake-up and a timer.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import cast

import aiohttp

from orbiter_operator.runtime.throttle import Throttle

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
