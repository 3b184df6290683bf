"""The tasks and sessions of a cluster, page by page, the newest first."""

import asyncio
import re
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orbiter.server._internal.cluster_api import Kind, connected, in_reach
from orbiter.server._internal.cluster_view import EVERYWHERE, Followed, Key
from orbiter.server._internal.errors import RequestError, unknown
from orbiter.server._internal.viewer import Right, Viewer
from orbiter.server.models import NAMESPACE, ClusterObject, ClusterPage, ClusterQuery

if TYPE_CHECKING:
    from orbiter.tasks.api_server import ApiServer

MOST_NAMESPACES = 200
"""How many of them one list asks about, where somebody may not list all at once."""
_LABEL = re.compile(NAMESPACE)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class Cluster:
    """Shows AgentTasks and POSessions; connects when it is first asked."""

    def __init__(self, kubeconfig: Path | None, namespace: str | None) -> None:
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._api: ApiServer | None = None
        self._own = ""
        self._followed: dict[Kind, list[Followed]] = {}
        self._connecting = asyncio.Lock()

    @classmethod
    def if_any(cls, kubeconfig: Path | None, namespace: str | None) -> "Cluster | None":
        """Return the cluster of the kubeconfig, else the one we are somebody in, else None."""
        return cls(kubeconfig, namespace) if in_reach(kubeconfig) else None

    async def page(self, kind: Kind, viewer: Viewer, query: ClusterQuery) -> ClusterPage:
        """Return a page of those objects that somebody may list, the newest first.

        Args:
            kind: Which objects.
            viewer: Who asks.
            query: How many at most, of which namespace, and behind which page. Objects that came
                or went since that page do not matter.

        Raises:
            RequestError: The cursor is none, the namespace is not theirs to list, or the API
                server did not answer as it should.
        """
        cursor = None if query.after is None else _key(query.after)
        known = await self._visible(kind, viewer, query.namespace)
        keys = sorted(known)
        end = len(keys) if cursor is None else bisect_left(keys, cursor)
        chosen = keys[max(end - query.limit, 0) : end][::-1]
        return ClusterPage(
            items=[known[key] for key in chosen],
            total=len(keys),
            next="/".join(chosen[-1]) if end > query.limit else None,
        )

    async def one(self, kind: Kind, viewer: Viewer, namespace: str, name: str) -> ClusterObject:
        """Return one object.

        Raises:
            RequestError: It is not theirs to get, or there is none.
        """
        if _LABEL.fullmatch(namespace) and _NAME.fullmatch(name):
            await viewer.require(Right("get", kind, namespace, name))
            for key, found in (await self._objects(kind, {namespace})).items():
                if key[1:] == (namespace, name):
                    return found
        raise unknown(kind.removesuffix("s"), f"{namespace}/{name}")

    async def _visible(
        self, kind: Kind, viewer: Viewer, namespace: str | None
    ) -> Mapping[Key, ClusterObject]:
        if namespace is not None:
            await viewer.require(Right("list", kind, namespace))
            return await self._objects(kind, {namespace})
        if await viewer.may(Right("list", kind)):
            return await self._objects(kind, None)
        shown = {place.namespace for place in await self._places(kind)}
        if EVERYWHERE in shown:
            shown = {key[1] for key in await self._objects(kind, None)}
        if len(shown) > MOST_NAMESPACES:
            raise RequestError(
                400, f"there are {kind} in more than {MOST_NAMESPACES} namespaces: name yours, as "
                "?namespace=NAME here, or as #/cluster/NAME on the page", param="namespace",
            )  # fmt: skip
        names = sorted(shown)
        answers = await asyncio.gather(*(viewer.may(Right("list", kind, name)) for name in names))
        theirs = {name for name, allowed in zip(names, answers, strict=True) if allowed}
        return await self._objects(kind, theirs)

    async def _objects(
        self, kind: Kind, namespaces: set[str] | None
    ) -> Mapping[Key, ClusterObject]:
        """Return the objects of these namespaces as they are now, or those of all that are shown.

        Raises:
            RequestError: The API server did not list them.
        """
        places = await self._places(kind)
        if namespaces is not None:
            places = [p for p in places if p.namespace in {*namespaces, EVERYWHERE}]
        known: dict[Key, ClusterObject] = {}
        for objects in await asyncio.gather(*(place.objects() for place in places)):
            known.update(objects)
        if namespaces is None:
            return known
        return {key: found for key, found in known.items() if key[1] in namespaces}

    async def close(self) -> None:
        """End what is followed and close the connections."""
        for places in self._followed.values():
            for place in places:
                await place.close()
        if self._api is not None:
            await self._api.close()
            self._api = None

    async def _places(self, kind: Kind) -> list[Followed]:
        async with self._connecting:
            if self._api is None:
                self._api, self._own = await connected(self._kubeconfig)
            if kind not in self._followed:
                names = (self._namespace or self._own).split(",")
                self._followed[kind] = [Followed(self._api, kind, name) for name in names]
            return self._followed[kind]


def _key(after: str) -> Key:
    parts = after.split("/")
    if len(parts) != 3:
        raise RequestError(400, f"'after' is no cursor: {after[:200]!r}", param="after")
    return parts[0], parts[1], parts[2]
