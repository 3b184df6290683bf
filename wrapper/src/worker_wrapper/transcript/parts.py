"""What was appended to a transcript and is in no store yet: a file of our own until it is.

The file has no name, so that the agent, which has our uid, finds nothing of it.
"""

import gzip
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from orbiter_contracts.stored_transcripts import MAX_PART_BYTES
from orbiter_contracts.transcript import MAX_EVENT_BYTES, AnyEvent, CutEvent
from orbiter_contracts.transcript_parts import part_line

_CHUNK: Final = 1024 * 1024
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class Part:
    """One part, complete.

    Attributes:
        first: The sequence of its first event.
        events: How many it has.
        size: How many bytes.
        file: They, from the beginning.
    """

    first: int
    events: int
    size: int
    file: IO[bytes]

    def chunks(self) -> Iterator[bytes]:
        """Its bytes."""
        self.file.seek(0)
        while chunk := self.file.read(_CHUNK):
            yield chunk


class Parts:
    """Gathers events until they are taken as a part.

    Args:
        directory: Where the file is.
        most: How many bytes of JSON a part has; what is more is counted in its last event.
    """

    def __init__(self, directory: Path, *, most: int = MAX_PART_BYTES) -> None:
        self._directory = directory
        self._most = most - MAX_EVENT_BYTES
        self._begin()

    def _begin(self) -> None:
        self._file: IO[bytes] | None = None
        self._packer: gzip.GzipFile | None = None
        self._first = self._events = self._bytes = self._lost_events = self._lost_bytes = 0
        self._lost_from: AnyEvent | None = None

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Add events that have their numbers. A disk that takes no more costs them, and no turn."""
        for event in events:
            line = part_line(event)
            if self._lost_from is not None or self._bytes + len(line) > self._most:
                self._lose(event, len(line))
                continue
            try:
                self._write(event, line)
            except OSError:
                self._lose(event, len(line))

    def take(self) -> Part | None:
        """What was gathered, and begin anew; None when there is nothing.

        Raises:
            OSError: The disk has not taken it; it is lost.
        """
        file, packer, first, events = self._file, self._packer, self._first, self._events
        lost, at = self._lost_events, self._lost_from
        cut = None
        if at is not None:
            head = {name: getattr(at, name) for name in ("sequence", "at", "attempt", "request_id")}
            cut = CutEvent(**head, events=lost, bytes=self._lost_bytes)
        self._begin()
        if file is None or packer is None:
            if at is not None:
                raise OSError(f"the disk has not taken {lost} events of the transcript")
            return None
        if cut is not None:
            packer.write(part_line(cut))
        packer.close()
        return Part(first, events, file.tell(), file)

    def _write(self, event: AnyEvent, line: bytes) -> None:
        if self._file is None or self._packer is None:
            self._file = tempfile.TemporaryFile(dir=self._directory, prefix="transcript-")  # noqa: SIM115
            self._packer = gzip.GzipFile("", "wb", _LEVEL, self._file, mtime=0)
            self._first = event.sequence
        self._packer.write(line)
        self._bytes += len(line)
        self._events += 1

    def _lose(self, event: AnyEvent, size: int) -> None:
        self._lost_from = self._lost_from or event
        self._lost_events += 1
        self._lost_bytes += size
