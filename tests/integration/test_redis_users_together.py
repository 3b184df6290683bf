"""The operator's users and real workers together: neither a restart nor a password costs a turn."""

import asyncio
import base64
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import kopf
import pytest
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError
from support.eventually import eventually
from support.fake_api import FakeApi
from support.queues import Queues
from support.redis_server import PATIENT, RedisServer
from support.wrapper import FakeClaude, WrapperProcess, Wrappers

from orbiter_contracts.queues import BARE, PO_GROUP
from orbiter_contracts.redis_url import with_login
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.connection import Credentials
from orbiter_operator.namespaces.reconcile import Namespaces
from orbiter_operator.namespaces.users import NamespaceUsers
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.sessions.cache import session_key
from orbiter_operator.sessions.users import SessionUsers
from orbiter_operator.settings import Settings
from orbiter_operator.streams.tenants import keys_of
from orbiter_operator.streams.users import RedisUsers

pytestmark = pytest.mark.integration
KEY, UID, WORKER, RECORD = session_key("team", "po-1"), "u1", "po-1", BARE.session_record(7)
FORMER_USER = (
    *("developer", "on", ">before", "resetchannels", "~worker:developer:*", "~worker:lifecycle"),
    *("~agenttask:*", "-@all", "+@connection", "+@transaction", "+@stream", "+eval", "+evalsha"),
    *("+script|load", "+script|exists", "+exists", "+expire", "+type", "+ttl", "+get", "+set"),
    *("+hget", "+hset", "+hexists"),
)
"""The user of developer workers before each namespace had its own."""


class Operators:
    """Operators of one Redis, each of a generation of passwords."""

    def __init__(self, redis: Redis, server: RedisServer) -> None:
        self.redis = redis
        self._server = server

    def users(self, generation: int = 1) -> RedisUsers:
        """The users that such an operator makes."""
        url = self._server.url
        return RedisUsers(self.redis, url=url, master_key="a key", generation=generation)

    @staticmethod
    async def let_in(users: RedisUsers, *, previous: bool = False) -> str:
        """Let the session's worker in; return its Secret's URL."""
        sessions = SessionUsers(users, shared_secret=("", ""))
        await sessions.ensure(KEY, UID, WORKER, RECORD, previous=previous)
        return sessions.credentials(KEY, UID).url


@pytest.fixture
async def operators(own_redis_server: RedisServer) -> AsyncIterator[Operators]:
    url = own_redis_server.url
    async with Redis.from_url(url, decode_responses=True, protocol=2, **PATIENT) as redis:
        await redis.xgroup_create(BARE.po_input(WORKER), PO_GROUP, "0", mkstream=True)
        yield Operators(redis, own_redis_server)


@pytest.fixture
def workers(
    tmp_path: Path, own_redis_server: RedisServer, fake_claude: FakeClaude
) -> Iterator[Wrappers]:
    workers = Wrappers(tmp_path, own_redis_server.url, fake_claude)
    yield workers
    workers.end()


@asynccontextmanager
async def looked_after(users: RedisUsers) -> AsyncIterator[None]:
    """Have the users looked after meanwhile."""
    task = asyncio.create_task(users.run())
    try:
        yield
    finally:
        await end({task})


def start(workers: Wrappers, url: str) -> WrapperProcess:
    """Start the session's worker as its pod would."""
    own = {"USER_ID": "7", "SESSION_USERS": "Own", "REDIS_SCRIPTS": "Functions"}
    return workers.start(WORKER, WORKER_TYPE="po", REDIS_URL=url, **own)


async def test_a_turn_outlives_a_redis_that_comes_back_without_its_users(
    operators: Operators,
    own_redis_server: RedisServer,
    workers: Wrappers,
    fake_claude: FakeClaude,
) -> None:
    queues, users = Queues(operators.redis), operators.users()
    url = await operators.let_in(users)
    fake_claude.hold()
    worker = start(workers, url)
    await queues.message("hello")
    await eventually(lambda: fake_claude.turns)
    own_redis_server.kill()
    own_redis_server.start()
    fake_claude.release()
    assert "the user s:team:po-1" in (await worker.logged("redis_waits"))["missing"]
    async with looked_after(users):
        assert len(await queues.answers(1)) == 1
    assert len(fake_claude.turns) == 1


