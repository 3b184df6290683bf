"""Keeps each namespace in which tasks may run as it has to be, and tidies up a former one.

A namespace is a tenant because the chart lists it, and then it has the chart's objects and gets the
Secrets with Redis' URLs from here; or because it has the label, and then all comes from here.

When the label goes, nothing new begins: the workers' ServiceAccount goes, and with it the Secrets.
What runs ends by itself: as long as an agent is at work, its Redis user and its NetworkPolicies
stay, because half a task is of no use to anybody, and an agent must never be without policies.

The chart writes its objects, which are the same for all namespaces, into files: `namespace.json`,
and `namespace-NAME.json` for a namespace that has its own. So they are said once, in the chart,
whether the chart applies them or the operator.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from orbiter_contracts.queues import BARE, NAMESPACE_PATTERN
from orbiter_operator.kube.client import (
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    SERVICE_ACCOUNTS,
    Kube,
    RefusedError,
    Resource,
)
from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.names import APP_NAME, MANAGED_BY, MANAGER, OWN_LABELS, WORKER_APP
from orbiter_operator.namespaces.users import FormerUsers, NamespaceUsers, SecretNames, secrets
from orbiter_operator.pods.state import JobState, PodState
from orbiter_operator.runtime.reconciler import WorkQueue, run_pass
from orbiter_operator.runtime.supervisor import Part, every
from orbiter_operator.settings import Settings
from orbiter_operator.streams.client import RETRIED

log = structlog.get_logger(__name__)
Object = dict[str, Any]
OPERATOR: Final = f"{OWN_LABELS}operator"
OPERATOR_NAMESPACE: Final = f"{OWN_LABELS}operator-namespace"
"""Labels of what an operator has applied: its Lease's name and namespace."""
# In this order: there is no worker before its policies, which go when the last one has gone.
_KINDS = {"NetworkPolicy": NETWORK_POLICIES, "ServiceAccount": SERVICE_ACCOUNTS}
WORKERS_AT_ONCE = 4
LEAVING_SECONDS = 5.0
"""After how long is looked again whether the last worker of a former tenant has ended."""
_WORKERS = f"{MANAGED_BY}={MANAGER},{APP_NAME}={WORKER_APP}"
_NAMESPACE = re.compile(NAMESPACE_PATTERN)
_RETRIED = (*RETRIED, RefusedError, OSError, ValueError)


class LabelledNamespaces:
    """The namespaces that have the label now, as an informer tells it.

    Args:
        enqueue: Called with the name of each that comes or goes.
    """

    def __init__(self, enqueue: Callable[[str], None]) -> None:
        self._enqueue = enqueue
        self._seen: dict[str, tuple[str, int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._seen

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._seen))

    def put(self, obj: Object) -> None:
        """A namespace has the label; one that is being deleted is as if it had lost it."""
        meta = obj["metadata"]
        if meta.get("deletionTimestamp"):
            self.remove(obj)
            return
        known = self._seen.get(meta["name"])
        self._seen[meta["name"]] = (meta["uid"], int(meta["resourceVersion"]))
        if known is None or known[0] != meta["uid"]:
            self._enqueue(meta["name"])

    def remove(self, obj: Object) -> None:
        """It has it no more, or is gone."""
        name = obj["metadata"]["name"]
        if self._seen.pop(name, None):
            self._enqueue(name)

    def missing_from(self, listed: set[str], version: int) -> list[Object]:
        """Those held here that a list taken at `version` does not have."""
        return [
            {"metadata": {"name": name, "uid": uid}}
            for name, (uid, seen) in self._seen.items()
            if uid not in listed and seen <= version
        ]


class NamespaceFiles:
    """The chart's objects of a namespace, as they are in the files now.

    Args:
        directory: Where the files are.
        labels: Further labels of each object.
    """

    def __init__(self, directory: Path, labels: dict[str, str]) -> None:
        self._directory = directory
        self._labels = labels

    def objects(self, namespace: str) -> list[tuple[Resource, Object]]:
        """The objects of one namespace, policies first.

        Raises:
            OSError: There is no such file.
            ValueError: It is none of the chart's.
        """
        path = self._directory / f"namespace-{namespace}.json"
        if not path.exists():
            path = self._directory / "namespace.json"
        found = json.loads(path.read_bytes())
        kinds = [obj["kind"] for obj in found]
        if not set(kinds) <= set(_KINDS):
            unknown = ", ".join(sorted(set(kinds) - set(_KINDS)))
            raise ValueError(f"{path} has {unknown}; only {' and '.join(_KINDS)} are for it")
        order = list(_KINDS)
        return [
            (_KINDS[obj["kind"]], self._placed(obj, namespace))
            for obj in sorted(found, key=lambda obj: order.index(obj["kind"]))
        ]

    def _placed(self, obj: Object, namespace: str) -> Object:
        meta = obj["metadata"]
        labels = (meta.get("labels") or {}) | self._labels
        return obj | {"metadata": meta | {"namespace": namespace, "labels": labels}}


