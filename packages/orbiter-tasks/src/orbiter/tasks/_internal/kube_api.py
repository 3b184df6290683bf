"""The few requests a store makes to the API server about AgentTasks, on kubernetes.aio.

What the server refuses becomes an error with its own words; dicts go in and out.
"""

import json
import os
from collections.abc import AsyncGenerator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kubernetes.aio import client, config

from orbiter.tasks._internal.agent_tasks import ConflictError, GoneError, Object
from orbiter.tasks.state import TaskError
from orbiter_contracts.json_text import bounded

_GROUP, _VERSION, _PLURAL = "orbiter.dev", "v1alpha1", "agenttasks"
_MERGE = "application/merge-patch+json"
_PAGE = 500
WATCH_SECONDS = 240
_OBJECT, _EVENT, _LIST = 1, 2, 3


class AgentTaskApi:
    """AgentTasks of one namespace."""

    def __init__(self, namespace: str, kubeconfig: str | None, context: str | None) -> None:
        self._place: dict[str, Any] = {
            "group": _GROUP, "version": _VERSION, "plural": _PLURAL, "namespace": namespace
        }  # fmt: skip
        self._where = f"namespace {namespace}"
        self._kubeconfig = kubeconfig
        self._context = context
        self._client: client.ApiClient | None = None

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
            raise TaskError(f"{self._where} does not exist, or Orbiter's CRDs are not applied")
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
        items: list[Object] = []
        more = ""
        while True:
            place = {"_continue": more} if more else {}
            page = await self._call(
                "list_namespaced_custom_object", root=_LIST, limit=_PAGE, **place
            )
            if page is None:
                raise TaskError("the API server does not know AgentTask; apply Orbiter's CRDs")
            items += page["items"]
            more = page["metadata"].get("continue") or ""
            if not more:
                return items, page["metadata"]["resourceVersion"]

    async def watch(self, version: str, name: str | None = None) -> AsyncGenerator[Object, None]:
        """Each change after a version, as `{"type": …, "object": …}`, until the server ends it.

        Raises:
            GoneError: That version is too long ago.
        """
        selector: dict[str, Any] = {"field_selector": f"metadata.name={name}"} if name else {}
        api = await self._api()
        response = await self._say(
            api.list_namespaced_custom_object_without_preload_content(
                **self._place, **selector, resource_version=version, watch=True,
                allow_watch_bookmarks=True, timeout_seconds=WATCH_SECONDS,
                _request_timeout=WATCH_SECONDS + 30,
            )
        )  # fmt: skip
        try:
            if response.status >= 400:  # the raw call leaves that to its caller
                raise _refusal(response.status, _message(await response.read(), response.reason))
            rest = b""
            # by pieces and not by lines, because a line may be longer than aiohttp allows
            async for piece in response.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    change = json.loads(bounded(line, root=_EVENT))
                    if change["type"] == "ERROR":
                        raise GoneError(change["object"].get("message", "the watch has ended"))
                    yield change
        finally:
            response.close()

    async def close(self) -> None:
        """Close the connections."""
        opened, self._client = self._client, None
        if opened is not None:
            await opened.close()  # type: ignore[no-untyped-call]

    async def _call(self, method: str, *, root: int = _OBJECT, **arguments: Any) -> Object | None:
        """Ask, and decode the answer here: the library gives up on one that is nested too deep."""
        api = await self._api()
        ask = getattr(api, f"{method}_without_preload_content")
        status, reason, body = await self._say(_answer(ask(**self._place, **arguments)))
        if status == HTTPStatus.NOT_FOUND:
            return None
        if status >= HTTPStatus.BAD_REQUEST:
            raise _refusal(status, _message(body, reason))
        try:
            answer: Object = json.loads(bounded(body, root=root))
        except ValueError as error:
            raise TaskError(f"the API server's answer is no JSON: {error}") from error
        return answer

    async def _say(self, request: Any) -> Any:
        try:
            return await request
        except client.ApiException as error:
            if error.status == 404:
                return None
            raise _refusal(error.status, _message(error.body, error.reason)) from error
        except OSError as error:
            raise TaskError(f"the API server cannot be reached: {error}") from error

    async def _api(self) -> client.CustomObjectsApi:
        if self._client is None:
            self._client = client.ApiClient(configuration=await self._settings())
        return client.CustomObjectsApi(self._client)

    async def _settings(self) -> client.Configuration:
        """A kubeconfig where there is one, else what a pod finds in its file system."""
        settings = client.Configuration()
        where = self._kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        files = [str(Path(part).expanduser()) for part in where.split(os.pathsep) if part]
        try:
            if self._kubeconfig or self._context or any(Path(file).exists() for file in files):
                await config.load_kube_config(  # type: ignore[no-untyped-call]
                    os.pathsep.join(files), self._context, settings, persist_config=False
                )
            else:
                config.load_incluster_config(settings)  # type: ignore[no-untyped-call]
        except config.ConfigException as error:
            raise TaskError(
                f"no cluster is configured: {error}; set KUBECONFIG or give kubeconfig="
            ) from error
        return settings


async def _answer(request: Any) -> tuple[int, str, bytes]:
    """Status, reason and body of what is answered."""
    response = await request
    try:
        return response.status, response.reason, await response.read()
    finally:
        response.close()


def _refusal(status: int, message: str) -> TaskError:
    if status == 409:
        return ConflictError(message)
    if status == 410:
        return GoneError(message)
    return TaskError(f"the API server refused it ({status}): {message}")


def _message(body: Any, reason: Any) -> str:
    try:
        return str(json.loads(body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(reason)