async def test_a_new_generation_of_passwords_loses_no_turn(
    operators: Operators, workers: Wrappers, fake_claude: FakeClaude
) -> None:
    queues = Queues(operators.redis)
    old_url = await operators.let_in(operators.users())
    fake_claude.hold()
    worker = start(workers, old_url)
    await queues.message("one")
    await eventually(lambda: fake_claude.turns)

    users = operators.users(generation=2)
    async with looked_after(users):
        url = await operators.let_in(users, previous=True)
        fake_claude.release()
        assert len(await queues.answers(1)) == 1
        await queues.message("two")  # before its pod is replaced
        assert len(await queues.answers(2)) == 2
        worker.send(signal.SIGTERM)
        assert await worker.exit_code() == 0

        fake_claude.hold()
        start(workers, url)
        await queues.message("three")
        await eventually(lambda: len(fake_claude.turns) == 3)
        assert await operators.let_in(users) == url
        async with Redis.from_url(old_url, protocol=2) as thief:
            with pytest.raises(AuthenticationError):
                await thief.ping()
        fake_claude.release()
        assert len(await queues.answers(3)) == 3
    assert len(fake_claude.turns) == 3


async def test_a_developers_task_is_done_with_the_url_of_its_namespace(
    operators: Operators, workers: Wrappers
) -> None:
    queues = Queues(operators.redis)
    namespaces = NamespaceUsers(
        operators.users(), keys=lambda _: BARE, records=lambda name, _: BARE.session_records(name)
    )
    urls = await namespaces.admit("team")
    task = await queues.bound_task()
    worker = workers.start(REDIS_SCRIPTS="Functions", **task, REDIS_URL=urls.developer)
    assert await worker.exit_code() == 0
    assert (await queues.output()).status == "success"


@asynccontextmanager
async def cluster() -> AsyncIterator[tuple[FakeApi, Kube]]:
    """A cluster with a namespace of workers, listed in the chart."""
    api = FakeApi()
    await api.start()
    api.put("serviceaccounts", {"metadata": {"name": "orbiter-worker", "namespace": "team"}})
    try:
        async with Kube(Credentials(lambda: kopf.ConnectionInfo(server=api.url))) as kube:
            yield api, kube
    finally:
        await api.stop()


def secret_url(api: FakeApi, name: str) -> str:
    """The URL for developer workers in a Secret."""
    found = api.get("secrets", "team", name)
    assert found is not None
    return base64.b64decode(found["data"]["developer-url"]).decode()


async def test_a_job_made_before_an_upgrade_whose_pod_starts_after_it_does_its_work(
    operators: Operators, own_redis_server: RedisServer, workers: Wrappers
) -> None:
    """Its pod names the Secret of before, knows no prefix, and sends its scripts."""
    queues = Queues(operators.redis)
    await operators.redis.execute_command("ACL", "SETUSER", *FORMER_USER)
    former_url = with_login(own_redis_server.url, "developer", "before")
    task = await queues.bound_task()
    async with cluster() as (api, kube):
        data = {"developer-url": base64.b64encode(former_url.encode()).decode()}
        meta = {"name": "orbiter-redis", "namespace": "team"}
        api.put("secrets", {"metadata": meta, "data": data})
        settings = Settings(
            redis_url=own_redis_server.url,
            redis_master_key="a key",
            key_prefixes=True,
            redis_secret_name="orbiter-developer",
            worker_namespaces=("team",),
        )
        users = operators.users()
        namespaces = Namespaces(
            settings=settings,
            kube=kube,
            users=NamespaceUsers(
                users, keys=keys_of(settings), records=lambda name, keys: keys.session_records(name)
            ),
            workers=(),
            allowed=lambda: None,
            measure=lambda seconds, ok: None,
        )
        await namespaces.reconcile("team")
        assert "//w%3Ateam:" in secret_url(api, "orbiter-developer")
        worker = workers.start(**task, REDIS_URL=secret_url(api, "orbiter-redis"))
        assert await worker.exit_code() == 0
    assert (await queues.output()).status == "success"
