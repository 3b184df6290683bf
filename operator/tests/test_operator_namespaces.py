"""Namespaces in which tasks may run: what they get, from whom, and what goes with their label."""

import asyncio
import base64
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, RedisError
from structlog.testing import capture_logs
from support.eventually import eventually
from support.fake_api import FakeApi, Object, RefusedRequestError
from support.redis_server import RedisServer

from orbiter_contracts.bounds import one_line
from orbiter_contracts.queues import BARE, Keys
from orbiter_contracts.redis_users import session_rules, session_user
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.leader_election import NotLeadingError
from orbiter_operator.namespaces import reconcile
from orbiter_operator.namespaces.reconcile import Namespaces
from orbiter_operator.namespaces.users import CHAT_SECRET, NamespaceUsers
from orbiter_operator.runtime.supervisor import run_concurrently
from orbiter_operator.settings import Settings
from orbiter_operator.streams.tenants import keys_of
from orbiter_operator.streams.users import RedisUsers

pytestmark = pytest.mark.integration

LISTED, LABELLED = "team-a", "team-b"
LABEL = {"orbiter.dev/tenant": "true"}
POLICY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "orbiter-worker", "labels": {"app.kubernetes.io/managed-by": "Helm"}},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
}
ACCOUNT = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "orbiter-worker"},
    "automountServiceAccountToken": False,
}
WORKER = {"app.kubernetes.io/managed-by": "orbiter", "app.kubernetes.io/name": "agent-worker"}
SECRETS = {"orbiter-redis": "developer-url", "orbiter-chat": "chat-url"}
SECRETS |= {"orbiter-producer": "producer-url", "orbiter-transcript": "transcript-url"}


class Tenants:
    """A fake cluster, a real Redis, and the part of the operator between them."""

    def __init__(self, api: FakeApi, kube: Kube, server: RedisServer, directory: Path) -> None:
        self.api = api
        self.kube = kube
        self.server = server
        self.directory = directory
        self.redis: Redis = Redis.from_url(server.url, decode_responses=True)
        self.seconds: list[bool] = []
        self.write(ACCOUNT, POLICY)
        self.operator = self.made()

    def made(self, **settings: Any) -> Namespaces:
        """The part as it is after a start."""
        given = Settings(
            **{
                "redis_url": self.server.url,
                "redis_master_key": "master",
                "worker_namespaces": (LISTED,),
                "namespace_selector": "orbiter.dev/tenant=true",
                "namespace_objects": str(self.directory),
                "lease_namespace": "orbiter-system",
            }
            | settings
        )
        users = RedisUsers(self.redis, url=given.redis_url, master_key=given.redis_master_key)
        self.users = NamespaceUsers(
            users, keys=keys_of(given), records=lambda name, keys: BARE.session_records(name)
        )
        return Namespaces(
            settings=given,
            kube=self.kube,
            users=self.users,
            workers=(),
            allowed=lambda: None,
            measure=lambda seconds, ok: self.seconds.append(ok),
        )

    def write(self, *objects: Object, name: str = "namespace.json") -> None:
        (self.directory / name).write_text(json.dumps(objects))

    def namespace(self, name: str, **labels: str) -> None:
        known = self.api.get("namespaces", "", name) or {"metadata": {}}
        same = {"uid": known["metadata"]["uid"]} if known["metadata"] else {}
        self.api.put("namespaces", {"metadata": {"name": name, "labels": labels, **same}})

    def pod(self, namespace: str, node: str | None = "node", **status: Any) -> None:
        meta = {"name": "worker", "namespace": namespace, "labels": WORKER}
        self.api.put("pods", {"metadata": meta, "spec": {"nodeName": node}, "status": status})

    def named(self, plural: str, namespace: str) -> set[str]:
        return {name for place, name in self.api.objects[plural] if place == namespace}

    def url(self, namespace: str, secret: str) -> str:
        found = self.api.get("secrets", namespace, secret)
        assert found is not None
        return base64.b64decode(found["data"][SECRETS[secret]]).decode()

    async def lets_in(self, url: str) -> bool:
        client: Redis = Redis.from_url(url)
        try:
            return bool(await client.ping())
        except RedisError:
            return False
        finally:
            await client.aclose()

    async def settle(self) -> None:
        """Reconcile what a comparison finds, and what comes of that."""
        await self.operator.compare()
        while len(self.operator.queue):
            name = self.operator.queue._next()
            await self.operator.reconcile(name)


