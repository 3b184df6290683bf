"""The operator's users and their functions on a real Redis: kept, whatever happens to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from urllib.parse import unquote, urlsplit

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, RedisError
from structlog.testing import capture_logs
from support.eventually import eventually
from support.redis_server import MASTER_KEY, RedisServer, login

from orbiter_contracts.functions import FUNCTIONS
from orbiter_contracts.lease_scripts import TAKE
from orbiter_contracts.queues import BARE, Keys
from orbiter_contracts.redis_users import producer_rules, session_rules
from orbiter_contracts.scripts import LIBRARY
from orbiter_operator.kube.models import RefusedError
from orbiter_operator.namespaces.users import NamespaceUsers
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.streams.client import redis_client
from orbiter_operator.streams.users import RedisUsers

pytestmark = pytest.mark.integration
RULES = producer_rules(BARE)


@pytest.fixture
async def redis(own_redis_server) -> AsyncIterator[Redis]:
    """The operator's client of a server that this test may stop."""
    async with login(own_redis_server.url) as client:
        yield client


@pytest.fixture
def users(redis, own_redis_server) -> RedisUsers:
    return RedisUsers(redis, url=own_redis_server.url, master_key=MASTER_KEY)


async def lets_in(url: str) -> bool:
    with suppress(RedisError):
        async with login(url) as client:
            return await client.ping()
    return False


async def functions(redis: Redis) -> int:
    return sum(len(library[5]) for library in await redis.function_list(LIBRARY))


@asynccontextmanager
async def running(users: RedisUsers) -> AsyncIterator[None]:
    """Have the users looked after meanwhile."""
    task = asyncio.create_task(users.run())
    try:
        yield
    finally:
        await end({task})


async def test_a_user_finds_the_functions_when_it_finds_its_way_in(redis, users):
    assert await functions(redis) == 0
    await users.ensure("w:team-a", session_rules(BARE, "a.b", BARE.session_record(1)))
    assert await functions(redis) == len(FUNCTIONS)
    async with login(users.url("w:team-a")) as worker:
        lease = BARE.po_lease("a.b")
        assert await worker.fcall(TAKE.function, 1, lease, "t", "", "1", "p", "h", 12) == []


async def test_a_redis_that_has_lost_everything_gets_all_of_it_again(
    own_redis_server, redis, users
):
    names = [f"s:team:u{number}" for number in range(1000)]
    for name in names:
        await users.ensure(name, RULES, uid="u1")
    await redis.function_flush()
    own_redis_server.kill()
    own_redis_server.start()
    urls = [users.url(name, uid="u1") for name in (names[0], names[-1])]
    assert not await lets_in(urls[0])
    assert await functions(redis) == 0
    async with running(users):
        for url in urls:
            await eventually(partial(lets_in, url))
    assert await functions(redis) == len(FUNCTIONS)


async def test_who_takes_over_after_a_fail_over_has_the_functions_and_gets_the_users(replicated):
    redis = redis_client(replicated.url)
    users = RedisUsers(redis, url=replicated.url, master_key=MASTER_KEY)
    async with running(users):
        await users.ensure("p:team", RULES)
        watch = await replicated.fail_over()
        primary = replicated.primary
        url = f"redis://p%3Ateam:{users.password('p:team')}@127.0.0.1:{primary.port}/0"
        await eventually(partial(lets_in, url))
        watch.say("the user is let in")
        async with login(primary.url) as admin:
            assert await functions(admin) == len(FUNCTIONS)
    await redis.aclose()


async def test_a_removed_user_is_cut_off_and_does_not_come_back(own_redis_server, redis, users):
    await users.ensure("p:team", RULES)
    async with login(users.url("p:team")) as producer:
        assert await producer.xadd(BARE.developer_input, {"data": "{}"})
        await users.remove("p:team")
        with pytest.raises(RedisError, match=r"(?i)closed|reset|username-password"):
            await producer.xlen(BARE.developer_output)
    own_redis_server.kill()
    own_redis_server.start()
    await redis.connection_pool.disconnect()
    await users.restore()
    assert not await lets_in(users.url("p:team"))


async def test_what_was_done_before_is_not_done_again_and_other_rights_are(redis, users):
    async def given() -> int:
        return (await redis.info("commandstats"))["cmdstat_acl|setuser"]["calls"]

    await users.ensure("p:team", RULES)
    for _ in range(3):
        await users.ensure("p:team", RULES)
        await users.restore()
    assert await given() == 1
    await users.ensure("p:team", producer_rules(Keys.of_namespace("team")))
    assert await given() == 2
    async with login(users.url("p:team")) as producer:
        with pytest.raises(NoPermissionError):
            await producer.xadd(BARE.developer_input, {"data": "{}"})
        assert await producer.xadd("{team}:worker:developer:input", {"data": "{}"})


