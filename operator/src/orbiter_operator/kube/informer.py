"""Keep a cache equal to a collection of the API server: list once, then follow the changes.

Used for Jobs, Pods and Deployments, whose labels say which are ours, and for the full comparison of
every kind at start and now and then: what a list does not have any more was deleted unnoticed.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp
import structlog

from orbiter_operator.kube.cache import Cache, ObjectCache
from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.names import Key
from orbiter_operator.kube.resources import Resource
from orbiter_operator.runtime.supervisor import Throttle, run_concurrently

log = structlog.get_logger(__name__)
_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_GONE = 410


# Measured with events of Pods of 3.6 kB: 26 µs of CPU each through `kube.watch`, 360 with
# `kubernetes.aio`'s Watch and its models. `kubernetes.informer` is a thread for each collection.
class Informer:
    """One kind of object in the namespaces the operator serves.

    Args:
        kube: The API client.
        resource: The kind.
        cache: Where the objects go.
        namespaces: Which namespaces; empty for all.
        selector: Label selector.
        throttle: When not to listen; None for never.
    """

    def __init__(
        self,
        kube: Kube,
        resource: Resource,
        cache: Cache,
        *,
        namespaces: Sequence[str],
        selector: str = "",
        throttle: Throttle | None = None,
    ) -> None:
        self._kube = kube
        self._resource = resource
        self._cache = cache
        self._namespaces: tuple[str | None, ...] = tuple(namespaces) or (None,)
        self._selector = selector
        self._throttle = throttle
        self._versions: dict[str | None, str] = {}
        self._synced: dict[str | None, bool] = dict.fromkeys(self._namespaces, False)

    @property
    def plural(self) -> str:
        """Name of the kind."""
        return self._resource.plural

    @property
    def synced(self) -> bool:
        """Whether the cache follows the server right now."""
        return all(self._synced.values())

    async def compare(self) -> None:
        """List everything and make the cache equal to it.

        Raises:
            ApiError: The API server refused.
        """
        for namespace in self._namespaces:
            await self._list(namespace)

    async def follow(self) -> None:
        """Follow the changes for ever, through every failure of the API server."""
        await run_concurrently(
            {
                f"{self._resource.plural} in {namespace or 'all namespaces'}": self._follow(
                    namespace
                )
                for namespace in self._namespaces
            }
        )

    async def _follow(self, namespace: str | None) -> None:
        pause = _PAUSE_SECONDS
        while True:
            try:
                if namespace not in self._versions:
                    await self._list(namespace)
                self._synced[namespace] = True
                await self._watch(namespace)
                pause = _PAUSE_SECONDS
                await asyncio.sleep(pause)
            except aiohttp.SocketTimeoutError:
                # Nothing was said for longer than bookmarks leave: the connection may be dead.
                log.debug("watch was silent", kind=self._resource.plural)
            except (ApiError, *TRANSPORT_ERRORS, ValueError) as error:
                self._synced[namespace] = False
                if isinstance(error, ApiError) and error.status == _GONE:
                    del self._versions[namespace]
                else:
                    log.warning("watch interrupted", kind=self._resource.plural, error=repr(error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _list(self, namespace: str | None) -> None:
        items, version = await self._kube.list(self._resource, namespace, selector=self._selector)
        listed = {obj["metadata"]["uid"] for obj in items}
        for obj in self._cache.missing_from(listed, int(version or 0)):
            if namespace is None or obj["metadata"]["namespace"] == namespace:
                self._cache.remove(obj)
        for obj in items:
            apply_event(self._cache, None, obj)
        self._versions[namespace] = version

    async def _watch(self, namespace: str | None) -> None:
        events = self._kube.watch(
            self._resource,
            namespace,
            selector=self._selector,
            since=self._versions[namespace],
            throttle=self._throttle,
        )
        async for event in events:
            kind, obj = event["type"], event["object"]
            if kind == "ERROR":
                raise ApiError(obj.get("code", 500), obj.get("reason", ""), obj.get("message", ""))
            self._versions[namespace] = obj["metadata"]["resourceVersion"]
            apply_event(self._cache, kind, obj)


def apply_event(cache: Cache, kind: str | None, obj: dict[str, Any]) -> None:
    """Bring one watch event into a cache. `kind` is None for an object of an initial list.

    An object that cannot be read, a label that is no number for instance, is left out: all others
    are as good as before.
    """
    try:
        if kind == "DELETED":
            cache.remove(obj)
        elif kind != "BOOKMARK":
            cache.put(obj)
    except Exception:
        meta = obj.get("metadata") or {}
        name = f"{meta.get('namespace')}/{meta.get('name')}"
        log.exception("an object is left out", kind=obj.get("kind"), object=name)


async def fetch(kube: Kube, resource: Resource, cache: Cache, namespace: str, name: str) -> bool:
    """Have an object in the cache as it is now, if it is there; returns whether it is.

    Raises:
        ApiError: The API server could not answer.
    """
    try:
        cache.put(await kube.get(resource, namespace, name))
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


async def refresh(kube: Kube, resource: Resource, cache: ObjectCache, key: Key) -> None:
    """Somebody else has changed or deleted the object: have it in the cache as it is now.

    Raises:
        ApiError: The API server could not answer.
    """
    obj = cache.get(key)
    if not await fetch(kube, resource, cache, key.namespace, key.name) and obj is not None:
        cache.remove(obj)
