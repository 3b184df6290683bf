"""What a former tenant keeps until its last worker has ended.

When the label goes, nothing new begins: the workers' ServiceAccount goes. What runs ends by itself,
because half a task is of no use to anybody, and an agent must never be without policies. Its worker
may have to connect to Redis anew meanwhile, whose own policy lets in namespaces by their label: so
one more policy, beside that one, lets in those that leave, by name.
"""

from collections.abc import Iterable
from typing import Any

import structlog

from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.kube.names import APP_NAME, MANAGED_BY, MANAGER, WORKER_APP
from orbiter_operator.kube.resources import (
    NETWORK_POLICIES,
    PODS,
    ROLES,
    SERVICE_ACCOUNTS,
    Resource,
)
from orbiter_operator.namespaces.applied import AppliedObjects, NamespaceFiles

log = structlog.get_logger(__name__)
Object = dict[str, Any]
_WORKERS = f"{MANAGED_BY}={MANAGER},{APP_NAME}={WORKER_APP}"


class NamespaceObjects:
    """The chart's objects in namespaces with the label, and in those that had it.

    Args:
        kube: The API client.
        files: The objects, as the chart says them.
        applied: What of them has been applied, by kind.
        selector: Labels of all that this operator has applied.
    """

    def __init__(
        self,
        kube: Kube,
        files: NamespaceFiles,
        applied: dict[Resource, AppliedObjects],
        selector: str,
    ) -> None:
        self._kube = kube
        self._files = files
        self._applied = applied
        self._selector = selector
        self._let_in: frozenset[str] | None = None

    async def apply(self, name: str) -> Object:
        """Apply all of them in a namespace; returns the last, which owns the Secrets there.

        Raises:
            ApiError: The API server refused.
        """
        owner: Object = {}
        for resource, obj in self._files.objects(name):
            owner = await self._apply(resource, name, obj)
        return owner

    async def at_work(self, name: str) -> bool:
        """Whether an agent is at work in a former tenant, where nothing begins any more."""
        for account in await self._named(SERVICE_ACCOUNTS, name):
            await self._kube.delete(SERVICE_ACCOUNTS, name, account)
        pods, _ = await self._kube.list(PODS, name, selector=_WORKERS)
        return any(map(_runs, pods))

    async def keep_policies(self, name: str) -> None:
        """Somebody may delete them while the last agents work; a namespace that goes takes none."""
        for resource, obj in self._files.objects(name):
            if resource == NETWORK_POLICIES:
                try:
                    await self._apply(resource, name, obj)
                except ApiError as error:
                    if error.status not in (403, 404):
                        raise

    async def remove_policies(self, name: str) -> None:
        """The last worker of a former tenant has ended."""
        for policy in await self._named(NETWORK_POLICIES, name):
            await self._kube.delete(NETWORK_POLICIES, name, policy)

    async def let_in(self, names: Iterable[str]) -> None:
        """Let the workers of these former tenants, and of no other, connect to the bundled Redis.

        Raises:
            ApiError: The API server refused.
        """
        wanted = frozenset(names)
        policy = self._files.redis_policy(sorted(wanted))
        if policy is None:
            return
        place, called = policy["metadata"]["namespace"], policy["metadata"]["name"]
        if wanted:
            # Its owner goes with the selector: nobody is left then who may take the policy away.
            (owner,) = policy["metadata"]["ownerReferences"]
            role = await self._kube.get(ROLES, place, owner["name"])
            owner["uid"] = role["metadata"]["uid"]
            await self._kube.apply(NETWORK_POLICIES, place, policy)
        elif self._let_in != wanted:  # also what an operator before this one has let in
            await self._kube.delete(NETWORK_POLICIES, place, called)
        self._let_in = wanted

    async def applied_in(self) -> set[str]:
        """Namespaces in which this operator, or the one before it, has applied something."""
        found: list[Object] = []
        for resource in (SERVICE_ACCOUNTS, NETWORK_POLICIES):
            found += (await self._kube.list(resource, selector=self._selector))[0]
        return {obj["metadata"]["namespace"] for obj in found}

    async def _apply(self, resource: Resource, name: str, obj: Object) -> Object:
        applied = await self._kube.apply(resource, name, obj)
        if self._applied[resource].note(applied):
            what = f"{resource.plural}/{obj['metadata']['name']}"
            log.warning("applied again", namespace=name, object=what)
        return applied

    async def _named(self, resource: Resource, name: str) -> list[str]:
        found, _ = await self._kube.list(resource, name, selector=self._selector)
        return [obj["metadata"]["name"] for obj in found]


def _runs(pod: Object) -> bool:
    """Whether something of a tenant's may be at work in a pod: it has a node, and is not over.

    Its node tells what it does a moment late: an agent has begun by then.
    """
    phase = (pod.get("status") or {}).get("phase")
    return bool((pod.get("spec") or {}).get("nodeName")) and phase not in ("Succeeded", "Failed")
