"""When a process is beyond use: its limits were lowered, or what it has of something is used up.

The agent runs as the same user and may lower our limits; nothing raises them again but a new
process. A PO (po.py) that finds itself so ends, and its container starts afresh.
"""

import errno
import resource
from typing import Final

_USED_UP: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EFBIG, errno.EAGAIN)
"""No more files, memory, room in a file, or processes. Trying again here would fail again."""
_WATCHED: Final = tuple(name for name in sorted(dir(resource)) if name.startswith("RLIMIT_"))


class BeyondUseError(Exception):
    """This process can do no more work; the next one can."""


def used_up(error: BaseException) -> bool:
    """Whether an error says that this process has used up what it may have of something."""
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno in _USED_UP
    )


class Limits:
    """The limits of this process as they were when it began."""

    def __init__(self) -> None:
        self._first = _limits()

    def check(self) -> None:
        """See that they are still what they were.

        Raises:
            BeyondUseError: One is not; the text says which.
        """
        for name, now in _limits().items():
            if now != self._first[name]:
                raise BeyondUseError(
                    f"{name} of the worker was changed from {self._first[name]} to {now}"
                )


def _limits() -> dict[str, tuple[int, int]]:
    return {name: resource.getrlimit(getattr(resource, name)) for name in _WATCHED}