@pytest.mark.parametrize("right", ["acl|setuser", "function|load", "info"])
async def test_an_operator_that_may_not_is_told_what_to_give_it(own_redis_server, redis, right):
    rules = ("reset", "on", ">x", "~*", "+@all", f"-{right}")
    await redis.execute_command("ACL", "SETUSER", "limited", *rules)
    url = own_redis_server.url.replace("redis://", "redis://limited:x@")
    async with login(url) as limited:
        users = RedisUsers(limited, url=url, master_key=MASTER_KEY)
        with pytest.raises(RefusedError) as refused:
            await users.ensure("p:team", RULES)
    assert refused.value.refusal.reason == "UserNotMade"
    assert f"+{right}" in refused.value.refusal.message
    assert "the user p:team" in refused.value.refusal.message


async def test_a_full_redis_lets_users_in_all_the_same(redis, users):
    await users.ensure("p:team", RULES)
    await redis.config_set("maxmemory", 1)
    again = RedisUsers(redis, url=users.url("operator"), master_key=MASTER_KEY)
    await again.ensure("p:other", RULES)
    assert await lets_in(users.url("p:other"))
    await redis.function_flush()
    await redis.config_set("maxmemory", 0)
    await again.restore()
    assert await functions(redis) == len(FUNCTIONS)


async def test_without_a_master_key_nothing_is_done_and_nothing_is_told(redis):
    users = RedisUsers(redis, url="redis://operator:secret@127.0.0.1:6379/0", master_key="")
    await users.ensure("p:team", RULES)
    await users.remove("p:team")
    await users.run()
    assert await redis.acl_users() == ["default"]
    with pytest.raises(ValueError, match="ORBITER_REDIS_MASTER_KEY"):
        users.url("p:team")


@pytest.mark.parametrize(
    ("url", "rest"),
    [
        ("redis://operator:pw@redis.example:6379/2", "redis.example:6379/2"),
        ("rediss://operator:pw@redis.example:6379/0?ssl_ca_certs=/ca.crt", "?ssl_ca_certs=/ca.crt"),
        ("redis+sentinel://operator:pw@a:26379,b:26379/mymaster/0", "a:26379,b:26379/mymaster/0"),
    ],
)
def test_a_users_url_is_the_operators_with_its_own_name_and_word(url, rest):
    users = RedisUsers(Redis(), url=url, master_key=MASTER_KEY)
    made = urlsplit(users.url("w:team-a"))
    assert made.scheme == urlsplit(url).scheme
    assert unquote(made.username or "") == "w:team-a"
    assert made.password == users.password("w:team-a")
    assert made.geturl().endswith(rest)
    assert "pw" not in made.geturl()


def test_passwords_of_two_users_objects_and_installations_differ():
    ours, theirs = (RedisUsers(Redis(), url="", master_key=key) for key in ("ours", "theirs"))
    words = [
        *(ours.password("w:a"), ours.password("w:b"), ours.password("w:a", uid="u1")),
        *(ours.password("w:a", uid="u2"), theirs.password("w:a")),
    ]
    assert len(set(words)) == 5
    assert ours.password("w:a") == words[0]


@pytest.mark.parametrize("keys", [BARE, Keys.of_namespace("team-a")], ids=["shared", "own"])
async def test_a_namespace_is_let_in_and_out_again(redis, users, keys):
    namespaces = NamespaceUsers(
        users, keys=lambda _: keys, records=lambda name, keys: keys.session_records(name)
    )
    urls = await namespaces.admit("team-a")
    assert [unquote(urlsplit(url).username or "") for url in urls] == [
        *("w:team-a", "c:team-a", "p:team-a", "t:team-a")
    ]
    session = keys.po_input("alice" if keys.prefix else "team-a.alice")
    async with login(urls.producer) as producer, login(urls.chat) as chat:
        assert await producer.xadd(keys.developer_input, {"data": "{}"})
        assert await chat.xadd(session, {"data": "{}"})
        with pytest.raises(NoPermissionError):
            await chat.xadd(keys.developer_input, {"data": "{}"})
    async with login(urls.developer) as worker:
        lease = keys.developer_lease("w-1")
        assert await worker.fcall(TAKE.function, 1, lease, "t", "", "1", "p", "h", 12) == []
    await namespaces.dismiss("team-a")
    assert not any([await lets_in(url) for url in urls])


def of_generation(redis: Redis, server: RedisServer, generation: int) -> RedisUsers:
    return RedisUsers(redis, url=server.url, master_key=MASTER_KEY, generation=generation)


