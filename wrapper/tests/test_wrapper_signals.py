"""How a worker leaves: what SIGTERM means to one that waits and to one that works."""

import asyncio
import signal
import time
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.ports import free_port
from support.queues import Queues
from support.wrapper import FakeClaude, Wrappers

from orbiter_contracts.exit_codes import INTERRUPTED
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, PO_GROUP
from worker_wrapper.queue.heartbeat import obey_shutdown
from worker_wrapper.shutdown import Shutdown, StopTurn

KINDS = [{}, {"WORKER_TYPE": "po"}]


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


async def test_what_comes_before_a_request_to_leave_is_kept() -> None:
    shutdown = Shutdown()
    assert await shutdown.unless(asyncio.sleep(0, "entry")) == "entry"


async def test_a_request_to_leave_ends_the_waiting() -> None:
    shutdown = Shutdown()
    shutdown.request()
    waiting = asyncio.get_running_loop().create_future()
    assert await shutdown.unless(waiting) is None
    assert waiting.cancelled()


async def test_an_error_while_waiting_is_the_callers() -> None:
    async def broken() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await Shutdown().unless(broken())


async def test_a_turn_is_left_alone_until_somebody_asks() -> None:
    stop, shutdown = StopTurn(), Shutdown()
    task = asyncio.create_task(obey_shutdown(stop, shutdown, grace_seconds=60))
    await asyncio.sleep(0)
    shutdown.request()
    await asyncio.sleep(0)
    assert not stop.is_set()
    shutdown.request()
    await task
    assert stop.reason == "terminated"


@pytest.mark.parametrize("asked", [False, True], ids=["not asked to leave", "asked to leave"])
async def test_a_turn_of_a_name_in_other_hands_is_stopped_and_not_answered(asked: bool) -> None:
    """Also when that is found out within the grace period: the answer is the other process's."""
    stop, shutdown = StopTurn(), Shutdown()
    if asked:
        shutdown.request()
    task = asyncio.create_task(obey_shutdown(stop, shutdown, grace_seconds=3600))
    await asyncio.sleep(0)
    shutdown.supersede()
    await asyncio.wait_for(task, 10)
    assert stop.reason == "cancelled"


async def test_a_turn_is_stopped_when_the_grace_period_nears_its_end() -> None:
    stop, shutdown = StopTurn(), Shutdown()
    shutdown.request()
    await obey_shutdown(stop, shutdown, grace_seconds=0.02)
    assert stop.reason == "terminated"


@pytest.mark.integration
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_waiting_worker_leaves_at_once(
    wrappers: Wrappers, queues: Queues, kind: dict[str, str], number: signal.Signals
) -> None:
    wrapper = wrappers.start(**kind)
    await queues.told("ready")
    wrapper.send(number)
    assert await wrapper.exit_code(seconds=5) == 0
    assert await queues.story() == "started ready stopped"


@pytest.mark.integration
async def test_a_worker_that_looks_for_redis_in_vain_leaves_when_asked(
    wrappers: Wrappers,
) -> None:
    wrapper = wrappers.start(REDIS_URL=f"redis://127.0.0.1:{free_port()}/0")
    await wrapper.logged("redis_retry")
    wrapper.send(signal.SIGTERM)
    assert await wrapper.exit_code(seconds=10) == 0


@pytest.mark.integration
async def test_a_working_developer_finishes_its_task_first(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    await queues.task()
    wrapper = wrappers.start()
    await eventually(lambda: fake_claude.turns)
    wrapper.send(signal.SIGTERM)
    fake_claude.release()
    assert await wrapper.exit_code() == 0
    assert (await queues.output()).status == "success"
    assert await queues.story() == "started ready busy completed stopped"


@pytest.mark.integration
async def test_a_working_po_finishes_its_message_and_leaves_the_next(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    await queues.message("one", request_id="r-1")
    await queues.message("two", request_id="r-2")
    wrapper = wrappers.start("po-1", WORKER_TYPE="po")
    await eventually(lambda: fake_claude.turns)
    wrapper.send(signal.SIGTERM)
    fake_claude.release()
    assert await wrapper.exit_code() == 0
    assert [answer.request_id for answer in await queues.answers(1)] == ["r-1"]
    assert await queues.redis.xlen(BARE.po_input("po-1")) == 1
    assert (await queues.redis.xpending(BARE.po_input("po-1"), PO_GROUP))["pending"] == 0
    assert await queues.story() == "started ready busy completed ready stopped"


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["standalone", "bound", "po"])
async def test_a_second_signal_ends_the_turn_and_says_so(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, kind: str
) -> None:
    fake_claude.hold()
    if kind == "po":
        await queues.message("hi")
        wrapper = wrappers.start("po-1", WORKER_TYPE="po")
    else:
        environ = {}
        if kind == "bound":
            environ = await queues.bound_task() | {"DISRUPTION_POLICY": "Fail"}
        if kind == "standalone":
            await queues.task()
        wrapper = wrappers.start(**environ)
    (turn,) = await eventually(lambda: fake_claude.turns)
    wrapper.send(signal.SIGTERM)
    await eventually(lambda: _handled(wrapper.process.pid))
    wrapper.send(signal.SIGTERM)
    code = await wrapper.exit_code(seconds=15)
    assert not Path(f"/proc/{turn.pid}").exists()
    if kind == "po":
        # whoever starts next under its name goes on with the turn, and answers
        assert code == INTERRUPTED
        assert await queues.redis.xlen(BARE.po_input("po-1")) == 1
        return
    output = await queues.output()
    assert (code, output.status, output.reason) == (0, "error", "Terminated")


@pytest.mark.integration
async def test_the_end_of_the_grace_period_ends_the_turn_and_says_so(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    await queues.task()
    wrapper = wrappers.start(TERMINATION_GRACE_SECONDS="2")
    await eventually(lambda: fake_claude.turns)
    wrapper.send(signal.SIGTERM)
    asked = time.monotonic()
    assert await wrapper.exit_code(seconds=10) == 0
    assert time.monotonic() - asked >= 1
    assert (await queues.output()).reason == "Terminated"


@pytest.mark.integration
async def test_a_bound_worker_whose_entry_was_withdrawn_stops_at_once_when_asked(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    bound = await queues.bound_task()
    wrapper = wrappers.start(**bound)
    (turn,) = await eventually(lambda: fake_claude.turns)
    await queues.redis.xack(BARE.developer_input, DEVELOPER_GROUP, bound["TASK_ENTRY_ID"])
    await queues.redis.xdel(BARE.developer_input, bound["TASK_ENTRY_ID"])
    wrapper.send(signal.SIGTERM)
    assert await wrapper.exit_code(seconds=4) == 0
    assert await queues.outputs() == []
    assert not Path(f"/proc/{turn.pid}").exists()


def _handled(pid: int) -> bool:
    """Whether no SIGTERM waits to be taken by the process: two that wait are one."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = status.split("ShdPnd:")[1].split()[0]
    return not int(pending, 16) & 1 << (signal.SIGTERM - 1)