@pytest.fixture
async def tenants(
    api: FakeApi, kube: Kube, own_redis_server: RedisServer, tmp_path: Path
) -> AsyncIterator[Tenants]:
    made = Tenants(api, kube, own_redis_server, tmp_path)
    made.namespace(LISTED)
    made.api.put("serviceaccounts", {"metadata": {"name": "orbiter-worker", "namespace": LISTED}})
    made.namespace(LABELLED, **LABEL)
    made.namespace("nobodys")
    yield made
    await made.redis.aclose()


async def test_each_kind_of_user_finds_its_url_in_a_secret_of_its_own(tenants: Tenants) -> None:
    await tenants.settle()
    for namespace in (LISTED, LABELLED):
        assert tenants.named("secrets", namespace) == set(SECRETS)
        urls = [tenants.url(namespace, secret) for secret in SECRETS]
        for user, url in zip("wcpt", urls, strict=True):
            assert f"//{user}%3A{namespace}:" in url
            assert await tenants.lets_in(url)
    assert tenants.named("secrets", "nobodys") == set()


async def test_a_listed_namespace_has_the_charts_objects_and_a_labelled_one_the_operators(
    tenants: Tenants,
) -> None:
    await tenants.settle()
    assert tenants.named("networkpolicies", LISTED) == set()
    policy = tenants.api.get("networkpolicies", LABELLED, "orbiter-worker")
    assert policy is not None
    assert policy["spec"] == POLICY["spec"]
    assert policy["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "orbiter",
        "orbiter.dev/operator": "orbiter-operator",
        "orbiter.dev/operator-namespace": "orbiter-system",
    }
    account = tenants.api.get("serviceaccounts", LABELLED, "orbiter-worker")
    assert account is not None
    assert account["automountServiceAccountToken"] is False


async def test_there_is_no_service_account_before_the_policies(tenants: Tenants) -> None:
    await tenants.settle()
    made = [
        plural
        for _, _, plural, obj in tenants.api.history
        if obj["metadata"].get("namespace") == LABELLED
    ]
    assert made == ["networkpolicies", "serviceaccounts", *["secrets"] * 4]