async def test_a_new_password_opens_beside_the_old_one_until_nobody_has_that(
    own_redis_server, redis
):
    old, new, next_one = (of_generation(redis, own_redis_server, number) for number in (1, 2, 3))
    urls = [users.url("p:team") for users in (old, new, next_one)]
    await old.ensure("p:team", RULES)
    assert [await lets_in(url) for url in urls] == [True, False, False]
    async with login(urls[0]) as early, login(urls[1]) as late:
        assert await early.ping()
        await new.ensure("p:team", RULES, previous=True)
        assert [await lets_in(url) for url in urls] == [True, True, False]
        assert await early.ping()  # on the connection it has
        assert await late.ping()
        await new.ensure("p:team", RULES)
        assert [await lets_in(url) for url in urls] == [False, True, False]
        with pytest.raises(RedisError, match=r"(?i)closed|reset|username-password"):
            await early.ping()
        with suppress(RedisConnectionError):
            await late.ping()
        assert await late.ping()  # on a new one
    await next_one.ensure("p:team", RULES, previous=True)
    assert [await lets_in(url) for url in urls] == [False, True, True]


async def test_both_passwords_open_a_redis_that_has_lost_its_users(own_redis_server, redis):
    old, new = (of_generation(redis, own_redis_server, number) for number in (1, 2))
    await new.ensure("p:team", RULES, previous=True)
    own_redis_server.kill()
    own_redis_server.start()
    await redis.connection_pool.disconnect()
    await new.restore()
    assert await lets_in(old.url("p:team"))
    assert await lets_in(new.url("p:team"))


async def test_in_the_first_generation_nobody_is_cut_off(redis, users):
    await users.ensure("p:team", RULES)
    async with login(users.url("p:team")) as producer:
        assert await producer.ping()
        await users.ensure("p:team", producer_rules(Keys.of_namespace("team")))
        assert await producer.ping()
    assert "cmdstat_client|kill" not in await redis.info("commandstats")


async def test_an_operator_that_has_begun_anew_ends_what_an_old_password_has_opened(
    own_redis_server, redis
):
    old, new = (of_generation(redis, own_redis_server, number) for number in (1, 2))
    await old.ensure("p:team", RULES)
    async with login(old.url("p:team")) as stolen:
        assert await stolen.ping()
        await new.ensure("p:team", RULES)
        with pytest.raises(RedisError, match=r"(?i)closed|reset|username-password"):
            await stolen.ping()


PROGRAM = """#!lua name=orbiter
redis.register_function('orbiter_endless', function() while true do end end)"""
PROGRAMS = [
    ("EVAL", "return 1", 0),
    ("EVAL_RO", "return 1", 0),
    ("EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", 0),
    ("EVALSHA_RO", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", 0),
    ("SCRIPT", "LOAD", "return 1"),
    ("SCRIPT", "FLUSH"),
    ("FUNCTION", "LOAD", "REPLACE", PROGRAM),
    ("FUNCTION", "DELETE", "orbiter"),
]


@pytest.mark.parametrize("keys", [BARE, Keys.of_namespace("team-a")], ids=["shared", "own"])
async def test_nobody_but_the_operator_makes_redis_run_a_program(redis, users, keys):
    namespaces = NamespaceUsers(
        users, keys=lambda _: keys, records=lambda name, keys: keys.session_records(name)
    )
    session = "s:team-a:alice"
    await users.ensure(session, session_rules(keys, "team-a.alice", keys.session_record(1)))
    for url in (*await namespaces.admit("team-a"), users.url(session)):
        async with login(url) as client:
            for command in (*PROGRAMS, ("EVAL", "while true do end", 0)):
                with pytest.raises(NoPermissionError):
                    await client.execute_command(*command)
    await redis.script_load("return 1")
    for command in PROGRAMS:  # what the operator's user may
        assert await redis.execute_command(*command)


async def test_who_opens_too_many_connections_loses_the_newest(redis, users):
    await users.ensure("s:team:alice", RULES, max_connections=3)
    await users.ensure("s:team:bob", RULES, max_connections=3)
    url = users.url("s:team:alice")
    async with AsyncExitStack() as stack:
        greedy = [await stack.enter_async_context(login(url)) for _ in range(6)]
        for client in greedy:
            await client.ping()
        modest = await stack.enter_async_context(login(users.url("s:team:bob")))
        assert await modest.ping()
        with capture_logs() as logs:
            await users.limit_connections()
        told = [line for line in logs if line["event"] == "connections ended"]
        assert [(line["user"], line["opened"], line["ended"]) for line in told] == [
            ("s:team:alice", 6, 3)
        ]
        left = [item["user"] for item in await redis.client_list()]
        assert left.count("s:team:alice") == 3
        for client in (*greedy[:3], modest):
            assert await client.ping()
        with capture_logs() as logs:
            await users.limit_connections()
        assert logs == []
        assert await redis.ping()  # of the operator itself, which has no limit


async def test_connections_are_looked_at_again_and_again(redis, users):
    await users.ensure("s:team:alice", RULES, max_connections=1)
    url = users.url("s:team:alice")

    async def one() -> bool:
        return [item["user"] for item in await redis.client_list()].count("s:team:alice") == 1

    async with AsyncExitStack() as stack, running(users):
        for _ in range(3):
            client = await stack.enter_async_context(login(url))
            await client.ping()
        await eventually(one)
