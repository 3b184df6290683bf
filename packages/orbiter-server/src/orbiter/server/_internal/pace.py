"""How fast the transcripts of a namespace are read: whoever runs as a worker may write faster.

Measured: a MiB of the shortest events takes 0.3 s of CPU, on the loop that everybody else waits
for. A worker of ours writes 128 KiB a second at most, and a hundredth of that as a rule.
"""

import time
from collections.abc import Callable
from typing import Final

AT_FIRST: Final = 16 * 1024 * 1024
"""Bytes that are read without a pause: sixty whole transcripts, when somebody begins to look."""
A_SECOND: Final = 512 * 1024


class Pace:
    """Of one namespace.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left, self._at = float(AT_FIRST), clock()

    def after(self, size: int) -> float:
        """Return the seconds to wait after so many bytes."""
        now = self._clock()
        self._left = min(self._left + (now - self._at) * A_SECOND, AT_FIRST) - size
        self._at = now
        return max(-self._left / A_SECOND, 0.0)
