"""What a process wrote, kept small in memory and large on disk.

An agent may print a hundred megabytes before the one line that matters. `OutputBuffer` takes the
bytes as they come (run.py), holds a little in memory, moves to unnamed files beyond that and
forgets the oldest beyond a cap; the adapters (agents/) read it back piece by piece.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

MEMORY_BYTES = 256 * 1024
"""What is held in memory before the first file is made."""
DISK_BYTES = 1024 * 1024 * 1024
"""What is kept at most; the oldest half is forgotten first."""
_CHUNK = 256 * 1024


class OutputBuffer:
    """Bytes in the order they were written. Positions count from the oldest byte still kept."""

    def __init__(
        self, directory: Path, *, memory_bytes: int = MEMORY_BYTES, disk_bytes: int = DISK_BYTES
    ) -> None:
        self._directory = directory
        self._memory_bytes = memory_bytes
        self._segment_bytes = disk_bytes // 2
        self._memory = bytearray()
        self._files: list[IO[bytes]] = []
        self._sizes: list[int] = []
        self.dropped = 0
        """Bytes that were written and are no longer kept."""

    @property
    def size(self) -> int:
        """Bytes that can be read."""
        return sum(self._sizes) + len(self._memory)

    def write(self, data: bytes) -> None:
        """Append. A full disk costs the oldest bytes, never an exception."""
        self._memory += data
        if len(self._memory) > self._memory_bytes:
            self._flush()

    def read(self, start: int, length: int) -> bytes:
        """Read `length` bytes from `start` on; fewer at the end."""
        parts = []
        for file, size in zip(self._files, self._sizes, strict=True):
            if 0 <= start < size and length > 0:
                file.seek(start)
                part = file.read(min(length, size - start))
                parts.append(part)
                length -= len(part)
                start += len(part)
            start -= size
        if length > 0 and start >= 0:
            parts.append(bytes(self._memory[start : start + length]))
        return b"".join(parts)

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Read from `start` to `end` (or all there is), a quarter of a megabyte at a time."""
        stop = self.size if end is None else min(end, self.size)
        while start < stop:
            data = self.read(start, min(_CHUNK, stop - start))
            yield data
            start += len(data)

    def close(self) -> None:
        """Give memory and disk back; nothing can be read any more."""
        for file in self._files:
            file.close()
        self._files, self._sizes = [], []
        self._memory.clear()

    def _flush(self) -> None:
        if not self._files or self._sizes[-1] >= self._segment_bytes:
            if len(self._files) > 1:
                self._forget_oldest()
            if not self._open_segment():
                return
        file = self._files[-1]
        try:
            file.seek(self._sizes[-1])
            while self._memory:
                written = file.write(self._memory)
                self._sizes[-1] += written
                del self._memory[:written]
        except OSError:
            self._without_disk()

    def _open_segment(self) -> bool:
        try:
            file = tempfile.TemporaryFile(dir=self._directory, buffering=0)  # noqa: SIM115
        except OSError:
            self._without_disk()
            return False
        self._files.append(file)
        self._sizes.append(0)
        return True

    def _without_disk(self) -> None:
        if self._files:
            self._forget_oldest()
        # A part of it may have been written before the disk was full.
        excess = max(len(self._memory) - self._memory_bytes, 0)
        del self._memory[:excess]
        self.dropped += excess

    def _forget_oldest(self) -> None:
        self._files.pop(0).close()
        self.dropped += self._sizes.pop(0)