async def test_the_secrets_go_with_the_service_account(tenants: Tenants) -> None:
    await tenants.settle()
    for namespace in (LISTED, LABELLED):
        account = tenants.api.get("serviceaccounts", namespace, "orbiter-worker")
        secret = tenants.api.get("secrets", namespace, "orbiter-chat")
        assert account is not None
        assert secret is not None
        [owner] = secret["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("ServiceAccount", account["metadata"]["uid"])


async def test_a_namespace_may_have_objects_of_its_own(tenants: Tenants) -> None:
    wider = POLICY | {"spec": {"podSelector": {}, "egress": [{}]}}
    tenants.write(ACCOUNT, wider, name=f"namespace-{LABELLED}.json")
    await tenants.settle()
    policy = tenants.api.get("networkpolicies", LABELLED, "orbiter-worker")
    assert policy is not None
    assert policy["spec"]["egress"] == [{}]


async def test_other_kinds_of_objects_are_refused(tenants: Tenants) -> None:
    tenants.write(ACCOUNT, {"kind": "RoleBinding", "metadata": {"name": "x"}})
    await tenants.settle()
    assert tenants.named("serviceaccounts", LABELLED) == set()
    assert set(tenants.seconds) == {False, True}


async def test_the_ca_stands_beside_the_urls_and_in_none_of_a_front_ends_options(
    tenants: Tenants, tmp_path: Path
) -> None:
    (tmp_path / "ca.crt").write_text("PEM")
    url = f"{tenants.server.url}?ssl_ca_certs=/etc/orbiter/redis/ca.crt&timeout=5"
    tenants.operator = tenants.made(
        redis_url=url.replace("redis://", "rediss://"),
        redis_ca_key="ca.crt",
        redis_ca_file=str(tmp_path / "ca.crt"),
    )
    await tenants.settle()
    for secret in SECRETS:
        found = tenants.api.get("secrets", LISTED, secret)
        assert found is not None
        assert base64.b64decode(found["data"]["ca.crt"]) == b"PEM"
    assert tenants.url(LISTED, "orbiter-redis").endswith(
        "?ssl_ca_certs=/etc/orbiter/redis/ca.crt&timeout=5"
    )
    assert tenants.url(LISTED, "orbiter-chat").endswith("?timeout=5")


async def test_when_the_label_goes_everything_goes(tenants: Tenants) -> None:
    await tenants.settle()
    urls = [tenants.url(LABELLED, secret) for secret in SECRETS]
    tenants.namespace(LABELLED)
    await tenants.settle()
    assert tenants.named("serviceaccounts", LABELLED) == set()
    assert tenants.named("networkpolicies", LABELLED) == set()
    assert not any([await tenants.lets_in(url) for url in urls])
    assert await tenants.lets_in(tenants.url(LISTED, "orbiter-redis"))


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Running"},
        {"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]},
        # What the API server still says of a worker that has begun, until its node tells.
        {"phase": "Pending"},
    ],
)
async def test_an_agent_at_work_keeps_its_policies_and_its_user_and_nothing_new_begins(
    tenants: Tenants, status: Object
) -> None:
    await tenants.settle()
    url = tenants.url(LABELLED, "orbiter-redis")
    tenants.pod(LABELLED, **status)
    tenants.namespace(LABELLED)
    await tenants.settle()
    assert tenants.named("serviceaccounts", LABELLED) == set()
    assert tenants.named("networkpolicies", LABELLED) == {"orbiter-worker"}
    assert await tenants.lets_in(url)
    tenants.pod(LABELLED, phase="Succeeded")
    await tenants.settle()
    assert tenants.named("networkpolicies", LABELLED) == set()
    assert not await tenants.lets_in(url)


async def test_a_pod_that_has_no_node_keeps_nothing(tenants: Tenants) -> None:
    await tenants.settle()
    tenants.pod(LABELLED, node=None, phase="Pending")
    tenants.namespace(LABELLED)
    await tenants.settle()
    assert tenants.named("networkpolicies", LABELLED) == set()


async def test_a_label_that_went_while_no_operator_looked_is_noticed(tenants: Tenants) -> None:
    await tenants.settle()
    tenants.namespace(LABELLED)
    tenants.operator = tenants.made()
    await tenants.settle()
    assert tenants.named("networkpolicies", LABELLED) == set()


async def test_a_namespace_that_is_deleted_takes_its_users_with_it(tenants: Tenants) -> None:
    await tenants.settle()
    url = tenants.url(LABELLED, "orbiter-redis")
    found = tenants.api.get("namespaces", "", LABELLED)
    assert found is not None
    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    tenants.api.put("namespaces", found)
    await tenants.settle()
    assert not await tenants.lets_in(url)


async def test_another_installations_objects_are_left_alone(tenants: Tenants) -> None:
    await tenants.settle()
    tenants.namespace(LABELLED)
    tenants.operator = tenants.made(lease_namespace="elsewhere")
    await tenants.settle()
    assert tenants.named("networkpolicies", LABELLED) == {"orbiter-worker"}


async def test_without_a_selector_nobody_looks_at_namespaces(tenants: Tenants) -> None:
    tenants.operator = tenants.made(namespace_selector="")
    await tenants.settle()
    assert tenants.named("secrets", LABELLED) == set()
    assert tenants.named("secrets", LISTED) == set(SECRETS)
    assert "labels of namespaces" not in tenants.operator.parts()
    assert ("list", "namespaces") not in tenants.api.requests


