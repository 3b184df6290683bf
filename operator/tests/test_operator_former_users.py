"""The Redis users that an earlier version of the chart has left: they end with the last need."""

import base64
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs
from support.eventually import eventually
from support.fake_api import FakeApi, Object, RefusedRequestError
from support.redis_server import RedisServer

from orbiter_contracts.redis_url import with_login
from orbiter_operator.app import Operator
from orbiter_operator.kube.cache import Children
from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.kube.leader_election import Leader
from orbiter_operator.metrics import OperatorMetrics
from orbiter_operator.namespaces.users import FormerUsers
from orbiter_operator.pods.state import JobState, PodState
from orbiter_operator.runtime.health import Health
from orbiter_operator.sessions.models import pod_of_session
from orbiter_operator.settings import Settings
from orbiter_operator.streams.users import RedisUsers
from orbiter_operator.tasks.cache import job_of_attempt, pod_of_attempt

pytestmark = pytest.mark.integration

QUIET_SECONDS = 3600.0
FORMER = ("developer", "chat-team-a")
OTHERS = {"default", "po", "chat-bob", "developers", "w:team-a", "s:team-a:alice"}
SYSTEM, AUTH, URLS = "orbiter-system", "orbiter-redis-auth", "orbiter-redis"
TASK = {"orbiter.dev/agenttask": "t", "orbiter.dev/agenttask-uid": "u", "orbiter.dev/attempt": "1"}
BEGAN = "2026-01-01T00:00:00Z"
SESSION = {"orbiter.dev/posession": "alice", "orbiter.dev/posession-uid": "u"}


def spec_of(secret: str) -> Object:
    """What a worker's pod names."""
    source = {"valueFrom": {"secretKeyRef": {"name": secret, "key": "developer-url"}}}
    return {"containers": [{"name": "worker", "env": [{"name": "REDIS_URL", **source}]}]}


def child(kind: str, name: str, labels: dict[str, str], spec: Object, status: Object) -> Object:
    """A Job or pod, as the API server tells of it; its controller has the name before the dash."""
    owner = {"kind": kind, "name": name.rpartition("-")[0], "uid": "u", "controller": True}
    meta = {"name": name, "namespace": "team-a", "labels": labels, "ownerReferences": [owner]}
    return {"metadata": meta, "spec": spec, "status": status}


def job(secret: str = URLS, *, over: bool = False) -> Object:
    """A Job of an attempt."""
    status = {"conditions": [{"type": "Complete", "status": "True"}]} if over else {}
    return child("AgentTask", "t-1", TASK, {"template": {"spec": spec_of(secret)}}, status)


def pod(of: str, phase: str = "Pending") -> Object:
    """A worker's pod, of a task or a session."""
    status = {"phase": phase}
    if of == "session":
        return child("ReplicaSet", "alice-5d-x", SESSION, spec_of(URLS), status)
    return child("Job", "t-1-x", TASK, spec_of(URLS), status)


class Installation:
    """One that was upgraded: a fake cluster, a real Redis, and the operator's part about both."""

    def __init__(self, api: FakeApi, kube: Kube, server: RedisServer) -> None:
        self.api = api
        self.kube = kube
        self.server = server
        self.redis: Redis = Redis.from_url(server.url, decode_responses=True)
        self.now = 0.0
        self.jobs: Children[JobState] = Children(job_of_attempt, lambda key: None)
        self.pods: Children[PodState] = Children(pod_of_attempt, lambda key: None)
        self.session_pods: Children[PodState] = Children(
            pod_of_session, lambda key: None, kind="POSession", label="orbiter.dev/posession"
        )
        self.former = self.begun()

    async def upgraded(self) -> None:
        """What the upgrade has left."""
        keys = ("operator", "master", *FORMER)
        data = {f"{key}-password": base64.b64encode(b"before").decode() for key in keys}
        data["users.acl"] = base64.b64encode(b"user developer on #...").decode()
        self.api.put("secrets", {"metadata": {"name": AUTH, "namespace": SYSTEM}, "data": data})
        for namespace in ("team-a", "team-b"):
            self.api.put("secrets", {"metadata": {"name": URLS, "namespace": namespace}})
        for user in {*FORMER, *OTHERS} - {"default"}:
            await self.redis.execute_command("ACL", "SETUSER", user, "on", ">before", "+@all", "~*")

    def begun(self) -> FormerUsers:
        """The operator's part as it is after a start."""
        settings = Settings(
            former_redis_users=FORMER,
            worker_namespaces=("team-a", "team-b"),
            lease_namespace=SYSTEM,
        )
        return FormerUsers(
            settings=settings,
            kube=self.kube,
            users=RedisUsers(self.redis, url=self.server.url, master_key="master"),
            workers=(self.jobs, self.pods, self.session_pods),
            allowed=lambda: None,
            clock=lambda: self.now,
        )

    async def later(self, seconds: float = QUIET_SECONDS) -> None:
        """Look some time later."""
        self.now += seconds
        await self.former.check()

    async def users(self) -> set[str]:
        return set(await self.redis.execute_command("ACL", "USERS"))

    def secrets(self) -> set[str]:
        return {f"{place}/{name}" for place, name in self.api.objects["secrets"]}

    def passwords(self) -> set[str]:
        found = self.api.get("secrets", SYSTEM, AUTH)
        assert found is not None
        return set(found["data"])

    async def nothing_ended(self) -> bool:
        ours = {f"team-a/{URLS}", f"team-b/{URLS}"} <= self.secrets()
        return ours and set(FORMER) <= await self.users() and len(self.passwords()) == 5

    async def all_ended(self) -> bool:
        """Whether they are gone, and nothing else."""
        left = self.secrets(), self.passwords(), await self.users()
        return left == (
            {f"{SYSTEM}/{AUTH}"},
            {"operator-password", "master-password"},
            OTHERS,
        )


