"""When to read again what is not urgent: all at the same moments, so that one wake-up serves all.

News of Jobs, of Pods and of what workers do come in crowds. On a busy machine each wake-up of an
idle process costs more than what it then reads, and what comes together is looked at together.
"""

import asyncio

HINTS_SECONDS = 0.5
"""What workers tell beside their outputs."""
CHILDREN_SECONDS = 1.0
"""Jobs and Pods: some fifteen changes for each task, of which hardly one is acted on. A multiple of
the other, so that their moments meet."""


async def next_moment(period: float) -> None:
    """Sleep until the loop's clock is a multiple of the period.

    Args:
        period: Seconds. All who name the same one wake in the same turn of the loop.
    """
    await asyncio.sleep(period - asyncio.get_running_loop().time() % period)