class Namespaces:
    """The namespaces' side of the active operator.

    Args:
        settings: What the environment says.
        kube: The API client.
        users: Lets a namespace's users into Redis.
        workers: All Jobs and pods that there are.
        allowed: Raises unless this replica is the active one.
        measure: Called with the seconds a pass took and whether it succeeded.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        kube: Kube,
        users: NamespaceUsers,
        workers: Sequence[Iterable[JobState | PodState]],
        allowed: Callable[[], None],
        measure: Callable[[float, bool], None],
    ) -> None:
        self._settings = settings
        self._kube = kube
        self._users = users
        self._allowed = allowed
        self._measure = measure
        ours = {OPERATOR: settings.lease_name, OPERATOR_NAMESPACE: settings.lease_namespace}
        self._files = NamespaceFiles(Path(settings.namespace_objects), ours | {MANAGED_BY: MANAGER})
        self._ours = ",".join(f"{key}={value}" for key, value in ours.items())
        self._names = SecretNames(settings.redis_secret_name, settings.redis_ca_key)
        self.former = FormerUsers(
            settings=settings, kube=kube, users=users.users, workers=workers, allowed=allowed
        )
        self._redis = users.users.redis
        self._registry = BARE.namespace_registry(settings.lease_namespace, settings.lease_name)
        self._remembered = False
        self.queue: WorkQueue[str] = WorkQueue(time.monotonic)
        self.labelled = LabelledNamespaces(self.queue.add)
        self._informer = Informer(
            kube, NAMESPACES, self.labelled, namespaces=(), selector=settings.namespace_selector
        )

    def parts(self) -> dict[str, Part]:
        """What runs side by side where the operator makes users."""
        parts: dict[str, Part] = {
            "namespaces": self._resync,
            **every(WORKERS_AT_ONCE, "namespace", lambda: self.queue.work(self.reconcile)),
        }
        if self._settings.namespace_selector:
            parts["labels of namespaces"] = self._informer.follow
        if self._settings.former_redis_users:
            parts["former users"] = self.former.run
        return parts

    async def compare(self) -> None:
        """Have every namespace reconciled that is or was a tenant.

        Raises:
            ApiError: The API server refused.
            RedisError: Redis did not answer.
        """
        names = set(self._settings.worker_namespaces)
        if self._settings.namespace_selector:
            await self._informer.compare()
            names |= set(self.labelled) | await self._applied()
        if not self._remembered:
            # What goes from now on is seen as it goes.
            names |= await self._admitted()
            self._remembered = True
        for name in sorted(names):
            self.queue.add(name)

    async def reconcile(self, name: str) -> bool:
        """Reconcile one namespace; returns whether it is done for now."""
        return await run_pass(self.queue, name, self._work, retried=_RETRIED, measure=self._measure)

    async def _work(self, name: str) -> None:
        self._allowed()
        if name in self._settings.worker_namespaces or name in self.labelled:
            await self._admit(name)
        else:
            await self._dismiss(name)

    async def _admit(self, name: str) -> None:
        await self._redis.hset(self._registry, name, "")
        urls = await self._users.admit(name)
        account = self._settings.worker_service_account
        if name in self._settings.worker_namespaces:
            owner = await self._kube.get(SERVICE_ACCOUNTS, name, account)
        else:
            for resource, obj in self._files.objects(name):
                applied = await self._kube.apply(resource, name, obj)
            owner = applied
        ca = Path(self._settings.redis_ca_file).read_text() if self._names.ca_key else ""
        for resource, obj in secrets(name, urls, self._names, ca=ca, owner=owner):
            await self._kube.apply(resource, name, obj)

    async def _dismiss(self, name: str) -> None:
        # Without a selector it has no rights but where it serves: there the chart has tidied up.
        applies = bool(self._settings.namespace_selector)
        if applies and await self._at_work(name):
            self.queue.requeue_at(name, time.monotonic() + LEAVING_SECONDS)
            return
        await self._users.dismiss(name)
        for policy in await self._named(NETWORK_POLICIES, name) if applies else ():
            await self._kube.delete(NETWORK_POLICIES, name, policy)
        await self._redis.hdel(self._registry, name)
        log.info("namespace is no tenant any more", namespace=name)

    async def _at_work(self, name: str) -> bool:
        """Whether an agent is at work in a former tenant, where nothing begins any more."""
        for account in await self._named(SERVICE_ACCOUNTS, name):
            await self._kube.delete(SERVICE_ACCOUNTS, name, account)
        pods, _ = await self._kube.list(PODS, name, selector=_WORKERS)
        return any(map(_runs, pods))

    async def _named(self, resource: Resource, name: str) -> list[str]:
        found, _ = await self._kube.list(resource, name, selector=self._ours)
        return [obj["metadata"]["name"] for obj in found]

    async def _applied(self) -> set[str]:
        """Namespaces in which this operator, or the one before it, has applied something."""
        found: list[Object] = []
        for resource in (SERVICE_ACCOUNTS, NETWORK_POLICIES):
            found += (await self._kube.list(resource, selector=self._ours))[0]
        return {obj["metadata"]["namespace"] for obj in found}

    async def _admitted(self) -> set[str]:
        """Namespaces whose users an operator of this installation has made."""
        found = map(str, await self._redis.hgetall(self._registry))
        return {name for name in found if _NAMESPACE.fullmatch(name)}

    async def _resync(self) -> None:
        while True:
            await self.compare()
            await asyncio.sleep(self._settings.resync_seconds)


def _runs(pod: Object) -> bool:
    """Whether something of a tenant's may be at work in a pod: it has a node, and is not over.

    Its node tells what it does a moment late: an agent has begun by then.
    """
    phase = (pod.get("status") or {}).get("phase")
    return bool((pod.get("spec") or {}).get("nodeName")) and phase not in ("Succeeded", "Failed")