@pytest.fixture
async def upgraded(
    api: FakeApi, kube: Kube, own_redis_server: RedisServer
) -> AsyncIterator[Installation]:
    made = Installation(api, kube, own_redis_server)
    await made.upgraded()
    yield made
    await made.redis.aclose()


def versions(obj: Object, version: int) -> Object:
    meta = {
        "uid": "x",
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return obj | {"metadata": obj["metadata"] | meta}


async def test_they_stay_while_a_job_of_before_runs_and_end_with_it(upgraded: Installation) -> None:
    upgraded.jobs.put(versions(job(), 1))
    for _ in range(3):
        await upgraded.later()
        assert await upgraded.nothing_ended()
    upgraded.jobs.put(versions(job(over=True), 2))
    await upgraded.later(QUIET_SECONDS - 1)
    assert await upgraded.nothing_ended()
    with capture_logs() as logs:
        for _ in range(3):
            await upgraded.later()
    assert await upgraded.all_ended()
    told = [line["users"] for line in logs if "earlier version" in line["event"]]
    assert told == [list(FORMER)]


@pytest.mark.parametrize("of", ["task", "session"])
async def test_a_pod_of_before_that_has_not_ended_keeps_them(
    upgraded: Installation, of: str
) -> None:
    pods = upgraded.pods if of == "task" else upgraded.session_pods
    pods.put(versions(pod(of), 1))
    await upgraded.later()
    assert await upgraded.nothing_ended()
    pods.put(versions(pod(of, "Succeeded"), 2))
    await upgraded.later()
    assert await upgraded.all_ended()


async def test_what_has_begun_since_does_not_keep_them(upgraded: Installation) -> None:
    upgraded.jobs.put(versions(job("orbiter-developer"), 1))
    await upgraded.later()
    assert await upgraded.all_ended()


async def test_an_operator_that_has_just_begun_gives_them_the_same_time(
    upgraded: Installation,
) -> None:
    upgraded.jobs.put(versions(job(), 1))
    await upgraded.later()
    upgraded.former = upgraded.begun()
    await upgraded.later(QUIET_SECONDS - 1)
    assert await upgraded.nothing_ended()
    upgraded.jobs.put(versions(job(over=True), 2))
    upgraded.former = upgraded.begun()
    await upgraded.later(QUIET_SECONDS - 1)
    assert await upgraded.nothing_ended()
    await upgraded.later(1)
    assert await upgraded.all_ended()


@pytest.mark.parametrize("step", [("delete", "secrets"), ("patch", "secrets"), None])
async def test_who_comes_after_a_crash_ends_them(
    upgraded: Installation, monkeypatch: pytest.MonkeyPatch, step: tuple[str, str] | None
) -> None:
    async def fails(verb: str, plural: str, body: object) -> None:
        if (verb, plural) == step:
            raise RefusedRequestError(500, "InternalError", "the connection is gone")

    async def crash(users: object) -> int:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(upgraded.api, "before", fails)
        if step is None:
            patched.setattr(upgraded.former._users, "delete", crash)
        with pytest.raises((ApiError, ConnectionError)):
            await upgraded.later()
    assert set(FORMER) <= await upgraded.users()
    upgraded.former = upgraded.begun()
    await upgraded.later()
    assert await upgraded.all_ended()
    upgraded.former = upgraded.begun()
    await upgraded.later()
    assert await upgraded.all_ended()


async def test_a_front_end_that_nobody_has_told_keeps_its_own(upgraded: Installation) -> None:
    url = with_login(upgraded.server.url, "chat-team-a", "before")
    async with Redis.from_url(url) as front_end:
        await front_end.ping()
        await upgraded.later()
        assert await upgraded.users() == {*OTHERS, "chat-team-a"}
        assert f"team-a/{URLS}" in upgraded.secrets()
        assert upgraded.passwords() >= {"chat-team-a-password"}

    async def gone() -> bool:
        return "chat-team-a" not in await upgraded.former._users.connections()

    await eventually(gone)
    await upgraded.later()
    assert await upgraded.all_ended()


@pytest.mark.parametrize("of", ["job", "task", "session"])
async def test_the_operator_knows_what_of_before_there_is(
    upgraded: Installation, kube: Kube, of: str
) -> None:
    settings = Settings(redis_url=upgraded.server.url, redis_master_key="master")
    operator = Operator(
        settings=settings,
        kube=kube,
        redis=upgraded.redis,
        reader=upgraded.redis,
        leader=Leader(
            kube,
            namespace=SYSTEM,
            name="lease",
            identity="operator-0",
            duration=10,
            renew=2,
            clock=lambda: upgraded.now,
        ),
        metrics=OperatorMetrics(),
        health=Health(),
    )
    former = operator._namespaces.former
    assert not former._begun()
    match of:
        case "job":
            operator.store.jobs.put(versions(job(), 1))
        case "task":
            operator.store.pods.put(versions(pod(of), 1))
        case "session":
            operator.sessions.store.pods.put(versions(pod(of), 1))
    assert former._begun()
