"""A session whose keys are damaged: its messages are answered once all the same."""

import json

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.queues import Queues
from support.wrapper import FakeClaude, Wrappers

from orbiter_contracts.queues import BARE, PO_GROUP

pytestmark = pytest.mark.integration


async def answered_once(wrappers: Wrappers, redis: Redis, fake_claude: FakeClaude) -> None:
    """Two messages, each answered by one turn."""
    queues = Queues(redis)
    wrappers.start("po-1", WORKER_TYPE="po", SNAPSHOT_KEY=BARE.po_snapshot("po-1"))
    answers = await queues.converse("one", "two")
    assert [answer.status for answer in answers] == ["success", "success"]
    await eventually(lambda: queues.is_settled(BARE.po_input("po-1"), PO_GROUP))
    assert len(fake_claude.turns) == 2


@pytest.mark.parametrize("figure", ["many", "nan", "inf", ""])
async def test_a_sum_that_is_no_number_begins_anew(
    wrappers: Wrappers, redis: Redis, fake_claude: FakeClaude, figure: str
) -> None:
    await redis.hset(BARE.po_state("po-1"), mapping={"turns": figure, "input_tokens": figure})
    await answered_once(wrappers, redis, fake_claude)
    state = await Queues(redis).state()
    assert (state.turns, state.input_tokens) == (2, 20)


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0])
async def test_a_cost_that_is_none_is_published_whole_and_with_all_that_goes_with_it(
    wrappers: Wrappers, redis: Redis, fake_claude: FakeClaude, cost: float
) -> None:
    fake_claude.says("fine", total_cost_usd=cost, num_turns=float("inf"))
    await answered_once(wrappers, redis, fake_claude)
    for _, fields in await redis.xrange(BARE.po_output("po-1")):
        assert json.loads(fields["data"], parse_constant=pytest.fail)
    state = await Queues(redis).state()
    assert (state.turns, state.unpriced, state.state) == (2, 2, "ready")
    assert await redis.llen(BARE.po_turns("po-1")) == 2


@pytest.mark.parametrize("key", [BARE.po_turns("po-1"), BARE.lifecycle])
async def test_a_key_of_the_wrong_kind_costs_only_itself(
    wrappers: Wrappers, redis: Redis, fake_claude: FakeClaude, key: str
) -> None:
    # The worker has begun: from here on only what goes with an answer meets the damage.
    queues = Queues(redis)
    fake_claude.hold()
    wrapper = wrappers.start("po-1", WORKER_TYPE="po")
    await queues.message("one")
    await eventually(lambda: fake_claude.turns)
    await redis.delete(key)
    await redis.hset(key, "not", "ours")
    fake_claude.release()
    assert [answer.status for answer in await queues.answers(1)] == ["success"]
    await eventually(lambda: queues.is_settled(BARE.po_input("po-1"), PO_GROUP))
    assert len(fake_claude.turns) == 1
    await wrapper.logged("answered")


async def test_an_attempt_is_published_although_the_lifecycle_is_damaged(
    wrappers: Wrappers, redis: Redis, fake_claude: FakeClaude
) -> None:
    queues = Queues(redis)
    fake_claude.hold()
    wrapper = wrappers.start("w-1", **await queues.bound_task())
    await eventually(lambda: fake_claude.turns)
    await redis.delete(BARE.lifecycle)
    await redis.set(BARE.lifecycle, "not a stream")
    fake_claude.release()
    await wrapper.exit_code()
    assert await redis.xlen(BARE.developer_output) == 1
    assert await queues.is_settled()


async def test_an_output_that_redis_refuses_for_good_is_in_the_log(
    wrappers: Wrappers, redis: Redis, fake_claude: FakeClaude
) -> None:
    queues = Queues(redis)
    fake_claude.hold()
    wrapper = wrappers.start("w-1", **await queues.bound_task(request_id="r-1"))
    await eventually(lambda: fake_claude.turns)
    await redis.delete(BARE.developer_output)
    await redis.set(BARE.developer_output, "not a stream")
    fake_claude.release()
    assert await wrapper.exit_code() == 3
    kept = json.loads((await wrapper.logged("outcome_not_published"))["output"])
    assert (kept["request_id"], kept["status"]) == ("r-1", "success")


async def test_an_answer_that_redis_refuses_is_published_when_it_takes_it(
    wrappers: Wrappers, redis: Redis, fake_claude: FakeClaude
) -> None:
    queues = Queues(redis)
    fake_claude.hold()
    first = wrappers.start("po-1", WORKER_TYPE="po", USER_ID="7")
    await queues.message("one", request_id="r-1")
    await eventually(lambda: fake_claude.turns)
    await redis.set(BARE.po_output("po-1"), "not a stream")
    fake_claude.release()
    assert await first.exit_code() == 3
    await redis.delete(BARE.po_output("po-1"))
    second = wrappers.start("po-1", WORKER_TYPE="po", USER_ID="7")
    (answer,) = await queues.answers(1)
    assert (answer.request_id, answer.status) == ("r-1", "success")
    await second.logged("answered_later")
    assert len(fake_claude.turns) == 1
