"""A finished outcome is worth what it cost: a Redis that is away for long does not lose it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog
from support.eventually import eventually
from support.queues import Queues
from support.redis_server import RedisServer, client_of
from support.wrapper import FakeClaude, Wrappers

from orbiter_contracts import POWorkerOutput, SnapshotReport
from orbiter_contracts.exit_codes import INTERRUPTED
from worker_wrapper.handlers.insisting import insist
from worker_wrapper.queue.connection import RedisUnavailableError
from worker_wrapper.queue.session_state import Bookkeeping, Snapshot
from worker_wrapper.queue.spool import FILE, Spool
from worker_wrapper.shutdown import Shutdown

ANSWER = POWorkerOutput(request_id="r-1", user_id=7, text="done")


@pytest.fixture
async def wrappers(
    own_redis_server: RedisServer, tmp_path: Path, fake_claude: FakeClaude
) -> AsyncIterator[Wrappers]:
    wrappers = Wrappers(tmp_path, own_redis_server.url, fake_claude)
    yield wrappers
    wrappers.end()


@pytest.mark.integration
async def test_a_jobs_worker_keeps_its_outcome_until_redis_is_back(
    own_redis_server: RedisServer, wrappers: Wrappers, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    async with client_of(own_redis_server) as redis:
        bound = await Queues(redis).bound_task(request_id="r-1")
    wrapper = wrappers.start(**bound)
    await eventually(lambda: fake_claude.turns)
    own_redis_server.kill()
    fake_claude.release()
    await wrapper.logged("outcome_kept")
    assert wrapper.process.poll() is None
    own_redis_server.start()
    assert await wrapper.exit_code(seconds=60) == 0
    async with client_of(own_redis_server) as redis:
        (output,) = await Queues(redis).outputs()
    assert (output.request_id, output.status) == ("r-1", "success")
    assert len(fake_claude.turns) == 1


class Away:
    """A Redis that refuses so many times; None: it never answers."""

    def __init__(self, times: int | None) -> None:
        self.left = times
        self.asked = asyncio.Event()

    async def settle(self) -> bool:
        self.asked.set()
        if self.left is None:
            await asyncio.Event().wait()
        if self.left:
            self.left -= 1
            raise RedisUnavailableError("it is away")
        return True

    async def insist(
        self, shutdown: Shutdown, grace_seconds: float, reserve_seconds: float = 0.01
    ) -> bool:
        return await insist(
            *(self.settle, shutdown),
            grace_seconds=grace_seconds,
            log=structlog.get_logger(),
            reserve_seconds=reserve_seconds,
            pause_seconds=0,
        )


async def test_an_outcome_is_tried_through_all_of_the_grace_period() -> None:
    """Also one that is shorter than what a connection takes to give a Redis up."""
    shutdown = Shutdown()
    shutdown.request()
    assert await Away(100).insist(shutdown, grace_seconds=20)


async def test_a_redis_that_does_not_answer_lets_the_last_words_be_said() -> None:
    shutdown = Shutdown()
    shutdown.request()
    with pytest.raises(RedisUnavailableError, match="in time"):
        await Away(None).insist(shutdown, grace_seconds=0.02)


async def test_asked_twice_a_worker_keeps_its_outcome_no_longer() -> None:
    shutdown, away = Shutdown(), Away(None)
    insisting = asyncio.create_task(away.insist(shutdown, grace_seconds=3600))
    await away.asked.wait()
    shutdown.request()
    shutdown.request()
    with pytest.raises(RedisUnavailableError):
        await insisting


@pytest.mark.parametrize("times", [1, 2], ids=["asked", "asked twice"])
async def test_an_outcome_is_tried_however_late_its_turn_has_ended(times: int) -> None:
    shutdown = Shutdown()
    for _ in range(times):
        shutdown.request()
    shutdown.requested_at -= 3600
    assert await Away(3).insist(shutdown, grace_seconds=60, reserve_seconds=60)


@pytest.mark.integration
async def test_a_jobs_worker_waits_for_a_redis_that_is_away_when_it_begins(
    own_redis_server: RedisServer, wrappers: Wrappers
) -> None:
    async with client_of(own_redis_server) as redis:
        bound = await Queues(redis).bound_task(request_id="r-1")
    own_redis_server.kill()
    wrapper = wrappers.start(**bound)
    await eventually(lambda: wrapper.output.count("redis_retry") == 5, seconds=60)
    own_redis_server.start()
    assert await wrapper.exit_code(seconds=60) == 0
    async with client_of(own_redis_server) as redis:
        (output,) = await Queues(redis).outputs()
    assert (output.request_id, output.status) == ("r-1", "success")


@pytest.mark.integration
async def test_a_jobs_worker_that_has_to_leave_before_it_began_does_not_end_well(
    own_redis_server: RedisServer, wrappers: Wrappers
) -> None:
    """Then its Job would be complete, with nothing done."""
    async with client_of(own_redis_server) as redis:
        bound = await Queues(redis).bound_task(request_id="r-1")
    own_redis_server.kill()
    wrapper = wrappers.start(**bound)
    await wrapper.logged("redis_retry")
    wrapper.send(signal.SIGTERM)
    assert await wrapper.exit_code() == INTERRUPTED
    own_redis_server.start()
    async with client_of(own_redis_server) as redis:
        assert await Queues(redis).outputs() == []


@pytest.mark.integration
async def test_a_sessions_worker_publishes_after_its_restart_what_the_agent_had_said(
    own_redis_server: RedisServer, wrappers: Wrappers, fake_claude: FakeClaude
) -> None:
    fake_claude.remembers(then='while [ -e "$home/held" ]; do sleep 0.02; done')
    alice = {"WORKER_TYPE": "po", "USER_ID": "7", "SNAPSHOT_KEY": "worker:po:po-1:snapshot"}
    async with client_of(own_redis_server) as redis:
        await Queues(redis).message("remember blue", request_id="r-1")
    fake_claude.hold()
    first = wrappers.start("po-1", **alice)
    await eventually(lambda: fake_claude.turns)
    own_redis_server.kill()
    fake_claude.release()
    assert await first.exit_code(seconds=60) == 3
    assert (await first.logged("outcome_not_published"))["spooled"]
    own_redis_server.start()
    second = wrappers.start("po-1", **alice)
    async with client_of(own_redis_server) as redis:
        queues = Queues(redis)
        (answer,) = await queues.answers(1)
        assert (answer.request_id, answer.text) == ("r-1", "remember blue|")
        await second.logged("answered_later")
        await queues.message("and red", request_id="r-2")
        answers = await queues.answers(2)
        assert answers[1].text == "remember blue|and red|"
        assert (await queues.state()).turns == 2
    assert len(fake_claude.turns) == 2
    assert not (wrappers.home / FILE).exists()


def test_an_answer_is_read_for_its_own_message_alone(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a-key", "s3cret")
    report = SnapshotReport(stored=True)
    kept = Bookkeeping({"state": "ready", "+turns": "1"}, "a turn")
    assert spool.keep("7-0", ANSWER.model_dump_json(), kept, Snapshot("a-key", b"\n\0x", report))
    known = spool.read("7-0", "r-1", 7)
    assert known is not None
    assert (known.output, known.bookkeeping) == (ANSWER, kept)
    assert known.snapshot is not None
    assert (known.snapshot.key, known.snapshot.data) == ("a-key", b"\n\0x")
    for other in (("8-0", "r-1", 7), ("7-0", "r-2", 7), ("7-0", "r-1", 8)):
        assert spool.read(*other) is None
    another = Spool(tmp_path, "another-key", "s3cret").read("7-0", "r-1", 7)
    assert another is not None
    assert another.snapshot is None
    spool.clear()
    assert spool.read("7-0", "r-1", 7) is None


@pytest.mark.parametrize("data", [b"", b"\n", b"{}\n", b"{", b"\xff\n", b'{"entry":"7-0"}\n'])
def test_what_an_agent_leaves_in_its_place_is_no_answer(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / FILE
    path.parent.mkdir()
    path.write_bytes(data)
    assert Spool(tmp_path, None, "s3cret").read("7-0", "r-1", 7) is None


def test_a_fifo_or_a_link_in_its_place_is_none_either(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.parent.mkdir()
    os.mkfifo(path)
    assert Spool(tmp_path, None, "s3cret").read("7-0", "r-1", 7) is None
    path.unlink()
    path.symlink_to("/proc/self/environ")
    assert Spool(tmp_path, None, "s3cret").read("7-0", "r-1", 7) is None


def test_a_disk_that_takes_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / FILE.parent).write_text("a file in the way")
    assert not Spool(tmp_path, None, "s3cret").keep("7-0", ANSWER.model_dump_json(), None, None)


def test_what_the_agent_has_written_or_changed_is_no_answer(tmp_path: Path) -> None:
    forged = Spool(tmp_path, None, "guessed")
    ours = Spool(tmp_path, None, "s3cret")
    assert forged.keep("7-0", ANSWER.model_dump_json(), None, None)
    assert ours.read("7-0", "r-1", 7) is None
    assert ours.keep("7-0", ANSWER.model_dump_json(), None, None)
    assert ours.read("7-0", "r-1", 7) is not None
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes().replace(b"done", b"gone", 1))
    assert ours.read("7-0", "r-1", 7) is None
