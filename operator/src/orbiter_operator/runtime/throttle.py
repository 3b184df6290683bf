"""When to read again what is not urgent: all at the same moments, so that one wake-up serves all.

Events of Jobs, of Pods and of what workers do come in crowds. On a busy machine each wake-up of an
idle process costs more than what it then reads, and what comes together is handled together.
"""

import asyncio
from contextlib import suppress

HINTS_SECONDS = 0.5
"""What workers tell beside their outputs."""
UNHURRIED_SECONDS = 1.0
"""Jobs and Pods: some fifteen changes for each task, of which hardly one is acted on; and what
nobody waits for at all. A multiple of the other, so that their moments meet."""
_ROOM = 262_144
_CROWD = 16


async def next_moment(period: float) -> None:
    """Sleep until the loop's clock is a multiple of the period.

    Args:
        period: Seconds. All who name the same one wake in the same turn of the loop.
    """
    await asyncio.sleep(_left(period))


class Throttle:
    """The pauses of watches that bring much of which little is urgent.

    The API server ends a watch that does not take what it has to say, and until then others wait
    with it. So a pause is shorter after much was read, and ends when much is to be expected.

    Args:
        period: Seconds; a pause ends when the loop's clock is a multiple of them.
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self._expected = 0
        self._crowd = asyncio.Event()

    def expect(self) -> None:
        """An object was made, whose changes will come; after some of these all pauses end."""
        self._expected += 1
        if self._expected >= _CROWD:
            self._expected = 0
            self._crowd.set()
            self._crowd.clear()

    async def wait(self, taken: int) -> None:
        """Wait out a pause.

        Args:
            taken: Bytes that were read since the last one.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_left(self._period / (1 + taken // _ROOM))):
                await self._crowd.wait()


def _left(period: float) -> float:
    return period - asyncio.get_running_loop().time() % period
