"""The JSON objects a CLI prints, one a line, read while it prints them (turn.py).

What matters comes in short lines; a long one is skipped, so that this never holds more than a bound
whatever is printed.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from worker_wrapper.spoken import loads

LONGEST_BYTES: Final = 256 * 1024


class ObjectLines:
    """Calls `hear` with each object as soon as its line is complete."""

    def __init__(self, hear: Callable[[Mapping[str, Any]], None]) -> None:
        self._hear = hear
        self._begun = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> None:
        """Take what was printed next."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._begin(line)
            if not self._skipping:
                self._line(bytes(self._begun))
            self._begun.clear()
            self._skipping = False
        self._begin(rest)

    def _begin(self, piece: bytes) -> None:
        if len(self._begun) + len(piece) > LONGEST_BYTES:
            self._skipping = True
            self._begun.clear()
        if not self._skipping:
            self._begun += piece

    def _line(self, line: bytes) -> None:
        if not line.startswith(b"{"):
            return
        try:
            value = loads(line)
        except ValueError:
            return
        if isinstance(value, dict):
            self._hear(value)