async def test_what_stays_without_a_selector_is_what_the_charts_page_removes_by_its_labels(
    tenants: Tenants,
) -> None:
    await tenants.settle()
    chart = {"name": "orbiter-worker", "namespace": LISTED, "labels": {"a": "b"}}
    for plural in ("serviceaccounts", "networkpolicies"):
        tenants.api.put(plural, {"metadata": chart})
    tenants.operator = tenants.made(namespace_selector="")
    await tenants.settle()
    page = Path(__file__).parents[2] / "helm" / "orbiter" / "README.md"
    [selector] = set(re.findall(r"orbiter\.dev/operator=[^\s`\"]+", page.read_text()))
    wanted = dict(term.split("=") for term in selector.split(","))
    for plural in ("serviceaccounts", "networkpolicies"):
        found = {
            place
            for (place, _), obj in tenants.api.objects[plural].items()
            if wanted.items() <= obj["metadata"]["labels"].items()
        }
        assert found == {LABELLED}
    for name in SECRETS:
        secret = tenants.api.get("secrets", LABELLED, name)
        assert secret is not None
        assert secret["metadata"]["ownerReferences"][0]["kind"] == "ServiceAccount"
    assert not await tenants.lets_in(tenants.url(LABELLED, "orbiter-redis"))


async def test_a_namespace_that_gets_the_label_is_ready_at_once(tenants: Tenants) -> None:
    parts = {name: part() for name, part in tenants.operator.parts().items()}
    async with _running(parts):
        await eventually(lambda: tenants.named("secrets", LABELLED) == set(SECRETS))
        tenants.namespace("new", **LABEL)
        await eventually(lambda: tenants.named("secrets", "new") == set(SECRETS))
        tenants.namespace("new")
        await eventually(lambda: tenants.named("networkpolicies", "new") == set())
        tenants.namespace("new", **LABEL)
        await eventually(lambda: tenants.named("networkpolicies", "new") == {"orbiter-worker"})


@pytest.mark.parametrize("how", ["deleted", "changed", "label taken off"])
async def test_a_policy_that_somebody_alters_is_applied_again_within_seconds(
    tenants: Tenants, how: str
) -> None:
    async with _running({name: part() for name, part in tenants.operator.parts().items()}):
        await eventually(lambda: tenants.named("secrets", LABELLED) == set(SECRETS))
        before = tenants.api.get("networkpolicies", LABELLED, "orbiter-worker")
        assert before is not None
        match how:
            case "deleted":
                tenants.api.remove("networkpolicies", LABELLED, "orbiter-worker")
            case "changed":
                tenants.api.put("networkpolicies", before | {"spec": {"policyTypes": ["Ingress"]}})
            case _:
                bare = before["metadata"] | {"labels": {}}
                tenants.api.put("networkpolicies", before | {"metadata": bare})

        def as_before() -> bool:
            found = tenants.api.get("networkpolicies", LABELLED, "orbiter-worker")
            labels = before["metadata"]["labels"]
            return found is not None and (found["spec"], found["metadata"]["labels"]) == (
                before["spec"],
                labels,
            )

        await eventually(as_before, seconds=25)


async def test_a_service_account_that_was_deleted_comes_back_with_its_secrets(
    tenants: Tenants,
) -> None:
    async with _running({name: part() for name, part in tenants.operator.parts().items()}):
        await eventually(lambda: tenants.named("secrets", LABELLED) == set(SECRETS))
        tenants.api.remove("serviceaccounts", LABELLED, "orbiter-worker")

        def owned_by_the_new_one() -> bool:
            account = tenants.api.get("serviceaccounts", LABELLED, "orbiter-worker")
            found = [tenants.api.get("secrets", LABELLED, name) for name in SECRETS]
            owners = {one["metadata"]["ownerReferences"][0]["uid"] for one in found if one}
            return account is not None and owners == {account["metadata"]["uid"]}

        await eventually(owned_by_the_new_one, seconds=25)


