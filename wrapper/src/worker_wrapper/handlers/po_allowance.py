"""How many turns a PO may begin, and which of those it has begun have died, at an unknown cost.

Who pays for a session puts the money of one turn aside after the other, and says in its state how
many may be begun (`POState.turns_allowed`); where nobody says it, they are any number. No turn is
begun beyond that, whatever this worker's last one died of: so that they are counted as begun before
the agent is asked, in the step that says `busy`, and as over in the step that answers. One that is
neither under way nor kept nor answered has died: it is over, and what it has cost nobody knows.
"""

import asyncio
from typing import Final

from orbiter_contracts import POState
from worker_wrapper.handlers.message_handler import Worker
from worker_wrapper.handlers.po_cut import CutTurns
from worker_wrapper.queue.spool import Spool

HELD_SECONDS: Final = 0.5
"""How often a worker that may take no message asks whether it still may not."""


class Allowance:
    """That of one worker.

    Args:
        worker: The worker.
        cuts: Its turns that were cut off and are kept.
        spool: Its answer that could not be published.
    """

    def __init__(self, worker: Worker, cuts: CutTurns, spool: Spool) -> None:
        self._worker = worker
        self._cuts = cuts
        self._spool = spool

    async def opens(self) -> bool:
        """Whether a message may be taken now; waits a moment before it says no.

        One that an earlier worker had goes on, if there is something to go on with: it begins no
        other turn.
        """
        if await self._worker.redis.call("HGET", self._worker.state_key, "turns_allowed") is None:
            return True
        state = await self.state()
        if state.asked > state.settled and (self._spool.waits() or await self._cuts.any()):
            return True
        if _may_begin(await self._without_lost(state)):
            return True
        await asyncio.sleep(HELD_SECONDS)
        return False

    async def turn(self, before: POState, *, asks: bool, goes_on: bool) -> int:
        """Which turn it is in which a message is answered, as soon as that one may begin.

        Args:
            before: The session's state.
            asks: Whether the agent is asked.
            goes_on: Whether the turn was cut off in an earlier pod, and kept.

        Returns:
            Its number, from 1 on; 0 where the agent is not asked.
        """
        if goes_on and before.asked > before.settled:
            return before.asked
        state = await self._without_lost(before)
        while asks and not _may_begin(state):
            await asyncio.sleep(HELD_SECONDS)
            state = await self.state()
        return state.asked + 1 if asks else 0

    async def state(self) -> POState:
        """The session's state as it is now."""
        flat = await self._worker.redis.call("HGETALL", self._worker.state_key)
        return POState.of(dict(zip(flat[::2], flat[1::2], strict=True))) or POState()

    async def _without_lost(self, state: POState) -> POState:
        """The state in which a turn that died is over; numbers, so that saying it twice is once."""
        if state.asked <= state.settled:
            return state
        unpriced = state.unpriced + 1
        fields = ("settled", str(state.asked), "unpriced", str(unpriced))
        await self._worker.redis.call("HSET", self._worker.state_key, *fields)
        self._worker.log.info("turn_lost", turn=state.asked, unpriced=unpriced)
        return state.model_copy(update={"settled": state.asked, "unpriced": unpriced})


def _may_begin(state: POState) -> bool:
    return state.turns_allowed is None or state.asked < state.turns_allowed
