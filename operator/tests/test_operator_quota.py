"""A namespace that fills Redis loses the rights to add, and no other does; real Redis and users."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError
from structlog.testing import capture_logs
from support.eventually import eventually
from support.redis_server import MASTER_KEY, login
from support.talks import Talks

from orbiter_contracts.lease_scripts import TAKE
from orbiter_contracts.queues import BARE, DEVELOPER_GROUP, Keys
from orbiter_contracts.redis_users import session_rules, session_user
from orbiter_contracts.scripts import PUBLISH
from orbiter_operator.namespaces.users import NamespaceUsers
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.settings import Settings
from orbiter_operator.streams import quota
from orbiter_operator.streams.quota import HARD_LIMIT, Quotas, level
from orbiter_operator.streams.users import RedisUsers

QUOTA = 256 * 1024
TOO_MUCH = {"data": "x" * (QUOTA + 1024)}
SMALL = {"data": "{}"}
REFUSED = r"can't run this command|no permissions"
A, B = (Keys.of_namespace(name) for name in ("team-a", "team-b"))


@pytest.mark.parametrize(
    ("before", "held", "now"),
    [
        (0, 0, 0),
        (0, 100, 0),
        (0, 101, 1),
        (0, 200, 1),
        (0, 201, 2),
        (1, 91, 1),
        (1, 90, 0),
        (2, 181, 2),
        (2, 180, 1),
        (2, 90, 0),
        (1, 200, 1),
    ],
)
def test_rights_come_back_somewhat_below_what_was_gone_beyond(before, held, now):
    assert level(before, held, 100) == now


class Tenants:
    """Namespaces with users of their own, and what an operator counts."""

    def __init__(self, redis: Redis, url: str, **options: object) -> None:
        self.redis = redis
        self.users = RedisUsers(redis, url=url, master_key=MASTER_KEY)
        self.told: list[str] = []
        self.figures: dict[str, dict[str, int]] = {}
        self.quotas = Quotas(
            redis,
            self.users,
            Settings(redis_quota_bytes=QUOTA, key_prefixes=True, **options),
            lambda held, levels: self.figures.update(held=dict(held), levels=dict(levels)),
        )
        self.quotas.subscribe(self.told.append)
        self.namespaces = NamespaceUsers(
            self.users,
            keys=Keys.of_namespace,
            records=lambda name, keys: keys.session_records(),
        )

    async def admit(self) -> None:
        """Let the users of both namespaces in, and of each one session."""
        for name in ("team-a", "team-b"):
            await self.namespaces.admit(name)
            keys = Keys.of_namespace(name)
            rules = session_rules(keys, "bob", keys.session_record(1))
            await self.users.ensure(session_user(name, "bob"), rules)

    @asynccontextmanager
    async def login(self, user: str) -> AsyncIterator[Redis]:
        async with login(self.users.url(user)) as client:
            yield client

    async def may(self, user: str, *command: object) -> bool:
        """Whether Redis lets a user do this."""
        async with self.login(user) as client:
            try:
                await client.execute_command(*command)
            except NoPermissionError:
                return False
            return True

    async def may_hand_in(self, namespace: str) -> list[bool]:
        """What of a namespace's who hand in work may: the producer, then a front end twice."""
        keys = Keys.of_namespace(namespace)
        return [
            await self.may(f"p:{namespace}", "XADD", keys.developer_input, "*", "data", "{}"),
            await self.may(f"c:{namespace}", "XADD", keys.po_input("bob"), "*", "data", "{}"),
            await self.may(f"c:{namespace}", "SET", keys.session_record(1), "{}"),
        ]


@pytest.fixture
async def tenants(own_redis_server) -> AsyncIterator[Tenants]:
    async with login(own_redis_server.url) as redis:
        made = Tenants(redis, own_redis_server.url)
        await made.admit()
        yield made


@asynccontextmanager
async def running(tenants: Tenants) -> AsyncIterator[None]:
    """Have the namespaces counted meanwhile."""
    task = asyncio.create_task(tenants.quotas.run())
    try:
        yield
    finally:
        await end({task})


FILLS = {
    "a producer": ("p:team-b", "XADD", B.developer_input),
    "a front end": ("c:team-b", "XADD", B.po_input("nobody-there")),
    "a front end's records": ("c:team-b", "SET", B.session_record(99)),
    "a worker": ("w:team-b", "XADD", B.developer_output),
    "a worker's own names": ("w:team-b", "SET", B.task_snapshot("made-up")),
    "a session": ("s:team-b:bob", "SET", B.po_snapshot("bob")),
    "a session's turns": ("s:team-b:bob", "RPUSH", B.po_turns("bob")),
}


