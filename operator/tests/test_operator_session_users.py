"""Sessions' own Redis users, on a real Redis: what each may do, and how it comes and goes."""

from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import unquote, urlsplit

import pytest
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from support.eventually import eventually
from support.redis_server import MASTER_KEY, login
from support.running_sessions import running_sessions
from support.talks import NAMESPACE, Talks

from orbiter_contracts import queues
from orbiter_contracts.worker_scripts import PIECE, READ_RECORD, TELL
from orbiter_operator.kube.names import SESSION_SECRETS
from orbiter_operator.sessions.cache import session_key
from orbiter_operator.sessions.users import SessionUsers
from orbiter_operator.streams.users import RedisUsers

ALICE, BOB, MALLORY = (
    session_key(*name) for name in (("team", "alice"), ("team", "bob"), ("other", "mallory"))
)
LIFECYCLE = queues.BARE.lifecycle
MINE, HERS = "other.mallory", "team.alice"
HER_RECORD = queues.BARE.session_record(1)
MY_RECORD = f"{queues.BARE.session_records('other')}1"


@pytest.fixture
def talks(world):
    return Talks(world.api, world.redis)


@pytest.fixture
def users(world) -> SessionUsers:
    return users_of(world)


def users_of(world, master_key: str = MASTER_KEY) -> SessionUsers:
    made = RedisUsers(world.redis, url=world.server.url, master_key=master_key)
    return SessionUsers(made, shared_secret=("orbiter-redis", "po-url"))


def worker_of(users: SessionUsers, key, uid: str = "u1") -> Redis:
    return login(users.credentials(key, uid).url)


@pytest.fixture
async def mallory(world, users) -> AsyncIterator[Redis]:
    """The worker of one session; that of another one has a conversation going."""
    await users.ensure(ALICE, "u1", HERS, HER_RECORD)
    await users.ensure(MALLORY, "u1", MINE, MY_RECORD)
    for worker in (HERS, MINE):
        await world.redis.xadd(queues.BARE.po_input(worker), {"data": "{}"})
        await world.redis.xgroup_create(queues.BARE.po_input(worker), queues.PO_GROUP, id="0")
        await world.redis.xadd(queues.BARE.po_output(worker), {"data": "{}"})
        await world.redis.hset(queues.BARE.po_state(worker), "state", "ready")
        await world.redis.rpush(queues.BARE.po_turns(worker), "{}")
        await world.redis.set(queues.BARE.po_snapshot(worker), "memory")
    await world.redis.set(HER_RECORD, "{}")
    await world.redis.set(MY_RECORD, "{}")
    await world.redis.xadd(LIFECYCLE, {"data": "{}"}, id="1-1")
    async with worker_of(users, MALLORY) as client:
        yield client


def attacks(worker: str, record: str) -> list[tuple[str | int, ...]]:
    """What one session's worker could try with the keys of a session."""
    said, heard = queues.BARE.po_output(worker), queues.BARE.po_input(worker)
    group = queues.PO_GROUP
    return [
        ("XRANGE", heard, "-", "+"),
        ("XREADGROUP", "GROUP", group, "thief", "STREAMS", heard, ">"),
        ("XCLAIM", heard, group, "thief", 0, "1-1", "FORCE"),
        ("XPENDING", heard, group),
        ("XINFO", "CONSUMERS", heard, group),
        ("XDEL", heard, "1-1"),
        ("XADD", said, "*", "data", "forged"),
        ("XADD", queues.dead_letter(heard), "*", "data", "forged"),
        ("GET", queues.BARE.po_snapshot(worker)),
        ("SET", queues.BARE.po_snapshot(worker), "planted"),
        ("HGETALL", queues.BARE.po_state(worker)),
        ("HSET", queues.BARE.po_state(worker), "state", "busy"),
        ("LRANGE", queues.BARE.po_turns(worker), 0, -1),
        ("RPUSH", queues.BARE.po_turns(worker), "{}"),
        ("HSET", queues.BARE.po_lease(worker), "token", "mine"),
        ("GET", record),
        ("SET", record, "{}"),
        ("EXPIRE", record, 1),
        ("FCALL", READ_RECORD.function, 1, record, 100, "session_id"),
        ("FCALL", PIECE.function, 2, said, queues.BARE.po_state(worker), "{}", 10, "now"),
    ]


