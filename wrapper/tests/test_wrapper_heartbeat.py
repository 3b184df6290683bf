"""What happens beside a turn: the claim stays ours, and the turn ends when nobody wants it."""

import asyncio

import structlog

from worker_wrapper.queue.claims import ClaimState
from worker_wrapper.queue.connection import TRIES, RedisUnavailableError
from worker_wrapper.queue.heartbeat import keep_claim
from worker_wrapper.queue.streams import Entry
from worker_wrapper.shutdown import Shutdown, StopTurn

A_MOMENT = 0.001
FOREVER = 3600.0


class ScriptedClaim:
    """Answers each renewal with the next of these; the last one for ever."""

    def __init__(self, *states: ClaimState | Exception) -> None:
        self.entry = Entry("1-1", {})
        self.states = list(states)
        self.renewals = 0
        self.tries: list[int] = []
        self.renewed = asyncio.Event()

    async def renew(self, *, tries: int = TRIES) -> ClaimState:
        state = self.states[min(self.renewals, len(self.states) - 1)]
        self.renewals += 1
        self.tries.append(tries)
        self.renewed.set()
        if isinstance(state, Exception):
            raise state
        return state

    async def settle(self, output: str, event: str, *, dead_reason: str = "") -> bool:
        raise AssertionError("a heartbeat settles nothing")


def beating(
    claim: ScriptedClaim, stop: StopTurn, shutdown: Shutdown, every_seconds: float = A_MOMENT
) -> asyncio.Task[None]:
    log = structlog.get_logger()
    return asyncio.create_task(
        keep_claim(claim, stop, shutdown, every_seconds=every_seconds, log=log)
    )


async def test_the_turn_is_stopped_when_the_entry_is_gone() -> None:
    stop = StopTurn()
    await beating(ScriptedClaim("held", "held", "gone"), stop, Shutdown())
    assert stop.reason == "cancelled"


async def test_the_turn_is_stopped_when_another_worker_has_the_entry() -> None:
    stop = StopTurn()
    await beating(ScriptedClaim("taken"), stop, Shutdown())
    assert stop.reason == "cancelled"


async def test_the_turn_goes_on_while_redis_is_away_or_lost_its_data() -> None:
    stop, claim = StopTurn(), ScriptedClaim(RedisUnavailableError("away"), "lost", "lost", "gone")
    await beating(claim, stop, Shutdown())
    assert claim.renewals == 4


async def test_a_beat_tries_again_once_because_an_idle_connection_may_be_closed() -> None:
    claim = ScriptedClaim("gone")
    await beating(claim, StopTurn(), Shutdown())
    assert claim.tries == [2]


async def test_a_request_to_leave_makes_it_look_at_once() -> None:
    stop, shutdown, claim = StopTurn(), Shutdown(), ScriptedClaim("gone")
    task = beating(claim, stop, shutdown, every_seconds=FOREVER)
    await asyncio.sleep(0)
    assert claim.renewals == 0
    shutdown.request()
    await task
    assert stop.reason == "cancelled"


async def test_after_a_request_to_leave_it_goes_on_in_its_rhythm() -> None:
    shutdown, claim = Shutdown(), ScriptedClaim("held")
    shutdown.request()
    task = beating(claim, StopTurn(), shutdown, every_seconds=FOREVER)
    await claim.renewed.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    assert claim.renewals == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