@pytest.mark.integration
@pytest.mark.parametrize("filler", FILLS)
async def test_who_fills_redis_is_refused_and_others_are_not(tenants, filler):
    user, command, key = FILLS[filler]
    words = ("*", "data") if command == "XADD" else ()
    assert await tenants.may_hand_in("team-b") == [True, True, True]
    async with running(tenants):
        assert await tenants.may(user, command, key, *words, TOO_MUCH["data"])

        async def refused() -> bool:
            return await tenants.may_hand_in("team-b") == [False, False, False]

        await eventually(refused)
        assert await tenants.may_hand_in("team-a") == [True, True, True]
    assert set(tenants.told) == {"team-b"}
    assert tenants.figures["levels"] == {"team-b": 1}
    assert tenants.figures["held"]["team-b"] > QUOTA
    assert tenants.figures["held"].get("team-a", 0) < QUOTA
    assert tenants.quotas.why("team-a") is None
    assert f"namespace team-b holds more than {QUOTA} bytes" in tenants.quotas.why("team-b")


@pytest.mark.integration
async def test_its_own_workers_go_on_and_what_they_take_off_the_queue_gives_the_rights_back(
    tenants,
):
    await tenants.redis.xgroup_create(B.developer_input, DEVELOPER_GROUP, id="0", mkstream=True)
    async with tenants.login("p:team-b") as producer, running(tenants):
        entry = await producer.xadd(B.developer_input, TOO_MUCH)
        add = ("p:team-b", "XADD", B.developer_input, "*", "data", "{}")

        async def taken() -> bool:
            return not await tenants.may(*add)

        await eventually(taken)
        assert await producer.xread({B.developer_output: "0"}) == []
        async with tenants.login("w:team-b") as worker:
            keys = (B.attempt_record("u", 1), B.developer_input, B.developer_output, B.lifecycle)
            routed = (60, entry, DEVELOPER_GROUP, "{}", "{}", "team-b/fix", "1")
            assert await worker.fcall(PUBLISH.function, len(keys), *keys, *routed)

        async def back() -> bool:
            return await tenants.may(*add)

        await eventually(back)
    assert tenants.figures["levels"] == {}


@pytest.mark.integration
async def test_at_twice_the_quota_workers_may_not_add_and_an_answer_waits_whole(tenants):
    await tenants.redis.xgroup_create(B.developer_input, DEVELOPER_GROUP, id="0", mkstream=True)
    entry = await tenants.redis.xadd(B.developer_input, SMALL)
    lease = (B.developer_lease("w"), "t", "", "1", "p", "h", 12)
    large = await tenants.redis.xadd(B.lifecycle, {"data": "x" * 2 * QUOTA})
    keys = (B.attempt_record("u", 1), B.developer_input, B.developer_output, B.lifecycle)
    routed = (60, entry, DEVELOPER_GROUP, "{}", "{}", "team-b/fix", "1")
    await tenants.quotas.check()
    assert tenants.quotas.why("team-b", HARD_LIMIT)
    async with tenants.login("w:team-b") as worker:
        with pytest.raises(ResponseError, match=REFUSED):
            await worker.fcall(PUBLISH.function, len(keys), *keys, *routed)
        with pytest.raises(ResponseError, match=REFUSED):
            await worker.fcall(TAKE.function, 1, *lease)
        assert await tenants.redis.exists(B.developer_output, keys[0]) == 0
        assert len(await worker.xrange(B.developer_input)) == 1
        said = ("XADD", B.lifecycle, "*", "data", "{}")
        assert not await tenants.may("s:team-b:bob", *said)
        assert await tenants.may("s:team-a:bob", "XADD", A.lifecycle, "*", "data", "{}")
        assert await worker.xdel(B.lifecycle, large)
        await tenants.quotas.check()
        assert await worker.fcall(PUBLISH.function, len(keys), *keys, *routed)


@pytest.mark.integration
async def test_an_operator_that_begins_anew_gives_nobody_back_what_was_taken(
    tenants, own_redis_server
):
    await tenants.redis.xadd(B.developer_input, TOO_MUCH)
    await tenants.quotas.check()
    assert await tenants.may_hand_in("team-b") == [False, False, False]
    again = Tenants(tenants.redis, own_redis_server.url)
    with capture_logs() as logs:
        await again.admit()
        assert await again.may_hand_in("team-b") == [False, False, False]
        await again.quotas.check()
    assert await again.may_hand_in("team-b") == [False, False, False]
    assert await again.may_hand_in("team-a") == [True, True, True]
    said = [line["event"] for line in logs if line["event"].startswith(("quota", "rights"))]
    assert said == ["quota exceeded; rights to add taken"]


