"""The few requests a store makes about the AgentTasks of its namespace."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

from orbiter.tasks.api_server import ApiServer, Object, configuration
from orbiter.tasks.state import ConflictError, TaskError

KIND = "agenttasks"
_MERGE = "application/merge-patch+json"


class AgentTaskApi:
    """AgentTasks of one namespace."""

    def __init__(self, namespace: str, kubeconfig: str | None, context: str | None) -> None:
        self._namespace = namespace
        self._server = ApiServer(partial(configuration, kubeconfig, context))

    async def create(self, body: Object) -> Object:
        """Create an object."""
        try:
            made = await self._call("create_namespaced_custom_object", body=body)
        except ConflictError:
            name = body["metadata"]["name"]
            raise TaskError(
                f"there is a task {name} already; give the new one another id"
            ) from None
        if made is None:
            raise TaskError(
                f"namespace {self._namespace} does not exist, or Orbiter's CRDs are not applied"
            )
        return made

    async def get(self, name: str) -> Object | None:
        """Read an object, None when there is none."""
        return await self._call("get_namespaced_custom_object", name=name)

    async def patch(self, name: str, change: Object, *, status: bool = False) -> Object | None:
        """Merge-patch an object; ConflictError when it is not of the version in `change`."""
        method = f"patch_namespaced_custom_object{'_status' if status else ''}"
        return await self._call(method, name=name, body=change, _content_type=_MERGE)

    async def list(self) -> tuple[list[Object], str]:
        """Every object, and the version from which to follow the changes."""
        return await self._server.list(KIND, self._namespace)

    def watch(self, version: str, name: str | None = None) -> AsyncGenerator[Object, None]:
        """Each change after a version; see ApiServer."""
        return self._server.watch(KIND, self._namespace, version, name=name)

    async def close(self) -> None:
        """Close the connections."""
        await self._server.close()

    async def _call(self, method: str, **arguments: Any) -> Object | None:
        return await self._server.call(method, KIND, self._namespace, **arguments)
