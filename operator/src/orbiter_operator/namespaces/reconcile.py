"""Keeps each namespace in which tasks may run as it has to be, and tidies up a former one.

A namespace is a tenant because the chart lists it, and then it has the chart's objects and gets the
Secrets with Redis' URLs from here; or because it has the label, and then all comes from here.

When the label goes, nothing new begins: the workers' ServiceAccount goes, and with it the Secrets.
What runs ends by itself: as long as an agent is at work, its Redis user and its NetworkPolicies
stay (see `objects`).

The chart writes its objects, which are the same for all namespaces, into files: `namespace.json`,
and `namespace-NAME.json` for a namespace that has its own. So they are said once, in the chart,
whether the chart applies them or the operator.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from orbiter_contracts.queues import BARE, NAMESPACE_PATTERN
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.models import RefusedError
from orbiter_operator.kube.names import MANAGED_BY, MANAGER, OWN_LABELS
from orbiter_operator.kube.resources import NAMESPACES, SERVICE_ACCOUNTS
from orbiter_operator.namespaces.applied import (
    KINDS,
    AppliedObjects,
    LabelledNamespaces,
    NamespaceFiles,
)
from orbiter_operator.namespaces.objects import NamespaceObjects
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
WORKERS_AT_ONCE = 4
MIN_PAUSE_SECONDS = 1.0
"""Seconds between two passes over a namespace at least, whoever alters what was applied. They never
grow: who goes on deleting would have workers without policies for longer and longer."""
RECHECK_SECONDS = 30.0
"""After how long all of a namespace is applied again, for what is not watched: its Secrets. That
changes nothing where nobody has. At most one namespace a second, however many there are."""
LEAVING_SECONDS = 5.0
"""After how long is looked again whether the last worker of a former tenant has ended."""
# A status has 140 characters for one of them, a name up to 63. What is to be typed comes last,
# where nothing stands against it.
_NOT_LISTED = "no worker runs in namespace {name}: add it to the chart's workers.namespaces"
_NOT_LABELLED = "workers need a label: kubectl label namespace {name} {label}"
_COMING = "namespace {name} has the label; what workers need there is being applied"
_NAMESPACE = re.compile(NAMESPACE_PATTERN)
_RETRIED = (*RETRIED, RefusedError, OSError, ValueError)


class Namespaces:
    """The namespaces' side of the active operator.

    Args:
        settings: What the environment says.
        kube: The API client.
        users: Lets a namespace's users into Redis.
        workers: All Jobs and pods that there are.
        allowed: Raises unless this replica is the active one.
        measure: Called with the seconds a pass took and whether it succeeded.
        changed: Called with each namespace in which workers may run from now on, or no more.
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
        changed: Callable[[str], None] = lambda namespace: None,
    ) -> None:
        self._changed = changed
        self._settings = settings
        self._kube = kube
        self._users = users
        self._allowed = allowed
        self._measure = measure
        ours = {OPERATOR: settings.lease_name, OPERATOR_NAMESPACE: settings.lease_namespace}
        selector = ",".join(f"{key}={value}" for key, value in ours.items())
        self._names = SecretNames(settings.redis_secret_name, settings.redis_ca_key)
        self.former = FormerUsers(
            settings=settings, kube=kube, users=users.users, workers=workers, allowed=allowed
        )
        self._redis = users.users.redis
        self._registry = BARE.namespace_registry(settings.lease_namespace, settings.lease_name)
        self._remembered = False
        self._registered: set[str] = set()
        self._passes: dict[str, float] = {}
        self.queue: WorkQueue[str] = WorkQueue(time.monotonic)
        self._started = False
        self._new: set[str] = set()
        self.labelled = LabelledNamespaces(self._relabelled)
        self._informer = Informer(
            kube, NAMESPACES, self.labelled, namespaces=(), selector=settings.namespace_selector
        )
        self._applied_objects = {
            resource: AppliedObjects(self._altered) for resource in KINDS.values()
        }
        self._applied_informers = [
            Informer(kube, resource, cache, namespaces=(), selector=selector)
            for resource, cache in self._applied_objects.items()
        ]
        files = NamespaceFiles(Path(settings.namespace_objects), ours | {MANAGED_BY: MANAGER})
        self._objects = NamespaceObjects(kube, files, self._applied_objects, selector)

    @property
    def informers(self) -> tuple[Informer, ...]:
        """What has to be listed before anything is decided."""
        looks = self._users.users.managed and self._settings.namespace_selector
        return (self._informer,) if looks else ()

    def why_not_served(self, name: str) -> str | None:
        """Why no worker may run in a namespace; None when one may, or nobody here knows."""
        listed, selector = self._settings.worker_namespaces, self._settings.namespace_selector
        if name in listed or not self._users.users.managed or not (listed or selector):
            return None
        if name in self.labelled:
            return _COMING.format(name=name) if name in self._new else None
        if not selector:
            return _NOT_LISTED.format(name=name)
        return _NOT_LABELLED.format(name=name, label=selector.replace(",", " "))

    def parts(self) -> dict[str, Part]:
        """What runs side by side where the operator makes users."""
        self._started = True
        parts: dict[str, Part] = {
            "namespaces": self._resync,
            **every(WORKERS_AT_ONCE, "namespace", lambda: self.queue.work(self.reconcile)),
        }
        if self._settings.namespace_selector:
            parts["labels of namespaces"] = self._informer.follow
            for informer in self._applied_informers:
                parts[f"applied {informer.plural}"] = informer.follow
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
            names |= set(self.labelled) | await self._objects.applied_in()
        self._registered.clear()
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
        self._passes[name] = time.monotonic()
        if name in self._settings.worker_namespaces or name in self.labelled:
            count = len(self._settings.worker_namespaces) + len(self.labelled)
            # Before anything is waited for: an alteration that is heard meanwhile is due sooner.
            self.queue.requeue_at(name, self._passes[name] + max(RECHECK_SECONDS, count))
            await self._admit(name)
        else:
            await self._dismiss(name)

    def _relabelled(self, name: str) -> None:
        self._new.discard(name)
        if self._started and name in self.labelled:
            self._new.add(name)  # nothing may begin there before all of it is applied
        self.queue.add(name)
        self._changed(name)

    def _altered(self, name: str) -> None:
        if name in self.labelled:
            due = self._passes.get(name, 0.0) + MIN_PAUSE_SECONDS
            self.queue.requeue_at(name, max(due, time.monotonic()))

    async def _admit(self, name: str) -> None:
        if name not in self._registered:
            await self._redis.hset(self._registry, name, "")
            self._registered.add(name)
        urls = await self._users.admit(name)
        account = self._settings.worker_service_account
        if name in self._settings.worker_namespaces:
            owner = await self._kube.get(SERVICE_ACCOUNTS, name, account)
        else:
            owner = await self._objects.apply(name)
        ca = Path(self._settings.redis_ca_file).read_text() if self._names.ca_key else ""
        for resource, obj in secrets(name, urls, self._names, ca=ca, owner=owner):
            await self._kube.apply(resource, name, obj)
        if name in self._new:
            self._new.discard(name)
            self._changed(name)

    async def _dismiss(self, name: str) -> None:
        # Without a selector it has no rights but where it serves: there the chart has tidied up.
        applies = bool(self._settings.namespace_selector)
        if applies and await self._objects.at_work(name):
            await self._objects.keep_policies(name)
            await self._objects.let_in(await self._former())
            self.queue.requeue_at(name, time.monotonic() + LEAVING_SECONDS)
            return
        # Where it looks at pods, no session has one any more; elsewhere one may be in a turn.
        await self._users.dismiss(name, sessions=applies)
        if applies:
            await self._objects.remove_policies(name)
            await self._objects.let_in(await self._former() - {name})
        await self._redis.hdel(self._registry, name)
        self._registered.discard(name)
        self._passes.pop(name, None)
        for applied in self._applied_objects.values():
            applied.forget(name)
        log.info("namespace is no tenant any more", namespace=name)

    async def _admitted(self) -> set[str]:
        """Namespaces whose users an operator of this installation has made."""
        found = map(str, await self._redis.hgetall(self._registry))
        return {name for name in found if _NAMESPACE.fullmatch(name)}

    async def _former(self) -> set[str]:
        """Tenants of before that have not been dismissed yet."""
        served = {*self._settings.worker_namespaces, *self.labelled}
        return await self._admitted() - served

    async def _resync(self) -> None:
        while True:
            await self.compare()
            await asyncio.sleep(self._settings.resync_seconds)
