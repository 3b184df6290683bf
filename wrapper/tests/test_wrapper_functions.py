"""A worker whose user may send no scripts, under keys that namespaces share: REDIS_SCRIPTS."""

import signal
from collections.abc import Iterator

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.namespaced import PASSWORD, Tenancy, url_of
from support.queues import Queues
from support.redis_server import RedisServer
from support.wrapper import FakeClaude, WrapperProcess, Wrappers

from orbiter_contracts import redis_users
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, PO_GROUP

pytestmark = pytest.mark.integration
DEVELOPER = redis_users.worker_user("team-a")
SESSION = redis_users.session_user("team-a", "po-1")
RULES = {
    DEVELOPER: redis_users.worker_rules(BARE),
    SESSION: redis_users.session_rules(BARE, "po-1", BARE.session_record(7)),
}


@pytest.fixture
def operator(redis_server: RedisServer, redis: Redis) -> Iterator[Tenancy]:
    """What an operator can do; what it did is undone afterwards."""
    operator = Tenancy(redis_server, "team-a")
    yield operator
    operator.leave()


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


def theirs(operator: Tenancy, user: str) -> dict[str, str]:
    """The variables of a worker with this user."""
    return {"REDIS_SCRIPTS": "Functions", "REDIS_URL": url_of(user, operator.server.url)}


def told(wrapper: WrapperProcess) -> str:
    """What it waited for last."""
    return next((line["missing"] for line in reversed(wrapper.log) if "missing" in line), "")


async def test_without_eval_a_task_and_a_conversation_are_answered(
    wrappers: Wrappers, queues: Queues, redis: Redis, operator: Tenancy
) -> None:
    for user, rules in RULES.items():
        operator.allow(user, rules)
    operator.load()
    operator.join(BARE.po_input("po-1"), PO_GROUP)
    await redis.config_resetstat()
    wrapper = wrappers.start(**await queues.bound_task(), **theirs(operator, DEVELOPER))
    assert await wrapper.exit_code() == 0
    assert (await queues.output()).status == "success"
    alice = {"WORKER_TYPE": "po", "USER_ID": "7", **theirs(operator, SESSION)}
    talk = wrappers.start("po-1", **alice)
    await queues.converse("hi")
    talk.send(signal.SIGTERM)
    assert await talk.exit_code() == 0
    stats = await redis.info("commandstats")
    assert stats["cmdstat_eval"]["calls"] == 1  # the test's own, which admits the attempt
    assert stats["cmdstat_fcall"]["calls"] > 5


async def test_what_is_missing_is_waited_for(
    wrappers: Wrappers, queues: Queues, operator: Tenancy, fake_claude: FakeClaude
) -> None:
    operator.allow(DEVELOPER, RULES[DEVELOPER])
    await queues.task("hello")
    wrapper = wrappers.start(**theirs(operator, DEVELOPER))
    waits = await wrapper.logged("redis_waits")
    assert "the function orbiter_take_lease of the library orbiter" in waits["missing"]
    operator.load()
    await eventually(lambda: "the group" in told(wrapper))
    assert f"the group {DEVELOPER_GROUP} of {BARE.developer_input}" in told(wrapper)
    operator.join(BARE.developer_input, DEVELOPER_GROUP)
    assert await wrapper.exit_code() == 0
    assert (await queues.output()).status == "success"
    assert PASSWORD not in wrapper.output


async def test_a_password_is_changed_in_the_middle_of_a_turn_and_it_is_answered_once(
    wrappers: Wrappers, queues: Queues, operator: Tenancy, fake_claude: FakeClaude
) -> None:
    operator.allow(SESSION, RULES[SESSION])
    operator.load()
    operator.join(BARE.po_input("po-1"), PO_GROUP)
    fake_claude.hold()
    wrapper = wrappers.start("po-1", WORKER_TYPE="po", USER_ID="7", **theirs(operator, SESSION))
    await queues.message("hello")
    await eventually(lambda: fake_claude.turns)
    operator.administer("ACL", "SETUSER", SESSION, ">another")
    assert operator.administer("CLIENT", "KILL", "USER", SESSION) >= 1
    fake_claude.release()
    assert len(await queues.answers(1)) == 1
    assert len(fake_claude.turns) == 1
    # Too early: this worker has no other password.
    fake_claude.hold()
    await queues.message("hello again")
    await eventually(lambda: len(fake_claude.turns) == 2)
    operator.administer("ACL", "SETUSER", SESSION, f"<{PASSWORD}")
    operator.administer("CLIENT", "KILL", "USER", SESSION)
    fake_claude.release()
    await eventually(lambda: f"the user {SESSION} with our password" in told(wrapper))
    assert len(await queues.answers(1)) == 1
    operator.allow(SESSION, RULES[SESSION])
    assert len(await queues.answers(2)) == 2
    assert len(fake_claude.turns) == 2
    wrapper.send(signal.SIGTERM)
    assert await wrapper.exit_code() == 0
