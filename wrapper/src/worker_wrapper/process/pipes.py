"""The reading ends of a child's stdout and stderr, for run.py.

Read by the event loop as output comes; once the child is gone only what is in the pipe is taken, so
that whoever else holds the writing end cannot keep us waiting.
"""

import asyncio
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress

_PIPE_BYTES = 1024 * 1024
_CHUNK = 256 * 1024


class Tail:
    """The last bytes of a stream."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._data = bytearray()

    def write(self, data: bytes) -> None:
        """Append."""
        self._data += data
        if len(self._data) > 2 * self._size:
            del self._data[: -self._size]

    def read(self) -> bytes:
        """What was written last."""
        return bytes(self._data[-self._size :])


class Pipe:
    """A pipe whose content goes to `sink`."""

    def __init__(self, sink: Callable[[bytes], None]) -> None:
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        with suppress(OSError):
            fcntl.fcntl(self._read_end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def start(self) -> None:
        """The child has the writing end: let go of it, and read."""
        os.close(self.write_end)
        self._loop.add_reader(self._read_end, self._read)

    def drain(self) -> None:
        """Take what is in the pipe, without waiting for more."""
        for _ in range(_PIPE_BYTES // _CHUNK + 1):
            if not self._read():
                return

    def close(self) -> None:
        """Stop reading."""
        if self._read_end >= 0:
            self._loop.remove_reader(self._read_end)
            os.close(self._read_end)
            self._read_end = -1

    def _read(self) -> bool:
        if self._read_end < 0:
            return False
        try:
            data = os.read(self._read_end, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._sink(data)
        else:
            self.close()
        return bool(data)