@pytest.mark.integration
@pytest.mark.parametrize("number", range(len(attacks(HERS, HER_RECORD))))
async def test_a_worker_gets_at_nothing_of_another_session_and_at_all_of_its_own(
    world, mallory, number
):
    theirs, own = attacks(HERS, HER_RECORD)[number], attacks(MINE, MY_RECORD)[number]
    with pytest.raises((NoPermissionError, ResponseError), match=r"(?i)permission|access"):
        await mallory.execute_command(*theirs)
    await world.redis.execute_command(*theirs)  # what a user without rules could have done
    await mallory.execute_command(*own)


@pytest.mark.integration
@pytest.mark.parametrize(
    "command",
    [
        ("XADD", queues.BARE.po_input(MINE), "*", "data", "{}"),
        ("XRANGE", LIFECYCLE, "-", "+"),
        ("XDEL", LIFECYCLE, "1-1"),
        ("XGROUP", "CREATE", LIFECYCLE, "mine", "0"),
        ("XGROUP", "CREATE", queues.BARE.po_input(MINE), "mine", "0"),
        ("XREADGROUP", "GROUP", queues.OPERATOR_GROUP, "mine", "STREAMS", LIFECYCLE, ">"),
        ("EVAL", "return redis.call('XDEL', KEYS[1], '1-1')", 1, LIFECYCLE),
        ("EVAL", "return redis.call('GET', ARGV[1])", 0, HER_RECORD),
        ("EVAL", "while true do end", 0),
        ("EVAL_RO", "return 1", 0),
        ("EVALSHA", "a" * 40, 0),
        ("SCRIPT", "LOAD", "return 1"),
        ("FUNCTION", "LOAD", "REPLACE", "#!lua name=orbiter"),
        ("FUNCTION", "DELETE", "orbiter"),
        *(("XINFO", "STREAM", queues.BARE.po_input(worker)) for worker in (MINE, HERS)),
        *(("XRANGE", queues.BARE.po_output(worker), "-", "+") for worker in (MINE, HERS)),
        *(("HSET", queues.BARE.po_hold(worker), "reason", "stopped") for worker in (MINE, HERS)),
        ("XRANGE", queues.BARE.developer_input, "-", "+"),
        ("XADD", queues.BARE.developer_output, "*", "data", "{}"),
        ("UNLINK", queues.BARE.po_input(MINE)),
        ("ACL", "SETUSER", "s:other:mallory", "~*", "+@all"),
        ("EXPIRE", queues.BARE.po_input(MINE), 1),
        ("EXPIRE", queues.dead_letter(queues.BARE.po_output(MINE)), 1),
        ("ACL", "LIST"),
        ("ACL", "GETUSER", "s:team:alice"),
        ("CONFIG", "GET", "*"),
        ("CLIENT", "LIST"),
        ("CLIENT", "KILL", "USER", "s:team:alice"),
        ("CLIENT", "TRACKING", "ON", "BCAST"),
        ("KEYS", "*"),
        ("SCAN", "0"),
        ("RANDOMKEY",),
        ("MONITOR",),
        ("INFO",),
        ("FLUSHALL",),
        ("SELECT", "1"),
        ("SWAPDB", "0", "1"),
        ("SUBSCRIBE", "news"),
        ("FUNCTION", "LIST"),
        ("SCRIPT", "FLUSH"),
        ("DEBUG", "OBJECT", HER_RECORD),
        ("SHUTDOWN",),
    ],
    ids=lambda command: " ".join(map(str, command))[:40],
)
async def test_a_worker_does_only_what_its_work_needs(mallory, command):
    with pytest.raises(ResponseError, match=r"(?i)permission|access"):
        await mallory.execute_command(*command)


@pytest.mark.integration
async def test_a_worker_says_something_in_the_stream_that_all_share(world, mallory):
    keys = (LIFECYCLE, queues.BARE.po_state(MINE))
    assert await mallory.fcall(TELL.function, 2, *keys, "{}", 1, "", "{}", "{}") == 1
    assert await world.redis.xlen(LIFECYCLE) == 2


