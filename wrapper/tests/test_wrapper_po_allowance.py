"""Turns of a PO worker that somebody pays for: none is begun unpaid, and each has an end."""

import signal

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.namespaced import NAMESPACES
from support.queues import Queues
from support.wrapper import FakeClaude, WrapperProcess, Wrappers

from orbiter_contracts import POState
from orbiter_contracts.exit_codes import INTERRUPTED
from orbiter_contracts.queues import BARE, PO_GROUP

pytestmark = pytest.mark.integration

STATE = BARE.po_state("po-1")
PRICED = {"modelUsage": {"opus": {"inputTokens": 10, "outputTokens": 5}}}
"""With it Claude's cost is that of its whole conversation, which does not grow here."""
DIES_ONCE = '[ -e "$home/died" ] || { touch "$home/died"; kill -9 $PPID; }\n'


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


@pytest.fixture(autouse=True)
def priced(fake_claude: FakeClaude) -> None:
    fake_claude.says("Hello.", **PRICED)


def start(wrappers: Wrappers, **env: str) -> WrapperProcess:
    kept = {"SNAPSHOT_KEY": BARE.po_snapshot("po-1")}
    return wrappers.start("po-1", WORKER_TYPE="po", **kept, **env)


async def allow(queues: Queues, turns: int) -> None:
    await queues.redis.hset(STATE, "turns_allowed", turns)


async def counts(queues: Queues) -> tuple[int, int, int]:
    state = await queues.state()
    return state.asked, state.settled, state.unpriced


async def until(queues: Queues, asked: int, settled: int, unpriced: int) -> POState:
    """Wait until the state says so many."""

    async def is_so() -> bool:
        return await counts(queues) == (asked, settled, unpriced)

    try:
        await eventually(is_so)
    except AssertionError:
        raise AssertionError(await counts(queues)) from None
    return await queues.state()


async def times_refused(redis: Redis) -> int:
    """How often workers have looked at all of their state, as one does that may not begin."""
    return int((await redis.info("commandstats"))["cmdstat_hgetall"]["calls"])


async def stays(queues: Queues) -> None:
    """Wait until the worker has asked again, twice, whether it may begin."""
    before = await times_refused(queues.redis)

    async def asked_again() -> bool:
        return await times_refused(queues.redis) >= before + 2

    await eventually(asked_again)


@pytest.mark.parametrize("namespace", NAMESPACES, indirect=True)
async def test_no_more_turns_are_begun_than_are_allowed(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    await allow(queues, 1)
    for prompt in ("one", "two"):
        await queues.message(prompt)
    start(wrappers)
    await queues.answers(1)
    await stays(queues)
    assert len(fake_claude.turns) == 1
    state = await until(queues, 1, 1, 0)
    assert (state.turns, state.cost_usd, state.state) == (1, 0.25, "ready")
    # What it may not answer yet it has not taken: no delivery counts against the message.
    [group] = await queues.redis.xinfo_groups(BARE.po_input("po-1"))
    assert group["pending"] == 0
    await allow(queues, 2)
    await queues.answers(2)
    await until(queues, 2, 2, 0)


async def test_nobody_who_says_a_number_means_any_number(
    wrappers: Wrappers, queues: Queues
) -> None:
    start(wrappers)
    await queues.converse("one", "two", "/new", "three")
    state = await until(queues, 3, 3, 0)
    assert (state.turns, state.cost_usd) == (3, 0.5), "two conversations"


async def test_a_turn_whose_agent_tells_no_cost_is_unpriced(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    start(wrappers)
    await queues.converse("one")
    fake_claude.does("exit 7")
    await queues.converse("two")
    fake_claude.says("Hello.", total_cost_usd=None)
    await queues.converse("three")
    state = await until(queues, 3, 3, 2)
    assert state.cost_usd == 0.25


async def test_a_turn_that_its_worker_died_of_is_unpriced_and_its_message_another_turn(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.does(DIES_ONCE + fake_claude.behaviour)
    await allow(queues, 1)
    await queues.message("one")
    await start(wrappers).exit_code()
    await until(queues, 1, 0, 0)
    start(wrappers)
    await until(queues, 1, 1, 1)
    await stays(queues)
    assert (await queues.state()).state == "ready", "it may be put to sleep"
    await allow(queues, 2)
    await queues.answers(1)
    state = await until(queues, 2, 2, 1)
    assert (state.turns, state.cost_usd) == (1, 0.25)


async def test_a_worker_that_waits_with_a_message_leaves_when_it_is_asked_to(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    """It cannot know which message has what an earlier worker kept, before it has taken one."""
    await queues.redis.hset(
        STATE, mapping={"asked": 1, "settled": 0, "turns_allowed": 1, "interrupted": "{}"}
    )
    entry = await queues.message("one")
    wrapper = start(wrappers)
    await until(queues, 1, 1, 1)
    await stays(queues)
    assert not fake_claude.turns
    wrapper.send(signal.SIGTERM)
    assert await wrapper.exit_code() == 0
    [held] = await queues.redis.xpending_range(BARE.po_input("po-1"), PO_GROUP, "-", "+", 9)
    assert (held["message_id"], held["times_delivered"]) == (entry, 1)


async def test_a_poisoned_message_is_no_turn_and_each_of_its_deaths_is_one(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.does("kill -9 $PPID")
    await queues.message("bad")
    for _ in range(2):
        await start(wrappers).exit_code()
    start(wrappers)
    [bad] = await queues.answers(1)
    assert bad.reason == "WorkerCrashed"
    await until(queues, 2, 2, 2)


async def test_a_turn_that_is_cut_off_and_goes_on_is_one_turn(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    """Nothing was heard of the model yet: what goes on is the same turn, with the same money."""
    answers = fake_claude.behaviour
    fake_claude.does("trap 'exit 143' TERM; while :; do sleep 0.05; done")
    await allow(queues, 1)
    first = start(wrappers, TERMINATION_GRACE_SECONDS="2")
    await queues.message("one")
    await eventually(lambda: fake_claude.turns)
    first.send(signal.SIGTERM)
    assert await first.exit_code() == INTERRUPTED
    await until(queues, 1, 0, 0)
    fake_claude.does(answers)
    start(wrappers)
    await queues.answers(1)
    state = await until(queues, 1, 1, 0)
    assert state.cost_usd == 0.25


@pytest.mark.timeout(300)
@pytest.mark.parametrize("after", range(6, 30, 3))
async def test_wherever_a_worker_dies_each_turn_that_was_begun_has_one_end(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, after: int
) -> None:
    await allow(queues, 4)
    for prompt in ("one", "two"):
        await queues.message(prompt)
    await wrappers.start_dying(
        "po-1", after=after, WORKER_TYPE="po", SNAPSHOT_KEY=BARE.po_snapshot("po-1")
    ).exit_code()
    start(wrappers)
    await queues.answers(2)
    await queues.told("ready", 2)
    state = await queues.state()
    assert state.asked == state.settled == 2 + state.unpriced
    assert len(fake_claude.turns) <= state.asked <= 3