@pytest.mark.parametrize("namespace", [LISTED, LABELLED])
async def test_a_secret_that_somebody_deletes_is_there_again_when_it_is_looked_at_next(
    tenants: Tenants, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "RECHECK_SECONDS", 0.1)
    async with _running({name: part() for name, part in tenants.operator.parts().items()}):
        await eventually(lambda: tenants.named("secrets", namespace) == set(SECRETS))
        tenants.api.remove("secrets", namespace, "orbiter-chat")
        await eventually(lambda: tenants.named("secrets", namespace) == set(SECRETS), seconds=25)


async def test_who_goes_on_deleting_keeps_the_operator_from_nothing_else(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[float] = []

    def deletes(change: str, plural: str, obj: Object) -> None:
        if plural == "networkpolicies" and change == "ADDED":
            applied.append(time.monotonic())
            asyncio.get_running_loop().call_soon(
                tenants.api.remove, plural, LABELLED, "orbiter-worker"
            )

    monkeypatch.setattr(reconcile, "MIN_PAUSE_SECONDS", 0.2)
    async with _running({name: part() for name, part in tenants.operator.parts().items()}):
        await eventually(lambda: tenants.named("secrets", LABELLED) == set(SECRETS))
        tenants.api.listeners.append(deletes)
        tenants.api.remove("networkpolicies", LABELLED, "orbiter-worker")
        await eventually(lambda: len(applied) >= 4, seconds=25)
        # Passes begin so far from each other; the first may have been late.
        assert applied[-1] - applied[0] >= 0.2 * (len(applied) - 2)
        tenants.namespace("new", **LABEL)
        await eventually(lambda: tenants.named("secrets", "new") == set(SECRETS))
        tenants.api.listeners.remove(deletes)
        await eventually(lambda: tenants.named("networkpolicies", LABELLED) != set(), seconds=25)


async def test_what_nobody_alters_is_not_called_applied_again(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "RECHECK_SECONDS", 0.05)
    with capture_logs() as logs:
        async with _running({name: part() for name, part in tenants.operator.parts().items()}):
            await eventually(lambda: tenants.api.requests["patch", "secrets"] > 20)
    assert [line for line in logs if line["event"] == "applied again"] == []


async def test_policies_are_kept_while_the_last_agent_of_a_former_tenant_works(
    tenants: Tenants,
) -> None:
    await tenants.settle()
    tenants.pod(LABELLED, phase="Running")
    tenants.namespace(LABELLED)
    await tenants.settle()
    tenants.api.remove("networkpolicies", LABELLED, "orbiter-worker")
    await tenants.operator.reconcile(LABELLED)
    assert tenants.named("networkpolicies", LABELLED) == {"orbiter-worker"}


def redis_policy() -> Object:
    """The chart's file, which leaves open who is let in."""
    terms = [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": []}]
    peer = {
        "namespaceSelector": {"matchExpressions": terms},
        "podSelector": {"matchLabels": WORKER},
    }
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [peer]}]}
    owner = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "name": "redis-policy"}
    meta = {
        "name": "orbiter-redis-former-tenants",
        "namespace": "orbiter-system",
        "ownerReferences": [owner],
    }
    return {"kind": "NetworkPolicy", "metadata": meta, "spec": spec}


def let_in(tenants: Tenants) -> list[str]:
    """Former tenants whose workers may connect to Redis."""
    found = tenants.api.get("networkpolicies", "orbiter-system", "orbiter-redis-former-tenants")
    if found is None:
        return []
    peer = found["spec"]["ingress"][0]["from"][0]
    assert peer["podSelector"] == {"matchLabels": WORKER}
    role = tenants.api.get("roles", "orbiter-system", "redis-policy")
    assert role, "who may not write the policy has not written it"
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["name"], owner["uid"]) == ("redis-policy", role["metadata"]["uid"])
    values: list[str] = peer["namespaceSelector"]["matchExpressions"][0]["values"]
    return values


