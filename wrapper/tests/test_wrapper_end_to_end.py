"""What survives: crashes, broken connections and a Redis that goes away, at every step.

The proxy breaks the connection at one command; so each test runs once per command of a whole turn,
and whatever the step, there is one outcome and nothing is left on the queue.
"""

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.queues import RECORD, Queues
from support.redis_proxy import Fault, RedisProxy, When, redis_proxy
from support.redis_server import RedisServer, client_of
from support.wrapper import FakeClaude, WrapperProcess, Wrappers

from orbiter_contracts.queues import BARE, PO_GROUP

pytestmark = pytest.mark.integration

DEVELOPER_COMMANDS = 20
"""At least as many commands as a developer's whole life has; a test below counts them."""
PO_STEPS = range(1, 20)
"""The commands of a PO worker until it waits for a third message."""
STEPS = range(1, DEVELOPER_COMMANDS)
MOMENTS = [(number, when) for number in STEPS for when in ("before", "after")]


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[RedisProxy]:
    async with redis_proxy(redis_server.port) as proxy:
        yield proxy


def kill(wrapper: list[WrapperProcess]) -> None:
    wrapper[0].send(signal.SIGKILL)


async def test_the_moments_cover_a_developers_whole_life(
    wrappers: Wrappers, queues: Queues, proxy: RedisProxy
) -> None:
    for kind in ({}, await queues.bound_task()):
        proxy.commands.clear()
        await queues.task()
        await wrappers.start(REDIS_URL=proxy.url, **kind).exit_code()
        assert 8 < len(proxy.commands) < DEVELOPER_COMMANDS, [c[0] for c in proxy.commands]


@pytest.mark.parametrize("number", STEPS)
@pytest.mark.parametrize("kind", ["standalone", "bound"])
async def test_a_developer_killed_at_any_step_and_started_again_leaves_one_outcome(
    wrappers: Wrappers, queues: Queues, proxy: RedisProxy, kind: str, number: int
) -> None:
    await queues.group(BARE.developer_input, "developer-workers")
    environ = await queues.bound_task() if kind == "bound" else {}
    if kind == "standalone":
        await queues.task()
    first: list[WrapperProcess] = []
    proxy.fault = Fault(number, "before", also=lambda: kill(first))
    first.append(wrappers.start(REDIS_URL=proxy.url, **environ))
    if await first[0].exit_code() == 0:
        assert len(proxy.commands) < number, "the fault was not reached"
    if not (kind == "standalone" and await queues.is_settled()):
        assert await wrappers.start(**environ).exit_code() == 0
    assert [output.status for output in await queues.outputs()] == ["success"]
    assert await queues.is_settled()


@pytest.mark.parametrize(("number", "when"), MOMENTS)
@pytest.mark.parametrize("kind", ["standalone", "bound"])
async def test_a_connection_lost_at_any_step_costs_no_outcome_and_doubles_none(
    wrappers: Wrappers,
    queues: Queues,
    proxy: RedisProxy,
    fake_claude: FakeClaude,
    kind: str,
    number: int,
    when: When,
) -> None:
    environ = await queues.bound_task() if kind == "bound" else {}
    if kind == "standalone":
        await queues.task()
    proxy.fault = Fault(number, when)
    assert await wrappers.start(REDIS_URL=proxy.url, **environ).exit_code() == 0
    assert [output.status for output in await queues.outputs()] == ["success"]
    assert len(fake_claude.turns) == 1
    assert await queues.is_settled()


@pytest.mark.parametrize("number", PO_STEPS)
async def test_a_po_killed_at_any_step_answers_every_message_once_in_order(
    wrappers: Wrappers, queues: Queues, proxy: RedisProxy, number: int
) -> None:
    for request in ("r-1", "r-2"):
        await queues.message(f"say {request}", request_id=request)
    first: list[WrapperProcess] = []
    proxy.fault = Fault(number, "before", also=lambda: kill(first))
    first.append(wrappers.start("po-1", WORKER_TYPE="po", REDIS_URL=proxy.url))
    await first[0].exit_code()
    second = wrappers.start("po-1", WORKER_TYPE="po")
    answers = await queues.answers(2)
    second.send(signal.SIGTERM)
    assert await second.exit_code() == 0
    assert [answer.request_id for answer in answers] == ["r-1", "r-2"]
    assert {answer.session_id for answer in answers} == {answers[0].session_id}
    assert await queues.is_settled(BARE.po_input("po-1"), PO_GROUP)


