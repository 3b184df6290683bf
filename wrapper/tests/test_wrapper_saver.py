"""The checkpoints of one turn, written one after the other whatever becomes of the answers."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
from redis.exceptions import ResponseError
from support.eventually import eventually

from orbiter_contracts import Checkpoint
from worker_wrapper.agents import load_agent
from worker_wrapper.agents.base import Session
from worker_wrapper.checkpoint import saver as saver_module
from worker_wrapper.checkpoint.resume import Earlier
from worker_wrapper.checkpoint.saver import Attempt, Saver
from worker_wrapper.checkpoint.schedule import meanwhile
from worker_wrapper.queue.checkpoints import Checkpoints, SaveResult, Stored
from worker_wrapper.queue.connection import RedisUnavailableError
from worker_wrapper.session.copies import SessionCopies
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.workspace.git import Git
from worker_wrapper.workspace.keeping import Kept


class InMemory:
    """What Redis keeps of an attempt; an answer may be lost on its way."""

    def __init__(self) -> None:
        self.saved: list[Checkpoint] = []
        self.lost: list[Callable[[], None]] = []
        self.failures: list[Exception] = []

    async def newest(self) -> Checkpoint | None:
        return self.saved[-1] if self.saved else None

    async def save(self, stored: Stored, *, beside: int) -> SaveResult:
        if self.failures:
            raise self.failures.pop(0)
        if self.saved and self.saved[-1].generation >= stored.checkpoint.generation:
            return "stale"
        self.saved.append(stored.checkpoint)
        if self.lost:
            self.lost.pop()()
        return "saved"


class Pauses:
    """Sleeps that take no time, and what they would have taken."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