async def test_who_is_still_at_work_when_the_label_goes_may_connect_to_redis_until_it_has_ended(
    tenants: Tenants,
) -> None:
    (tenants.directory / "redis-policy.json").write_text(json.dumps(redis_policy()))
    tenants.api.put("roles", {"metadata": {"name": "redis-policy", "namespace": "orbiter-system"}})
    tenants.namespace("another", **LABEL)
    await tenants.settle()
    assert let_in(tenants) == []
    for name in (LABELLED, "another"):
        tenants.pod(name, phase="Running")
        tenants.namespace(name)
    await tenants.settle()
    assert let_in(tenants) == sorted((LABELLED, "another"))
    tenants.pod("another", phase="Succeeded")
    tenants.operator = tenants.made()  # one that has not seen the label go
    await tenants.settle()
    assert let_in(tenants) == [LABELLED]
    tenants.namespace(LABELLED, **LABEL)
    tenants.namespace("another", **LABEL)
    await tenants.settle()
    tenants.pod(LABELLED, phase="Succeeded")
    tenants.namespace(LABELLED)
    await tenants.settle()
    assert let_in(tenants) == [], "no policy is left behind"


async def test_what_the_api_server_refuses_is_tried_again(tenants: Tenants) -> None:
    async def before(verb: str, plural: str, body: Object | None) -> None:
        if plural == "secrets":
            raise RefusedRequestError(403, "Forbidden", "no")

    tenants.api.before = before
    await tenants.settle()
    assert set(tenants.seconds) == {False}


async def test_an_object_that_makes_no_sense_is_tried_again_and_ends_nothing(
    tenants: Tenants,
) -> None:
    tenants.write({"kind": "ServiceAccount"})
    await tenants.settle()
    assert set(tenants.seconds) == {False, True}


async def test_a_replica_that_does_not_hold_the_lease_changes_nothing_and_tries_again(
    tenants: Tenants,
) -> None:
    def lost() -> None:
        raise NotLeadingError("it could not be renewed")

    allowed, tenants.operator._allowed = tenants.operator._allowed, lost
    await tenants.settle()
    assert tenants.named("secrets", LISTED) == set()
    assert set(tenants.seconds) == {False}
    tenants.operator._allowed = allowed
    await tenants.settle()
    assert tenants.named("secrets", LISTED) == set(SECRETS)


class _running:  # noqa: N801 - used like a function
    """Runs parts until the block ends."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self._parts = parts

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(run_concurrently(self._parts))

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


async def test_a_front_end_keeps_its_users_records_where_their_sessions_look(
    own_world: Any,
) -> None:
    account = {"name": "orbiter-worker", "namespace": LISTED}
    own_world.api.put("serviceaccounts", {"metadata": account})
    await own_world.start_operator(
        key_prefixes=True, redis_master_key="master", worker_namespaces=LISTED
    )
    found = await eventually(lambda: own_world.api.get("secrets", LISTED, CHAT_SECRET), seconds=30)
    url = base64.b64decode(found["data"][SECRETS[CHAT_SECRET]]).decode()
    record = Keys.of_namespace(LISTED).session_record(1)
    async with Redis.from_url(url, decode_responses=True, protocol=2) as chat:
        await chat.set(record, "{}")
        assert await chat.get(record) == "{}"
        for other in (BARE.session_record(1), Keys.of_namespace(LABELLED).session_record(1)):
            with pytest.raises(NoPermissionError):
                await chat.set(other, "{}")


def session_of(namespace: str) -> tuple[str, tuple[str, ...]]:
    """A session's user, and its rights."""
    return session_user(namespace, "alice"), session_rules(BARE, f"{namespace}.alice", "record")


async def deleted(tenants: Tenants, namespace: str) -> None:
    """Delete a namespace and all that is in it, while no operator looks."""
    for plural in ("serviceaccounts", "networkpolicies", "secrets"):
        for name in tenants.named(plural, namespace):
            tenants.api.remove(plural, namespace, name)
    tenants.api.remove("namespaces", "", namespace)


