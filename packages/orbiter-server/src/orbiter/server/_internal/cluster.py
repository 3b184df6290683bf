"""The tasks and sessions of a cluster, page by page, the newest first."""

import asyncio
import importlib
import os
from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING

from orbiter.server._internal.cluster_api import ACCOUNT, Kind, connect
from orbiter.server._internal.cluster_view import Followed, Key
from orbiter.server._internal.errors import RequestError
from orbiter.server.models import ClusterObject, ClusterPage

if TYPE_CHECKING:
    from orbiter.tasks.api_server import ApiServer


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
        if kubeconfig is None and not (
            "KUBERNETES_SERVICE_HOST" in os.environ and (ACCOUNT / "token").exists()
        ):
            return None
        return cls(kubeconfig, namespace)

    async def page(self, kind: Kind, limit: int, after: str | None) -> ClusterPage:
        """Return a page of objects, the newest first.

        Args:
            kind: Which objects.
            limit: How many at most.
            after: `next` of the page before; objects that came or went since do not matter.

        Raises:
            RequestError: The cursor is none, or the API server did not answer as it should.
        """
        cursor = None if after is None else _key(after)
        places = await self._places(kind)
        known: dict[Key, ClusterObject] = {}
        for objects in await asyncio.gather(*(place.objects() for place in places)):
            known.update(objects)
        keys = sorted(known)
        end = len(keys) if cursor is None else bisect_left(keys, cursor)
        chosen = keys[max(end - limit, 0) : end][::-1]
        return ClusterPage(
            items=[known[key] for key in chosen],
            total=len(keys),
            next="/".join(chosen[-1]) if end > limit else None,
        )

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
                self._api, self._own = await self._connect()
            if kind not in self._followed:
                names = (self._namespace or self._own).split(",")
                self._followed[kind] = [Followed(self._api, kind, name) for name in names]
            return self._followed[kind]

    async def _connect(self) -> tuple["ApiServer", str]:
        try:
            # hundreds of modules: not on the event loop, and not before somebody asks
            await asyncio.to_thread(importlib.import_module, "orbiter.tasks.api_server")
        except ModuleNotFoundError:
            raise RequestError(
                501, "this needs the extra: pip install 'orbiter-server[kubernetes]'"
            ) from None
        try:
            return await connect(self._kubeconfig)
        except Exception as error:
            raise RequestError(
                502, f"the cluster cannot be reached: {error}", code="cluster_unreachable"
            ) from error


def _key(after: str) -> Key:
    parts = after.split("/")
    if len(parts) != 3:
        raise RequestError(400, f"'after' is no cursor: {after[:200]!r}", param="after")
    return parts[0], parts[1], parts[2]
