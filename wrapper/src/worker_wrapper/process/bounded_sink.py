"""What is compressed is written here, and ends where it becomes too large."""

import io
from collections.abc import Callable
from typing import Any


class BoundedSink(io.RawIOBase):
    """Takes bytes up to a limit.

    Args:
        limit: How many.
        refused: Makes what is raised, of how many there were then.

    Attributes:
        data: What was taken.
    """

    def __init__(self, limit: int, refused: Callable[[int], Exception]) -> None:
        super().__init__()
        self.data = bytearray()
        self._limit = limit
        self._refused = refused
        self._full = False

    def write(self, data: Any) -> int:
        """Take some more.

        Raises:
            Exception: What `refused` makes, once: whoever is closed because of it still wants to
                write its end.
        """
        if self._full:
            return len(data)
        self.data += data
        if len(self.data) > self._limit:
            self._full = True
            raise self._refused(len(self.data))
        return len(data)
