"""Keeps each namespace in which tasks may run as it has to be, and tidies up a former one.

A namespace is a tenant because the chart lists it, and then it has the chart's objects and gets the
Secrets with Redis' URLs from here; or because it has the label, and then all comes from here.

When the label goes, nothing new begins: the workers' ServiceAccount goes, and with it the Secrets.
What runs ends by itself: as long as an agent is at work, its Redis user and its NetworkPolicies
stay, because half a task is of no use to anybody, and an agent must never be without policies.
So it is with what an earlier version of the chart had for all namespaces at once (`Former`).
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import structlog
from redis.exceptions import RedisError

from orbiter_contracts.queues import BARE
from orbiter_operator.kube.client import (
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    TRANSPORT_ERRORS,
    ApiError,
    Kube,
    RefusedError,
    Resource,
)
from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.names import APP_NAME, MANAGED_BY, MANAGER, WORKER_APP
from orbiter_operator.namespaces.objects import (
    OPERATOR,
    OPERATOR_NAMESPACE,
    LabelledNamespaces,
    NamespaceFiles,
    NamespaceUsers,
    SecretNames,
    secrets,
)
from orbiter_operator.pods.state import JobState, PodState
from orbiter_operator.runtime.reconciler import WorkQueue, run_pass
from orbiter_operator.runtime.supervisor import Part, every
from orbiter_operator.settings import Settings
from orbiter_operator.streams.client import RETRIED
from orbiter_operator.streams.users import RedisUsers

log = structlog.get_logger(__name__)
Object = dict[str, Any]
WORKERS_AT_ONCE = 4
LEAVING_SECONDS = 5.0
"""After how long is looked again whether the last worker of a former tenant has ended."""
FORMER_SECONDS = 30.0
"""The same for what an earlier version of the chart has left; Redis closes what is idle later."""
_FORMER_ACL = "users.acl"
"""Key beside the passwords with which the first version told Redis all of its users."""
_WORKERS = f"{MANAGED_BY}={MANAGER},{APP_NAME}={WORKER_APP}"
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PASSING = (*RETRIED, RefusedError, OSError, ValueError)


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
        self.former = Former(
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
        return await run_pass(self.queue, name, self._work, retried=_PASSING, measure=self._measure)

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


class Former:
    """Ends the Redis users that an earlier version of the chart has left for what it had begun.

    One is needed as long as a Job or a pod is not over that names the Secret with their URLs, and
    while anybody is connected in its name. It ends when it was not needed for a while, since
    nothing tells when a front end connects again: first the Secret goes, so that nothing begins
    with it, then the password, of which Redis would make the user at its next start, then the user.
    Who comes after a crash does all of it again.

    Args:
        settings: Which users and Secrets; others are not touched.
        kube: The API client.
        users: The users of Redis.
        workers: All Jobs and pods that there are.
        allowed: Raises unless this replica is the active one.
        clock: Seconds.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        kube: Kube,
        users: RedisUsers,
        workers: Sequence[Iterable[JobState | PodState]],
        allowed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._kube = kube
        self._users = users
        self._workers = workers
        self._allowed = allowed
        self._clock = clock
        self._needed = dict.fromkeys(settings.former_redis_users, clock())
        self._told = ""

    async def run(self) -> None:
        """Look now and then, for ever."""
        while True:
            await asyncio.sleep(FORMER_SECONDS)
            try:
                self._allowed()
                await self.look()
            except (ApiError, RedisError, *TRANSPORT_ERRORS) as error:
                if self._told != (told := f"{type(error).__name__}: {error}"):
                    log.warning("users of an earlier version not ended", error=told)
                self._told = told

    async def look(self) -> None:
        """End who is not needed any more.

        Raises:
            ApiError: The API server refused.
            RedisError: Redis did not answer.
        """
        if not self._needed:
            return
        now, opened, begun = self._clock(), await self._users.opened(), self._begun()
        self._needed |= {user: now for user in self._needed if begun or user in opened}
        enough = self._settings.former_redis_quiet_seconds
        quiet = [user for user, last in self._needed.items() if now - last >= enough]
        if not quiet:
            return
        settings = self._settings
        passwords = dict.fromkeys(f"{user}-password" for user in quiet)
        if len(quiet) == len(self._needed):
            passwords[_FORMER_ACL] = None
            for namespace in settings.worker_namespaces:
                await self._kube.delete(SECRETS, namespace, settings.former_redis_secret)
        secret = settings.former_redis_passwords
        await self._kube.patch(SECRETS, settings.lease_namespace, secret, {"data": passwords})
        if await self._users.end(quiet):
            log.info("users of an earlier version ended", users=quiet)
        for user in quiet:
            del self._needed[user]

    def _begun(self) -> bool:
        """Whether something of before is not over."""
        secret = self._settings.former_redis_secret
        states = chain.from_iterable(self._workers)
        return any(state.redis_secret == secret and not state.over for state in states)


def _runs(pod: Object) -> bool:
    """Whether something of a tenant's may be at work in a pod: it has a node, and is not over.

    Its node tells what it does a moment late: an agent has begun by then.
    """
    phase = (pod.get("status") or {}).get("phase")
    return bool((pod.get("spec") or {}).get("nodeName")) and phase not in ("Succeeded", "Failed")