@pytest.mark.integration
async def test_a_deleted_sessions_worker_is_cut_off(world, users, mallory):
    assert await mallory.get(MY_RECORD) == "{}"
    await users.remove(MALLORY)
    with pytest.raises(RedisError, match=r"(?i)closed|reset|username-password"):
        await mallory.get(MY_RECORD)
    with pytest.raises(AuthenticationError):
        await mallory.get(MY_RECORD)


def test_passwords_and_secrets_of_two_sessions_and_of_two_installations_differ(world):
    ours, theirs = users_of(world), users_of(world, master_key="another's")
    made = [
        *(ours.credentials(key, "u1") for key in (ALICE, BOB, MALLORY)),
        ours.credentials(ALICE, "u2"),
        theirs.credentials(ALICE, "u1"),
    ]
    assert len({item.secret for item in made}) == 5
    assert len({item.url for item in made}) == 5  # also of a session that was made anew
    assert ours.credentials(ALICE, "u1") == users_of(world).credentials(ALICE, "u1")
    assert all(item.secret.startswith(SESSION_SECRETS) for item in made)


def test_the_secret_says_where_redis_is_and_goes_with_its_sessions_deployment(world):
    secret = users_of(world).secret(ALICE, "u1", "d1")
    url, ours = urlsplit(secret["stringData"]["url"]), urlsplit(world.server.url)
    assert unquote(url.username or "") == "s:team:alice"
    assert (url.scheme, url.hostname, url.port, url.path) == (
        *(ours.scheme, ours.hostname, ours.port, ours.path),
    )
    [owner] = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Deployment", "alice", "d1")
    assert secret["immutable"] is True


@pytest.mark.integration
async def test_a_session_is_answered_with_a_user_of_its_own(world, talks):
    talks.apply("alice")
    async with running_sessions(world.api, world.server, redis_master_key=MASTER_KEY):
        await talks.send("alice")
        assert await talks.answered("alice") == ["re: hello"]
        [secret] = world.api.objects["secrets"].values()
        [container] = world.api.get("deployments", NAMESPACE, "alice")["spec"]["template"]["spec"][
            "containers"
        ]
        source = {item["name"]: item.get("valueFrom") for item in container["env"]}["REDIS_URL"]
        assert {"name": "SESSION_USERS", "value": "Own"} in container["env"]
        assert {"name": "REDIS_SCRIPTS", "value": "Functions"} in container["env"]
        reference = {"name": secret["metadata"]["name"], "key": "url"}
        assert source == {"secretKeyRef": reference}
        async with Redis.from_url(secret["stringData"]["url"], protocol=2) as worker:
            assert await worker.hget(queues.BARE.po_state("team.alice"), "state") == b"ready"
        talks.delete("alice")

        async def gone() -> bool:
            return "s:team:alice" not in await world.redis.acl_users()

        await eventually(gone)


@pytest.mark.integration
async def test_a_session_deleted_while_no_operator_looks_takes_its_user_with_it(world, talks):
    talks.apply("alice")
    async with running_sessions(world.api, world.server, redis_master_key=MASTER_KEY):
        await talks.send("alice")
        assert await talks.answered("alice") == ["re: hello"]
        await eventually(lambda: not world.api.objects["pods"])
    talks.delete("alice")
    assert "s:team:alice" in await world.redis.acl_users()
    async with running_sessions(world.api, world.server, redis_master_key=MASTER_KEY):

        async def gone() -> bool:
            return "s:team:alice" not in await world.redis.acl_users()

        await eventually(gone)


@pytest.mark.integration
async def test_a_worker_which_may_make_no_group_finds_its_own(world, talks):
    found = []

    def look(change: str, plural: str, obj) -> None:
        if (change, plural) == ("ADDED", "deployments"):
            with BlockingRedis.from_url(world.server.url, decode_responses=True) as client:
                found.extend(client.xinfo_groups(queues.BARE.po_input("team.alice")))

    world.api.listeners.append(look)
    talks.apply("alice")
    async with running_sessions(world.api, world.server, redis_master_key=MASTER_KEY):
        await talks.send("alice")
        assert await talks.answered("alice") == ["re: hello"]
    assert [group["name"] for group in found] == [queues.PO_GROUP]


