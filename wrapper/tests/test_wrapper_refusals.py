"""A worker that is there before its user, its rights or its functions waits and says for what."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
from redis.asyncio import Redis
from redis.exceptions import ResponseError
from structlog.testing import capture_logs
from support.eventually import eventually
from support.namespaced import PASSWORD, Tenancy, url_of
from support.queues import Queues
from support.wrapper import FakeClaude, Wrappers

from orbiter_contracts import redis_users
from orbiter_contracts.lease_scripts import TAKE
from orbiter_contracts.queues import Keys
from worker_wrapper.queue.connection import RedisConnection, RedisUnavailableError

pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("namespace", ["team-a"], indirect=True),
]

USER = redis_users.worker_user("team-a")
RULES = redis_users.worker_rules(Keys.of_namespace("team-a"))


class Pauses:
    """Stands in for asyncio.sleep: notes each pause and runs the next of `then` in it."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self.then: list[Any] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        if self.then:
            self.then.pop(0)()


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@asynccontextmanager
async def worker_of(
    tenancy: Tenancy, pauses: Pauses, *, waits: bool = True
) -> AsyncIterator[RedisConnection]:
    url = url_of(USER, tenancy.server.url)
    connection = RedisConnection(
        url, structlog.get_logger(), waits=lambda: waits, sleep=pauses, luck=lambda: 0.5
    )
    yield connection
    await connection.close()
    await asyncio.sleep(0)


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


async def take(connection: RedisConnection, tenancy: Tenancy, **how: Any) -> Any:
    key = tenancy.keys.developer_lease("w-1")
    return await connection.run(TAKE, [key], "t", "", 1, "p", "h", 12, **how)


async def test_it_waits_for_its_user_its_rights_and_its_functions_and_names_each(
    redis: Redis, tenancy: Tenancy, pauses: Pauses
) -> None:
    pauses.then = [
        lambda: tenancy.allow(USER, ()),
        lambda: tenancy.allow(USER, ("-@all", "+ping")),
        lambda: tenancy.allow(USER, ("-@all", "+ping", "+fcall", "+type", "~*")),
        lambda: tenancy.load(),
        lambda: tenancy.allow(USER, RULES),
    ]
    with capture_logs() as logs:
        async with worker_of(tenancy, pauses) as connection:
            assert await take(connection, tenancy) == []
    assert {line["event"] for line in logs} == {"redis_waits"}
    told = [line["missing"] for line in logs]
    assert told[0].startswith("the user w:team-a with our password")
    assert told[1].startswith("the right of the user w:team-a to FCALL orbiter_take_lease")
    assert told[2].startswith("the right of the user w:team-a to FCALL orbiter_take_lease")
    assert told[3].startswith("the function orbiter_take_lease of the library orbiter")
    assert told[4].startswith("the right of the user w:team-a to FCALL orbiter_take_lease")
    assert not any(PASSWORD in line for line in told)


async def test_it_waits_as_long_as_it_takes_with_pauses_of_a_few_seconds(
    redis: Redis, tenancy: Tenancy, pauses: Pauses
) -> None:
    pauses.then = [lambda: None] * 30 + [lambda: tenancy.admit(environ(tenancy))]
    async with worker_of(tenancy, pauses) as connection:
        assert await take(connection, tenancy) == []
    assert pauses.taken == [0.5, 1.5] + [4.5] * 29


def environ(tenancy: Tenancy) -> dict[str, str]:
    return {"WORKER_ID": "w-1", "WORKER_TYPE": "developer", "REDIS_URL": tenancy.server.url}


@pytest.mark.parametrize(("waits", "tries"), [(True, 1), (False, 5)])
async def test_who_is_asked_to_leave_or_is_in_a_hurry_waits_for_nothing(
    redis: Redis, tenancy: Tenancy, pauses: Pauses, waits: bool, tries: int
) -> None:
    tenancy.allow(USER, ("-@all", "+ping", "~*"))
    async with worker_of(tenancy, pauses, waits=waits) as connection:
        with pytest.raises(RedisUnavailableError, match="lacks the right of the user w:team-a"):
            await take(connection, tenancy, tries=tries)
    assert pauses.taken == []


async def test_an_error_that_says_something_else_is_not_waited_for(
    redis: Redis, tenancy: Tenancy, pauses: Pauses
) -> None:
    tenancy.admit(environ(tenancy))
    async with worker_of(tenancy, pauses) as connection:
        with pytest.raises(ResponseError, match="wrong number of arguments"):
            await connection.call("XADD", tenancy.keys.lifecycle)
    assert pauses.taken == []


async def test_a_worker_that_was_there_first_does_its_task_once_the_operator_is_there(
    wrappers: Wrappers,
    queues: Queues,
    tenancy: Tenancy,
    fake_claude: FakeClaude,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await queues.task("hello")
    with monkeypatch.context() as early:
        early.setattr(tenancy, "allow", lambda *_: None)
        early.setattr(tenancy, "load", lambda *_: None)
        wrapper = wrappers.start()
    assert "the user w:team-a" in (await wrapper.logged("redis_waits"))["missing"]
    tenancy.admit(environ(tenancy))
    assert await wrapper.exit_code() == 0
    assert (await queues.output()).status == "success"
    assert PASSWORD not in wrapper.output


async def test_a_worker_that_waits_in_vain_leaves_when_it_is_asked_to(
    wrappers: Wrappers, queues: Queues, tenancy: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as never:
        never.setattr(tenancy, "load", lambda *_: None)
        wrapper = wrappers.start()
    waits = await wrapper.logged("redis_waits")
    assert "the function orbiter_take_lease" in waits["missing"]
    wrapper.send(signal.SIGTERM)
    assert await wrapper.exit_code() == 0


async def test_an_answer_waits_for_rights_that_were_taken_away_meanwhile(
    wrappers: Wrappers, queues: Queues, tenancy: Tenancy, fake_claude: FakeClaude
) -> None:
    fake_claude.hold()
    wrapper = wrappers.start(**await queues.bound_task())
    await eventually(lambda: fake_claude.turns)
    tenancy.administer("ACL", "SETUSER", USER, "-fcall")
    fake_claude.release()
    assert "to FCALL orbiter_publish_attempt" in (await wrapper.logged("redis_waits"))["missing"]
    assert await queues.outputs() == []
    tenancy.allow(USER, RULES)
    assert await wrapper.exit_code() == 0
    assert (await queues.output()).status == "success"


async def test_with_a_prefix_no_worker_sends_a_program_to_redis(
    wrappers: Wrappers, queues: Queues, redis: Redis
) -> None:
    await redis.config_resetstat()
    wrapper = wrappers.start(**await queues.bound_task())
    assert await wrapper.exit_code() == 0
    talk = wrappers.start("po-1", WORKER_TYPE="po")
    await queues.converse("hi")
    talk.send(signal.SIGTERM)
    assert await talk.exit_code() == 0
    stats = await redis.info("commandstats")
    assert stats["cmdstat_fcall"]["calls"] > 5
    assert stats["cmdstat_eval"]["calls"] == 1  # the test's own, which admits the attempt
    assert stats["cmdstat_function|load"]["calls"] == 2  # the operator's, for each worker
    assert not {"cmdstat_evalsha", "cmdstat_script|load"} & set(stats)
