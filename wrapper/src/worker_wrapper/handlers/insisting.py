"""An outcome that Redis does not take is kept, and tried again for as long as the pod lives."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from worker_wrapper.logging import Log
from worker_wrapper.queue.connection import RedisUnavailableError
from worker_wrapper.queue.heartbeat import RESERVE_SECONDS
from worker_wrapper.shutdown import Shutdown

PUBLISH_SECONDS: Final = 2400.0
"""How long an outcome is kept for a Redis that is away: what a Job's deadline leaves beyond the
agent's time."""
_PAUSE_SECONDS: Final = 2.0


async def insist(
    settle: Callable[[], Awaitable[bool]],
    shutdown: Shutdown,
    *,
    grace_seconds: float,
    log: Log,
    reserve_seconds: float = RESERVE_SECONDS,
    pause_seconds: float = _PAUSE_SECONDS,
) -> bool:
    """Publish what was paid for, however long Redis is away; until this pod has to go.

    Args:
        settle: Publishes; raises `RedisUnavailableError` where that cannot be done.
        shutdown: Says when we have to go.
        grace_seconds: How long we may stay then; all of it is used, but for the reserve.
        reserve_seconds: What our last words are left; and for so long it is tried in any case.
        log: Told that the outcome is kept.
        pause_seconds: Between two tries.

    Returns:
        What `settle` has returned.

    Raises:
        RedisUnavailableError: Time is up. A try that was under way may have succeeded all the same.
    """
    loop = asyncio.get_running_loop()
    error = RedisUnavailableError("Redis has not answered in time")

    async def shortened() -> None:
        """Have the time end before the grace period does; soon when we are asked twice."""
        await shutdown.requested.wait()
        patience = max(grace_seconds - reserve_seconds, grace_seconds / 2)
        least = loop.time() + reserve_seconds
        until = max(shutdown.requested_at + patience, least)
        limit.reschedule(min(limit.when() or until, until))
        await shutdown.urgent.wait()
        least = max(least, loop.time() + reserve_seconds)
        limit.reschedule(min(limit.when() or least, least))

    try:
        async with asyncio.timeout(PUBLISH_SECONDS) as limit:
            leaving = asyncio.create_task(shortened())
            try:
                while True:
                    try:
                        return await settle()
                    except RedisUnavailableError as failed:
                        error = failed
                        log.warning("outcome_kept", error=str(failed))
                        await asyncio.sleep(pause_seconds)
            finally:
                leaving.cancel()
                await asyncio.gather(leaving, return_exceptions=True)
    except TimeoutError:
        raise error from None
