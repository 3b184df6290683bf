"""The tasks of the cluster as a TaskClient has them here: for somebody who looks at this server.

What is read is read by the server, as far as the cluster lets that person; what is written goes to
the API server with their token. So a server whose token all share only reads.
"""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING

from orbiter.client import ClientError, TaskPage, TaskQuery, TaskSummary
from orbiter.server._internal.cluster import Cluster
from orbiter.server._internal.cluster_actions import KIND, Object, call_as
from orbiter.server._internal.errors import RequestError, unknown
from orbiter.server._internal.viewer import Viewer
from orbiter.server.cluster_models import ClusterQuery

if TYPE_CHECKING:
    from orbiter.tasks.api_server import ApiServer

LOOK_SECONDS = 10.0
"""After so many of silence somebody's right to a task is asked about again."""
PACE_SECONDS = 0.5
"""Between two looks at a task that somebody follows."""
_MERGE, _JSON = "application/merge-patch+json", "application/json-patch+json"
_SUMMARY = set(TaskSummary.model_fields)


class ViewerTasks:
    """Tasks as one viewer may see and change them; see TaskApi. What refuses is a RequestError."""

    def __init__(self, cluster: Cluster, viewer: Viewer, kubeconfig: Path | None) -> None:
        self._cluster = cluster
        self._viewer = viewer
        self._kubeconfig = kubeconfig

    async def get(self, namespace: str, name: str) -> Object | None:
        """Return a task as the API server has it."""
        return (await self._cluster.get("agenttasks", self._viewer, namespace, name))[1]

    async def page(self, query: TaskQuery) -> TaskPage:
        """Return a page of tasks, the newest first."""
        asked = ClusterQuery(
            limit=query.limit, after=query.after or None, namespace=query.namespace,
            label=query.label, phase=query.phase,
        )  # fmt: skip
        found = await self._cluster.page("agenttasks", self._viewer, asked)
        items = [TaskSummary(**each.model_dump(include=_SUMMARY)) for each in found.items]
        return TaskPage(items=items, next=found.next or "")

    async def create(self, namespace: str, manifest: Object) -> Object:
        """Create a task, as whoever asks."""

        async def create(api: "ApiServer") -> Object | None:
            return await api.call("create_namespaced_custom_object", KIND, namespace, body=manifest)

        try:
            made = await call_as(self._kubeconfig, self._viewer, create)
        except RequestError as error:
            if error.code == "conflict":
                raise ClientError("exists", str(error)) from error
            raise
        if made is None:
            raise ClientError("not_found", f"there is no namespace '{namespace}'")
        return made

    async def patch(self, namespace: str, name: str, change: Object | list[Object]) -> Object:
        """Change a task, as whoever asks."""
        how = _JSON if isinstance(change, list) else _MERGE

        async def patch(api: "ApiServer") -> Object | None:
            return await api.call(
                "patch_namespaced_custom_object", KIND, namespace, name=name, body=change,
                _content_type=how,
            )  # fmt: skip

        done = await call_as(self._kubeconfig, self._viewer, patch)
        if done is None:
            raise unknown("agenttask", f"{namespace}/{name}")
        return done

    async def changes(self, namespace: str, name: str) -> AsyncGenerator[Object, None]:
        """Yield a task as it is, and again after each change, for as long as they may see it."""
        clock, where = asyncio.get_running_loop().time, (namespace, name)
        while True:
            begun = clock()
            followed = await self._cluster.following("agenttasks", namespace)
            version = followed.version(where) if followed else ""
            item = await self.get(namespace, name)
            assert item is not None and followed is not None  # noqa: S101, PT018 - get has refused
            yield item
            await followed.changed(where, version, LOOK_SECONDS)
            await asyncio.sleep(max(0.0, PACE_SECONDS - (clock() - begun)))

    async def user(self) -> str | None:
        """Return by which name the cluster knows them."""
        return self._viewer.user

    async def has_profile(self, namespace: str | None, name: str) -> bool:
        """Say whether there is a profile that they may read."""
        scope = "cluster" if namespace is None else "namespaced"
        kind = "clusteragentprofiles" if namespace is None else "agentprofiles"

        async def read(api: "ApiServer") -> Object | None:
            method = f"get_{scope}_custom_object"
            return await api.call(method, kind, namespace or "*", name=name)

        try:
            return await call_as(self._kubeconfig, self._viewer, read) is not None
        except RequestError as error:
            if error.code == "reads_only":
                raise
            return False  # an installation without profiles, or no right to read them
