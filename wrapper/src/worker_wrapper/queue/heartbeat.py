"""While the agent runs: keep its entry ours, and know when the agent has to stop.

Both functions run beside a turn (message_handler.py). They set its StopTurn and never its outcome.
"""

import asyncio
from contextlib import suppress
from typing import Final

from redis.exceptions import ResponseError

from worker_wrapper.logging import Log
from worker_wrapper.queue.claims import Claim
from worker_wrapper.queue.connection import RedisUnavailableError
from worker_wrapper.shutdown import Shutdown, StopTurn

STANDALONE_SECONDS: Final = 20.0
"""A third of the idle time after which others may take the entry."""
BOUND_SECONDS: Final = 5.0
"""So that a cancelled task's agent is gone soon after its entry is."""
RESERVE_SECONDS: Final = 5.0
"""Part of the grace period kept for ending the agent and publishing what came of it."""
CHECKPOINT_RESERVE_SECONDS: Final = 10.0
"""The same, where a checkpoint has to be made of a workspace."""


async def keep_claim(
    claim: Claim, stop: StopTurn, shutdown: Shutdown, *, every_seconds: float, log: Log
) -> None:
    """Renew the claim again and again, and once more at once when we are asked to leave.

    Returns when nobody wants our answer any more; the turn is stopped then. While Redis is away
    the agent goes on: its answer is what was paid for, and it can be published later.
    """
    hurry = asyncio.create_task(shutdown.requested.wait())
    try:
        while True:
            if hurry.done():
                await asyncio.sleep(every_seconds)
            else:
                await asyncio.wait({hurry}, timeout=every_seconds)
            try:
                # Twice, because a connection that was idle so long may have been closed.
                state = await claim.renew(tries=2)
            except (RedisUnavailableError, ResponseError) as error:
                log.warning("claim_not_renewed", entry=claim.entry.id, error=str(error))
                continue
            if state in ("taken", "gone"):
                log.warning("claim_ended", entry=claim.entry.id, state=state)
                stop.set("cancelled")
                return
    finally:
        hurry.cancel()


async def obey_shutdown(
    stop: StopTurn,
    shutdown: Shutdown,
    *,
    grace_seconds: float,
    reserve_seconds: float = RESERVE_SECONDS,
) -> None:
    """Once asked to leave, give the turn the grace period but for a reserve, then stop it."""
    await shutdown.requested.wait()
    patience = max(grace_seconds - reserve_seconds, grace_seconds / 2)
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await shutdown.urgent.wait()
    stop.set("cancelled" if shutdown.superseded.is_set() else "terminated")