@pytest.mark.integration
async def test_a_redis_that_has_lost_its_users_gets_them_back_without_what_was_taken(
    tenants, own_redis_server
):
    await tenants.redis.xadd(B.developer_input, TOO_MUCH)
    await tenants.quotas.check()
    own_redis_server.kill()
    own_redis_server.start()
    await tenants.redis.connection_pool.disconnect()
    await tenants.users.restore()
    assert await tenants.may_hand_in("team-b") == [False, False, False]
    assert await tenants.may_hand_in("team-a") == [True, True, True]


@pytest.mark.integration
async def test_it_is_told_once_for_each_change(tenants):
    entry = await tenants.redis.xadd(B.developer_input, TOO_MUCH)
    with capture_logs() as logs:
        for _ in range(3):
            await tenants.quotas.check()
        await tenants.redis.xdel(B.developer_input, entry)
        for _ in range(3):
            await tenants.quotas.check()
    told = [line for line in logs if line["event"].startswith(("quota", "rights"))]
    assert [(line["log_level"], line["namespace"], line["beyond"]) for line in told] == [
        ("warning", "team-b", 1),
        ("info", "team-b", 0),
    ]
    assert told[0]["bytes"] > QUOTA


@pytest.mark.integration
async def test_the_first_pieces_of_a_key_do_not_stand_for_the_others(tenants):
    """What MEMORY USAGE estimates by its samples: a key of small pieces before large ones."""
    for _ in range(1000):
        await tenants.redis.xadd(B.developer_input, SMALL)
    for _ in range(20):
        await tenants.redis.xadd(B.developer_input, {"data": "x" * (QUOTA // 10)})
    for _ in range(200):
        await tenants.redis.xadd(B.developer_input, SMALL)
    assert await tenants.redis.memory_usage(B.developer_input) < QUOTA
    await tenants.quotas.check()
    assert tenants.quotas.why("team-b")


@pytest.mark.integration
async def test_many_keys_of_any_names_are_counted(tenants):
    async with tenants.redis.pipeline(transaction=False) as pipe:
        for number in range(1300):
            pipe.set(B.session_record(number), "x" * 200)
        pipe.set("{team-b" + "x" * 2_000_000, "no namespace's")
        pipe.set("another program's", "x" * 2 * QUOTA)
        await pipe.execute()
    await tenants.quotas.check()
    assert tenants.figures["levels"] == {"team-b": 1}
    assert set(tenants.figures["held"]) <= {"team-a", "team-b"}


@pytest.mark.integration
async def test_a_hash_with_very_many_fields_is_not_looked_through(tenants):
    """Counted field by field, one of a million would keep Redis from everybody for a second."""
    fields = {str(number): "" for number in range(1001)}
    await tenants.redis.hset(A.session_record(1), mapping=dict(list(fields.items())[:1000]))
    await tenants.redis.hset(B.session_record(1), mapping=fields)
    await tenants.quotas.check()
    assert tenants.figures["levels"] == {"team-b": HARD_LIMIT}
    await tenants.may("c:team-b", "EXPIRE", B.session_record(1), 0)
    await tenants.quotas.check()
    assert tenants.figures["levels"] == {}


@pytest.mark.integration
@pytest.mark.parametrize(("shared", "levels"), [("", {}), ("team-a", {"team-a": 1})])
async def test_keys_without_a_prefix_are_the_namespaces_whose_they_are(
    own_redis_server, shared, levels
):
    async with login(own_redis_server.url) as redis:
        tenants = Tenants(redis, own_redis_server.url, adopt_namespace=shared)
        await redis.xadd(BARE.developer_input, TOO_MUCH)
        await redis.xadd(BARE.po_input("team-b.bob"), SMALL)
        await tenants.quotas.check()
        assert tenants.figures["levels"] == levels
        assert 0 < tenants.figures["held"]["team-b"] < QUOTA


@pytest.mark.integration
@pytest.mark.parametrize("right", ["scan", "memory|usage", "hlen", "type"])
async def test_without_the_right_to_count_users_are_let_in_and_it_is_said_once(
    own_redis_server, right
):
    async with login(own_redis_server.url) as redis:
        rules = ("reset", "on", ">x", "~*", "+@all", f"-{right}")
        await redis.execute_command("ACL", "SETUSER", "limited", *rules)
        await redis.hset("some", "field", "x")
    url = own_redis_server.url.replace("redis://", "redis://limited:x@")
    async with login(url) as limited:
        with capture_logs() as logs:
            tenants = Tenants(limited, url)
            await tenants.admit()
            assert await tenants.may_hand_in("team-b") == [True, True, True]
            for _ in range(2):
                with pytest.raises(NoPermissionError, match=r"give the operator's user \+scan"):
                    await tenants.quotas.check()
    told = [line["error"] for line in logs if line["event"] == "bytes in Redis not counted"]
    assert len(told) == 1
    assert "ORBITER_REDIS_QUOTA_BYTES=0" in told[0]


@pytest.mark.integration
async def test_it_is_said_in_status_and_metrics_and_a_crash_of_the_operator_changes_nothing(world):
    settings = {
        "redis_master_key": MASTER_KEY,
        "key_prefixes": "true",
        "watch_namespaces": "team,other",
        "worker_namespaces": "team,other",
        "redis_quota_bytes": QUOTA,
    }
    operator = await world.start_operator(**settings)
    users = RedisUsers(world.redis, url=world.server.url, master_key=MASTER_KEY)
    team, other = Keys.of_namespace("team"), Keys.of_namespace("other")
    said: list[str] = []

    async def adds(user: str, stream: str) -> bool:
        try:
            async with Redis.from_url(users.url(user), protocol=2) as client:
                await client.xadd(stream, SMALL)
        except (NoPermissionError, AuthenticationError) as error:
            said.append(str(error))
            return False
        return True

    def available() -> str:
        status = (world.api.get("posessions", "team", "alice") or {}).get("status") or {}
        conditions = {item["type"]: item["reason"] for item in status.get("conditions") or ()}
        return conditions.get("Available", "")

    Talks(world.api, world.redis).apply("alice")
    await eventually(lambda: available() == "AsExpected")
    producing = ("p:team", team.developer_input)
    await eventually(partial(adds, *producing))
    await world.redis.xadd(team.po_input("nobody-there"), {"data": "x" * 2 * QUOTA})

    async def refused() -> bool:
        return not await adds(*producing)

    await eventually(refused)
    await eventually(lambda: available() == "RedisQuotaExceeded")
    world.apply("late")
    assert "twice" in (await world.until_reason("late", "RedisQuotaExceeded"))["message"]
    metrics = (await operator.answers())["metrics"][1]
    assert 'orbiter_redis_quotas_exceeded{namespace="team"} 2.0' in metrics
    assert 'orbiter_redis_bytes{namespace="team"}' in metrics
    await operator.end()
    said.clear()
    await world.start_operator(**settings)
    for _ in range(20):
        assert not await adds(*producing)
    await eventually(partial(adds, "p:other", other.developer_input))
    await eventually(lambda: "users restored" in world.operators[-1].log.read_text())
    assert not await adds(*producing)
    assert all("permission" in text for text in said)
    await world.redis.delete(team.po_input("nobody-there"))
    await eventually(partial(adds, *producing))
    await eventually(lambda: available() == "AsExpected")
    await eventually(lambda: world.status("late").get("reason") != "RedisQuotaExceeded")


@pytest.mark.integration
async def test_where_there_is_no_quota_nothing_is_counted_and_nothing_taken(own_redis_server):
    async with login(own_redis_server.url) as redis:
        users = RedisUsers(redis, url=own_redis_server.url, master_key=MASTER_KEY)
        quotas = Quotas(redis, users, Settings(redis_quota_bytes=0))
        namespaces = NamespaceUsers(
            users, keys=Keys.of_namespace, records=lambda name, keys: keys.session_records()
        )
        await namespaces.admit("team-b")
        await redis.xadd(B.developer_input, TOO_MUCH)
        await quotas.run()
        assert "cmdstat_scan" not in await redis.info("commandstats")
        assert quotas.why("team-b") is None


@pytest.mark.integration
async def test_what_nobody_has_added_to_is_not_counted_again_before_its_time(tenants, monkeypatch):
    monkeypatch.setattr(quota, "_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(quota, "_LONGEST_SECONDS", 3600.0)
    monkeypatch.setattr(quota, "_GROWTH", 1)  # connections grow, too
    looks, passes = 0, 0
    counted, due = tenants.quotas.check, tenants.quotas._may_have_changed

    async def count() -> None:
        nonlocal passes
        passes += 1
        await counted()

    async def look(now: float) -> bool:
        nonlocal looks
        looks += 1
        return await due(now)

    monkeypatch.setattr(tenants.quotas, "check", count)
    monkeypatch.setattr(tenants.quotas, "_may_have_changed", look)
    async with running(tenants):
        await eventually(lambda: looks > 20)
        assert passes == 1
        await tenants.redis.set(B.task_snapshot("made-up"), TOO_MUCH["data"])
        await eventually(lambda: tenants.figures["levels"] == {"team-b": 1})
        before = passes
        await eventually(lambda: passes > before + 3)  # so that rights come back soon