async def users_of(tenants: Tenants, namespace: str) -> set[str]:
    """Which kinds of users a namespace has."""
    found = [name.split(":") for name in await tenants.redis.acl_users()]
    return {name[0] for name in found if name[1:2] == [namespace]}


async def registered(tenants: Tenants) -> set[str]:
    key = BARE.namespace_registry("orbiter-system", "orbiter-operator")
    return set(await tenants.redis.hgetall(key))


async def test_a_namespace_that_was_deleted_while_no_operator_looked_takes_its_users_with_it(
    tenants: Tenants,
) -> None:
    await tenants.settle()
    for namespace in (LISTED, LABELLED, f"{LABELLED}-2"):
        await tenants.users.users.ensure(*session_of(namespace))
    tenants.operator = tenants.made(lease_namespace="elsewhere", worker_namespaces=("theirs",))
    account = {"name": "orbiter-worker", "namespace": "theirs"}
    tenants.api.put("serviceaccounts", {"metadata": account})
    await tenants.settle()
    await deleted(tenants, LABELLED)
    tenants.operator = tenants.made()
    await tenants.settle()
    assert await users_of(tenants, LABELLED) == set()
    assert await users_of(tenants, f"{LABELLED}-2") == {"s"}
    assert await users_of(tenants, LISTED) == set("wcpts")
    assert await users_of(tenants, "theirs") == set("wcpt")
    assert await registered(tenants) == {LISTED}


