"""Reads what a command prints, however much that is, and keeps a bounded part of it."""

import asyncio

_CHUNK = 65536


class Kept:
    """The beginning and the end of a stream."""

    def __init__(self, most: int) -> None:
        self._head_size = most // 2
        self._tail_size = most - self._head_size
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    @property
    def truncated(self) -> bool:
        """Whether something was left out."""
        return self._left_out > 0

    def add(self, data: bytes) -> None:
        """Take more of it."""
        room = self._head_size - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if (over := len(self._tail) - self._tail_size) > 0:
            del self._tail[:over]
            self._left_out += over

    def content(self) -> bytes:
        """Return what was kept; a line in the middle says what was not."""
        if not self._left_out:
            return bytes(self._head + self._tail)
        gap = f"\n[... {self._left_out} bytes left out ...]\n".encode()
        return bytes(self._head) + gap + bytes(self._tail)


async def keep(stream: asyncio.StreamReader, kept: Kept) -> None:
    """Read to the end."""
    while data := await stream.read(_CHUNK):
        kept.add(data)


async def feed(stream: asyncio.StreamWriter, data: bytes) -> None:
    """Write all of it, unless nobody reads it."""
    try:
        stream.write(data)
        await stream.drain()
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        stream.close()