async def test_a_task_of_a_dead_worker_is_taken_over_after_a_minute(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    entry = await queues.task()
    dead = wrappers.start("w-1")
    await eventually(lambda: fake_claude.turns)
    dead.send(signal.SIGKILL)
    await dead.exit_code()
    await leave_idle(queues, "w-1", entry)
    fake_claude.release()
    assert await wrappers.start("w-2").exit_code() == 0
    assert (await queues.output()).worker_id == "w-2"
    assert await queues.is_settled()


async def test_a_task_that_killed_two_workers_is_answered_by_the_third_and_put_aside(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    await queues.task(request_id="r-1")
    for count in (1, 2):
        wrapper = wrappers.start()
        await eventually(lambda number=count: len(fake_claude.turns) == number)
        wrapper.send(signal.SIGKILL)
        await wrapper.exit_code()
    assert await wrappers.start().exit_code() == 0
    output = await queues.output()
    assert (output.request_id, output.status, output.reason) == ("r-1", "error", "WorkerCrashed")
    assert len(fake_claude.turns) == 2
    (letter,) = await queues.dead_letters()
    assert json.loads(letter["data"])["request_id"] == "r-1"
    assert "3 times" in letter["reason"]
    assert await queues.is_settled()


async def test_a_worker_frozen_until_another_took_its_task_publishes_nothing(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    entry = await queues.task()
    frozen = wrappers.start("w-1")
    await eventually(lambda: fake_claude.turns)
    frozen.send(signal.SIGSTOP)
    await leave_idle(queues, "w-1", entry)
    other = wrappers.start("w-2")
    await eventually(lambda: len(fake_claude.turns) == 2)
    fake_claude.release()
    assert await other.exit_code() == 0
    frozen.send(signal.SIGCONT)
    assert await frozen.exit_code() == 0
    assert [output.worker_id for output in await queues.outputs()] == ["w-2"]
    await frozen.logged("superseded")


async def test_a_waiting_worker_that_was_frozen_while_its_connection_died_works_again(
    wrappers: Wrappers, queues: Queues, proxy: RedisProxy
) -> None:
    wrapper = wrappers.start(REDIS_URL=proxy.url)
    await eventually(lambda: len(proxy.named("XREADGROUP")) == 2)
    wrapper.send(signal.SIGSTOP)
    proxy.cut()
    await queues.task()
    wrapper.send(signal.SIGCONT)
    assert await wrapper.exit_code() == 0
    assert (await queues.output()).status == "success"


async def test_a_worker_frozen_in_mid_turn_while_its_connection_died_publishes_its_outcome(
    wrappers: Wrappers, queues: Queues, proxy: RedisProxy, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    await queues.task()
    wrapper = wrappers.start(REDIS_URL=proxy.url)
    await eventually(lambda: fake_claude.turns)
    wrapper.send(signal.SIGSTOP)
    proxy.cut()
    fake_claude.release()
    wrapper.send(signal.SIGCONT)
    assert await wrapper.exit_code() == 0
    assert (await queues.output()).status == "success"
    assert len(fake_claude.turns) == 1


class Breakable:
    """Wrappers on a Redis of this test's own."""

    def __init__(self, server: RedisServer, directory: Path, claude: FakeClaude) -> None:
        self.server = server
        self.wrappers = Wrappers(directory, server.url, claude)


@pytest.fixture
async def breakable(
    own_redis_server: RedisServer, tmp_path: Path, fake_claude: FakeClaude
) -> AsyncIterator[Breakable]:
    breakable = Breakable(own_redis_server, tmp_path, fake_claude)
    yield breakable
    breakable.wrappers.end()


@pytest.mark.parametrize("kind", ["standalone", "bound"])
async def test_a_redis_killed_and_restarted_in_mid_turn_gets_the_outcome(
    breakable: Breakable, fake_claude: FakeClaude, kind: str
) -> None:
    fake_claude.hold()
    async with client_of(breakable.server) as redis:
        queues = Queues(redis)
        environ = await queues.bound_task() if kind == "bound" else {}
        if kind == "standalone":
            await queues.task()
        wrapper = breakable.wrappers.start(**environ)
        await eventually(lambda: fake_claude.turns)
        breakable.server.kill()
        fake_claude.release()
        assert (await wrapper.logged("redis_retry"))["failures"] == 1
        breakable.server.start()
        assert await wrapper.exit_code() == 0
        assert [output.status for output in await queues.outputs()] == ["success"]
        assert await queues.is_settled()
        assert await queues.story() == "started ready busy completed stopped"


@pytest.mark.parametrize("kind", ["standalone", "bound"])
async def test_a_redis_that_lost_its_data_in_mid_turn_gets_the_outcome(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, kind: str
) -> None:
    fake_claude.hold()
    environ = await queues.bound_task(request_id="r-1") if kind == "bound" else {}
    if kind == "standalone":
        await queues.task(request_id="r-1")
    wrapper = wrappers.start(**environ)
    await eventually(lambda: fake_claude.turns)
    await queues.redis.flushall()
    fake_claude.release()
    assert await wrapper.exit_code() == 0
    assert (await queues.output()).request_id == "r-1"


async def test_a_redis_that_lost_its_data_and_has_new_work_gets_the_outcome_too(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    await queues.task(request_id="r-1")
    wrapper = wrappers.start()
    await eventually(lambda: fake_claude.turns)
    await queues.redis.flushall()
    await queues.group(BARE.developer_input, "developer-workers")
    await queues.task(request_id="r-2")
    fake_claude.release()
    assert await wrapper.exit_code() == 0
    assert [output.request_id for output in await queues.outputs()] == ["r-1"]
    assert await queues.redis.xlen(BARE.developer_input) == 1


async def test_a_waiting_worker_survives_the_loss_of_its_stream(
    wrappers: Wrappers, queues: Queues, proxy: RedisProxy
) -> None:
    wrapper = wrappers.start(REDIS_URL=proxy.url)
    await eventually(lambda: len(proxy.named("XREADGROUP")) == 2)
    await queues.redis.flushall()
    await queues.task()
    assert await wrapper.exit_code() == 0
    assert (await queues.output()).status == "success"


async def test_an_attempt_that_was_published_by_the_operator_meanwhile_is_superseded(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    bound = await queues.bound_task()
    wrapper = wrappers.start(**bound)
    await eventually(lambda: fake_claude.turns)
    await queues.redis.hset(RECORD, "output", "1-1")
    await queues.redis.xdel(BARE.developer_input, bound["TASK_ENTRY_ID"])
    fake_claude.release()
    assert await wrapper.exit_code() == 0
    assert await queues.outputs() == []
    await wrapper.logged("superseded")


async def test_a_cancelled_attempts_agent_is_stopped_within_seconds(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    bound = await queues.bound_task()
    wrapper = wrappers.start(**bound)
    (turn,) = await eventually(lambda: fake_claude.turns)
    await queues.redis.xdel(BARE.developer_input, bound["TASK_ENTRY_ID"])
    assert await wrapper.exit_code(seconds=15) == 0
    assert await queues.outputs() == []
    assert not Path(f"/proc/{turn.pid}").exists()
    await wrapper.logged("claim_ended")


async def test_a_redis_that_stays_away_ends_the_worker_with_3_and_the_outcome_in_its_log(
    breakable: Breakable, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    async with client_of(breakable.server) as redis:
        await Queues(redis).task(request_id="r-1")
    wrapper = breakable.wrappers.start()
    await eventually(lambda: fake_claude.turns)
    breakable.server.kill()
    fake_claude.release()
    assert await wrapper.exit_code(seconds=60) == 3
    kept = json.loads((await wrapper.logged("outcome_not_published"))["output"])
    assert (kept["request_id"], kept["status"]) == ("r-1", "success")
    assert "5 tries in a row" in (await wrapper.logged("redis_unavailable"))["error"]
    breakable.server.start()


async def leave_idle(queues: Queues, consumer: str, entry: str) -> None:
    """Make a claim look as if it had not been renewed for a minute."""
    await queues.redis.execute_command(
        *("XCLAIM", BARE.developer_input, "developer-workers", consumer, 0, entry),
        *("IDLE", 61_000, "JUSTID"),
    )