async def test_users_of_a_namespace_that_is_listed_no_more_go_without_a_look_at_it(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants.operator = tenants.made(namespace_selector="")
    await tenants.settle()

    async def forbids(verb: str, plural: str, body: object) -> None:
        raise RefusedRequestError(403, "Forbidden", "it has no rights there")

    monkeypatch.setattr(tenants.api, "before", forbids)
    tenants.operator = tenants.made(namespace_selector="", worker_namespaces=())
    await tenants.settle()
    assert await users_of(tenants, LISTED) == set()
    assert await registered(tenants) == set()


async def test_sessions_users_go_with_the_label_when_no_pod_of_theirs_runs(
    tenants: Tenants,
) -> None:
    await tenants.settle()
    await tenants.users.users.ensure(*session_of(LABELLED))
    tenants.pod(LABELLED, phase="Running")
    tenants.namespace(LABELLED)
    await tenants.settle()
    assert await users_of(tenants, LABELLED) == set("wcpts")
    tenants.pod(LABELLED, phase="Succeeded")
    await tenants.settle()
    assert await users_of(tenants, LABELLED) == set()
    await tenants.users.users.restore(anew=True)
    assert await users_of(tenants, LABELLED) == set()  # nor does a Redis that restarts get them
    await tenants.users.users.ensure(*session_of(LABELLED))
    assert await users_of(tenants, LABELLED) == {"s"}  # they come back with the label


@pytest.mark.parametrize("keeps", ["Running", "Succeeded"])
async def test_a_namespace_says_what_it_needs_for_workers(tenants: Tenants, keeps: str) -> None:
    await tenants.settle()
    assert tenants.operator.why_not_served(LISTED) is None
    assert tenants.operator.why_not_served(LABELLED) is None
    why = tenants.operator.why_not_served("nobodys") or ""
    assert why.endswith(": kubectl label namespace nobodys orbiter.dev/tenant=true")
    tenants.pod(LABELLED, phase=keeps)
    tenants.namespace(LABELLED)
    await tenants.settle()
    assert "need a label" in (tenants.operator.why_not_served(LABELLED) or "")
    listing = tenants.made(namespace_selector="")
    assert "add it to the chart's workers.namespaces" in (listing.why_not_served("x") or "")
    assert tenants.made(namespace_selector="", worker_namespaces=()).why_not_served("x") is None


async def test_what_a_namespace_needs_is_whole_in_a_status_also_with_the_longest_name(
    tenants: Tenants,
) -> None:
    name = "n" * 63
    labelled = tenants.made(namespace_selector="orbiter.dev/workers=true")
    listing = tenants.made(namespace_selector="")
    both = tenants.made(namespace_selector="a.example/b=c,orbiter.dev/d=e")
    for operator in (labelled, listing, both):
        why = operator.why_not_served(name) or ""
        assert one_line(why) == why
    why = both.why_not_served(name) or ""
    assert why.endswith(f": kubectl label namespace {name} a.example/b=c orbiter.dev/d=e")


async def test_nothing_begins_in_a_namespace_before_all_is_applied_that_workers_need(
    tenants: Tenants,
) -> None:
    told: list[tuple[str, str | None]] = []
    tenants.operator._changed = lambda name: told.append(
        (name, tenants.operator.why_not_served(name))
    )
    async with _running({name: part() for name, part in tenants.operator.parts().items()}):
        await eventually(lambda: tenants.named("secrets", LABELLED) == set(SECRETS))
        tenants.namespace("new", **LABEL)
        await eventually(lambda: ("new", None) in told)
        assert tenants.named("secrets", "new") == set(SECRETS)
        [first, second] = [why for name, why in told if name == "new"]
        assert "is being applied" in (first or "")
        assert second is None
        tenants.namespace("new")
        await eventually(lambda: "need a label" in (told[-1][1] or ""))


async def test_a_task_waits_for_the_label_without_a_job_and_goes_on_by_itself(
    own_world: Any, tmp_path: Path
) -> None:
    (tmp_path / "namespace.json").write_text(json.dumps([ACCOUNT, POLICY]))
    own_world.api.put("namespaces", {"metadata": {"name": "team", "labels": {}}})
    await own_world.start_operator(
        redis_master_key="master",
        namespace_selector="orbiter.dev/tenant=true",
        namespace_objects=str(tmp_path),
    )
    own_world.apply("early")
    status = await own_world.until_reason("early", "NamespaceNotServed")
    assert status["phase"] == "Pending"
    assert "orbiter.dev/tenant=true" in status["message"]
    assert own_world.api.objects["jobs"] == {}
    own_world.api.patch("namespaces", "", "team", {"metadata": {"labels": LABEL}})
    await own_world.until("early", "Completed")


async def test_an_operator_that_did_not_come_to_the_end_begins_again(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tenants.settle()
    await tenants.users.users.ensure(*session_of(LABELLED))
    await deleted(tenants, LABELLED)

    async def crash(beginning: str) -> None:
        raise RedisConnectionError

    tenants.operator = tenants.made()
    monkeypatch.setattr(tenants.users.users, "remove_unwanted", crash)
    await tenants.settle()
    assert await users_of(tenants, LABELLED) == {"s"}
    assert LABELLED in await registered(tenants)
    tenants.operator = tenants.made()
    await tenants.settle()
    assert await users_of(tenants, LABELLED) == set()
    assert await registered(tenants) == {LISTED}


async def test_without_the_right_to_list_users_the_others_go(tenants: Tenants) -> None:
    await tenants.settle()
    await tenants.users.users.ensure(*session_of(LABELLED))
    await deleted(tenants, LABELLED)
    await tenants.redis.execute_command("ACL", "SETUSER", "default", "-acl|users")
    tenants.operator = tenants.made()
    with capture_logs() as logs:
        await tenants.settle()
    await tenants.redis.execute_command("ACL", "SETUSER", "default", "+acl|users")
    assert await users_of(tenants, LABELLED) == {"s"}
    [told] = [line for line in logs if line["event"] == "sessions' users not looked for"]
    assert "acl|users" in told["error"]


async def test_the_registry_has_names_of_namespaces_and_nothing_else(tenants: Tenants) -> None:
    key = BARE.namespace_registry("orbiter-system", "orbiter-operator")
    await tenants.redis.hset(key, mapping={"../nodes": "", "": "", "x" * 10_000: "", "gone": ""})
    await tenants.settle()
    assert await registered(tenants) == {LISTED, LABELLED, "../nodes", "", "x" * 10_000}