def saver_of(
    directory: Path, known: InMemory, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Saver:
    agent = load_agent("claude")
    work, home = directory / "work", directory / "home"
    for path in (work, home):
        path.mkdir(exist_ok=True)
    (work / "draft").write_text("draft\n")
    return Saver(
        Attempt(agent, Session("s"), work, None, Earlier()),
        cast("Checkpoints", known),
        SessionCopies(agent, {}, home),
        Git(os.environ, directory, 60, StopTurn(), beside=True),
        clock=lambda: datetime.now(UTC),
        log=structlog.get_logger(),
        sleep=sleep,
    )


ANSWER: dict[str, Any] = {"type": "stream_event", "event": {"type": "message_start"}}
"""What Claude Code says when the model begins to answer."""


def broken() -> None:
    raise OSError("the connection is lost")


async def test_each_counts_on_from_the_one_before(tmp_path: Path) -> None:
    known = InMemory()
    saver = saver_of(tmp_path, known)
    saver.hear(ANSWER)
    for leaving in (False, False, True):
        await saver.save(leaving=leaving)
    assert [one.generation for one in known.saved] == [1, 2, 3]
    assert [one.disruption for one in known.saved] == [False, False, True]
    assert all(one.resumable for one in known.saved)


async def test_before_the_model_is_heard_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    """The conversation may not have the prompt yet: it would go on with nothing."""
    known = InMemory()
    saver = saver_of(tmp_path, known)
    saver.hear({"type": "system", "subtype": "init", "session_id": "s"})
    await saver.save(leaving=True)
    saver.hear(ANSWER)
    await saver.save(leaving=True)
    assert [one.resumable for one in known.saved] == [False, True]
    assert [one.disruption for one in known.saved] == [True, True]


async def test_whatever_copying_raises_what_was_paid_is_kept_and_the_turn_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that finds a mistake of ours would else have its limits anew in each pod."""

    async def mistaken(*_: object, **__: object) -> Kept:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(saver_module, "keep", mistaken)
    known = InMemory()
    saver = saver_of(tmp_path, known)
    saver.hear(ANSWER)
    assert await saver.save(leaving=False)
    (paid,) = known.saved
    assert (paid.turns, paid.resumable) == (1, False)


async def test_a_mistake_while_one_is_written_costs_no_turn(tmp_path: Path) -> None:
    known = InMemory()
    saver = saver_of(tmp_path, known)
    saver.hear(ANSWER)
    known.failures = [RuntimeError("a mistake of ours")]
    assert not await saver.save(leaving=True)
    assert await saver.save(leaving=True)
    assert [one.generation for one in known.saved] == [1]


async def test_one_whose_answer_was_lost_is_in_nobodys_way(tmp_path: Path) -> None:
    known = InMemory()
    saver = saver_of(tmp_path, known)
    known.lost.append(broken)
    await saver.save(leaving=False)
    await saver.save(leaving=True)
    assert [one.generation for one in known.saved] == [1, 2]
    assert known.saved[-1].disruption


async def test_behind_that_of_another_pod_nothing_is_written(tmp_path: Path) -> None:
    known = InMemory()
    saver = saver_of(tmp_path, known)
    await saver.save(leaving=False)
    other = Checkpoint(time=datetime(2026, 1, 10, tzinfo=UTC), generation=5, session=True)
    known.saved.append(other)
    await saver.save(leaving=True)
    assert known.saved[-1] == other


async def test_asked_to_leave_while_one_is_made_another_one_follows(tmp_path: Path) -> None:
    known = InMemory()
    saver = saver_of(tmp_path, known)
    asked = asyncio.Event()
    saver.hear(ANSWER)
    known.lost.append(asked.set)
    async with meanwhile(saver.from_time_to_time(0.01, asked)):
        await eventually(lambda: len(known.saved) == 2)
    assert [one.disruption for one in known.saved] == [False, True]


async def test_asked_to_leave_it_goes_on_being_kept_as_often_as_before(tmp_path: Path) -> None:
    """A grace period may be an hour, and the machine may go at any moment of it."""
    known = InMemory()
    saver = saver_of(tmp_path, known)
    asked = asyncio.Event()
    asked.set()
    async with meanwhile(saver.from_time_to_time(0.01, asked)):
        for count in (1, 2, 3):
            await eventually(lambda count=count: len(known.saved) == count)
            saver.hear(ANSWER)
    assert [one.disruption for one in known.saved[:3]] == [True, True, True]


@pytest.mark.parametrize("seconds", [0, 0.01], ids=["never else", "often"])
async def test_one_that_failed_when_asked_to_leave_is_made_again(
    tmp_path: Path, seconds: float
) -> None:
    known = InMemory()
    known.failures = [OSError("it is away"), RedisUnavailableError("it is away, too")]
    saver = saver_of(tmp_path, known, Pauses())
    asked = asyncio.Event()
    asked.set()
    async with meanwhile(saver.from_time_to_time(seconds, asked)):
        await eventually(lambda: bool(known.saved))
    assert [one.disruption for one in known.saved] == [True]
    assert known.failures == []


async def test_a_redis_that_refuses_is_asked_ever_less_often_and_anew_once_it_has_taken_one(
    tmp_path: Path,
) -> None:
    """Each try is a mebibyte, and a full Redis has as many pods that leave as a node has."""
    known, pauses = InMemory(), Pauses()
    known.failures = [ResponseError("OOM command not allowed")] * 6
    saver = saver_of(tmp_path, known, pauses)
    asked = asyncio.Event()
    asked.set()
    async with meanwhile(saver.from_time_to_time(0.5, asked)):
        await eventually(lambda: bool(known.saved))
        known.failures = [ResponseError("OOM command not allowed")]
        saver.hear(ANSWER)
        await eventually(lambda: len(known.saved) == 2)
    waited = [seconds for seconds in pauses.seconds if seconds != 0.5]
    assert waited == [2, 4, 8, 16, 30, 30, 2]


async def test_as_long_as_the_agent_says_nothing_none_is_made(tmp_path: Path) -> None:
    known = InMemory()
    saver = saver_of(tmp_path, known)
    asked = asyncio.Event()
    keeper = asyncio.create_task(saver.from_time_to_time(0.001, asked))
    for _ in range(20):
        await asyncio.sleep(0)
    assert known.saved == []
    asked.set()
    await eventually(lambda: bool(known.saved))
    keeper.cancel()
    await asyncio.gather(keeper, return_exceptions=True)
    assert len(known.saved) == 1
