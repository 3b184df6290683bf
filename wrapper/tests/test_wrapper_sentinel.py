"""The primary dies under a wrapper: every message is answered at the new one, once."""

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.exceptions import ResponseError
from support.eventually import eventually
from support.ports import free_port
from support.queues import Queues
from support.redis_server import client_of
from support.replicated import Replicated
from support.wrapper import FakeClaude, Wrappers, connected

from worker_wrapper.queue.connection import SENTINEL_TRIES, RedisUnavailableError, delay_after

pytestmark = pytest.mark.integration


@pytest.fixture
def workers(tmp_path: Path, replicated: Replicated, fake_claude: FakeClaude) -> Iterator[Wrappers]:
    """Wrappers that are given the Sentinels' URL."""
    wrappers = Wrappers(tmp_path, replicated.url, fake_claude)
    yield wrappers
    wrappers.end()


@asynccontextmanager
async def queues_of(replicated: Replicated) -> AsyncIterator[Queues]:
    async with client_of(replicated.primary) as redis:
        yield Queues(redis)


async def test_a_turn_during_which_the_primary_dies_is_answered_once(
    replicated: Replicated, workers: Wrappers, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    async with queues_of(replicated) as queues:
        wrapper = workers.start(**await queues.bound_task())
        await eventually(lambda: fake_claude.turns)
        watch = await replicated.fail_over()
    fake_claude.release()
    assert await wrapper.exit_code(seconds=90) == 0
    watch.say("answered")
    async with queues_of(replicated) as queues:
        assert [output.status for output in await queues.outputs()] == ["success"]
        assert await queues.is_settled()
    assert len(fake_claude.turns) == 1
    assert wrapper.log[-1]["level"] != "error"


async def test_a_session_goes_on_at_the_new_primary_with_every_message_answered_once(
    replicated: Replicated, workers: Wrappers, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    async with queues_of(replicated) as queues:
        await queues.message("first", request_id="r-1")
        wrapper = workers.start("po-1", WORKER_TYPE="po")
        await eventually(lambda: fake_claude.turns)
        await replicated.fail_over()
    async with queues_of(replicated) as queues:
        await eventually(lambda: _sent(queues, "r-2"))
        fake_claude.release()
        answers = await queues.answers(2)
    wrapper.send(signal.SIGTERM)
    assert await wrapper.exit_code() == 0
    assert [answer.request_id for answer in answers] == ["r-1", "r-2"]
    assert len(fake_claude.turns) == 2


async def test_a_wrapper_that_waits_for_a_message_gets_it_from_the_new_primary(
    replicated: Replicated, workers: Wrappers, fake_claude: FakeClaude
) -> None:
    async with queues_of(replicated) as queues:
        wrapper = workers.start("po-1", WORKER_TYPE="po")
        await queues.told("ready")
        watch = await replicated.fail_over()
    async with queues_of(replicated) as queues:
        await eventually(lambda: _sent(queues, "r-1"))
        answers = await queues.answers(1)
    watch.say("answered")
    wrapper.send(signal.SIGTERM)
    assert await wrapper.exit_code() == 0
    assert [answer.request_id for answer in answers] == ["r-1"]


async def test_sentinels_that_are_not_there_are_named_without_a_password() -> None:
    port = free_port()
    url = f"redis+sentinel://w:hidden-word@127.0.0.1:{port}/mymaster/0?sentinel_password=other-word"
    async with connected(url) as connection:
        with pytest.raises(RedisUnavailableError) as caught:
            await connection.call("PING")
    said = str(caught.value)
    assert f"no Sentinel of redis+sentinel://127.0.0.1:{port}/mymaster/0 says" in said
    assert f"{SENTINEL_TRIES} tries in a row" in said
    assert "-word" not in said


def test_behind_sentinels_a_fail_over_of_a_minute_is_survived() -> None:
    delays = [delay_after(failures, 0.0) for failures in range(1, SENTINEL_TRIES)]
    assert 60 < sum(delays) < 120
    assert max(delays) == delays[4]


async def _sent(queues: Queues, request: str) -> bool:
    """Whether a message was taken: not before a replica follows the new primary."""
    try:
        await queues.message("next", request_id=request)
    except ResponseError as error:
        if "NOREPLICAS" not in str(error):
            raise
        return False
    return True
