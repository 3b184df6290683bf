"""How the stream of a watch is read: much at once, and with an ear for silence. Used by `kube`.

A watch of a busy cluster is many small packets, and each costs a decryption, a wake-up and a timer.
"""

import asyncio
from collections.abc import AsyncGenerator

import aiohttp


async def chunks(
    response: aiohttp.ClientResponse, *, silence: float, gather: float
) -> AsyncGenerator[bytes, None]:
    """Read a response that does not end by itself.

    Args:
        response: The response.
        silence: Seconds without a byte that mean that the connection is dead.
        gather: Seconds to read nothing after each chunk. What comes meanwhile stays in the socket
            and is the next chunk.

    Yields:
        What has come.

    Raises:
        SocketTimeoutError: Nothing came for `silence` seconds.
    """
    alarm = _Alarm(response, silence)
    try:
        async for chunk in response.content.iter_any():
            alarm.heard()
            yield chunk
            if gather:
                await _deaf(response, gather)
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
    transport = None if connection is None else connection.transport
    if not isinstance(transport, asyncio.ReadTransport) or transport.is_closing():
        return
    transport.pause_reading()
    try:
        await asyncio.sleep(seconds)
    finally:
        if not transport.is_closing():
            transport.resume_reading()