@pytest.mark.integration
async def test_user_and_secret_go_when_no_worker_may_run_there_any_more_and_come_back(world, talks):
    why: list[str] = []
    talks.apply("alice", idle={"scaleToZeroAfterSeconds": 900})
    settings = {"redis_master_key": MASTER_KEY, "not_served": lambda _: why[0] if why else None}
    async with running_sessions(world.api, world.server, **settings) as running:

        def changed() -> None:
            running.sessions.store.touch(NAMESPACE)

        async def users() -> bool:
            return "s:team:alice" in await world.redis.acl_users()

        async def gone() -> bool:
            return not await users() and not world.api.objects["secrets"]

        await talks.send("alice", "sleep=1")
        await talks.until_in_turn("alice")
        why.append("workers need a label: kubectl label namespace team tenant=yes")
        changed()
        await eventually(
            lambda: talks.condition("alice", "Available").get("reason") == "NamespaceNotServed"
        )
        assert "workers need a label" in talks.condition("alice", "Available")["message"]
        assert await users()  # in the middle of a turn
        assert await talks.answered("alice") == ["re: sleep=1"]
        await eventually(gone)
        assert not world.api.objects["deployments"]
        await talks.send("alice", "later")
        why.clear()
        changed()
        assert await talks.answered("alice", 2) == ["re: sleep=1", "re: later"]
        assert await users()
        assert len(world.api.objects["secrets"]) == 1


@pytest.mark.integration
async def test_a_secret_that_somebody_has_deleted_is_made_again(world, talks):
    talks.apply("alice", idle={"scaleToZeroAfterSeconds": 900})
    async with running_sessions(world.api, world.server, redis_master_key=MASTER_KEY):
        await talks.send("alice")
        assert await talks.answered("alice") == ["re: hello"]
        [(place, _)] = world.api.objects["secrets"].items()
        world.api.remove("secrets", *place)
        [pod] = [item["metadata"]["name"] for item in world.api.objects["pods"].values()]
        waiting = {"reason": "CreateContainerConfigError", "message": "secret not found"}
        status = {"name": "worker", "restartCount": 1, "state": {"waiting": waiting}}
        world.api.patch("pods", NAMESPACE, pod, {"status": {"containerStatuses": [status]}})
        await eventually(lambda: bool(world.api.objects["secrets"]))


@pytest.mark.integration
async def test_a_redis_that_lets_nobody_manage_users_is_said_in_the_status(world, talks):
    rules = ("on", ">x", "~*", "+@all", "-acl|setuser")
    await world.redis.execute_command("ACL", "SETUSER", "limited", *rules)
    limited = world.server.url.replace("redis://", "redis://limited:x@")
    talks.apply("alice")
    async with running_sessions(
        world.api, world.server, redis_master_key=MASTER_KEY, redis_url=limited
    ):
        await eventually(
            lambda: talks.condition("alice", "Available").get("reason") == "UserNotMade"
        )
        told = talks.condition("alice", "Available")["message"]
        assert "+acl|setuser" in told
    await world.redis.acl_deluser("limited")


@pytest.mark.integration
async def test_passwords_are_changed_while_a_turn_is_under_way_and_it_is_answered(world, talks):
    async def may_come_in(url: str) -> bool:
        async with Redis.from_url(url, protocol=2) as client:
            with suppress(RedisError):
                return await client.ping()
        return False

    def urls() -> list[str]:
        return [item["stringData"]["url"] for item in world.api.objects["secrets"].values()]

    settings = {"redis_master_key": MASTER_KEY}
    talks.apply("alice", idle={"scaleToZeroAfterSeconds": 900})
    async with running_sessions(world.api, world.server, **settings):
        await talks.send("alice")
        assert await talks.answered("alice") == ["re: hello"]
        await talks.send("alice", "sleep=1")
        await talks.until_in_turn("alice")
    [old] = urls()
    async with running_sessions(world.api, world.server, redis_password_generation=2, **settings):

        async def retired() -> bool:
            return not await may_come_in(old)

        await eventually(retired)
        assert len(await talks.answers("alice")) == 2  # so the turn under way had ended before
        [new] = {*urls()} - {old}
        assert await may_come_in(new)
        await talks.send("alice")
        assert len(await talks.answered("alice", 3)) == 3
    assert max(world.sessions.runs.values()) == 1
