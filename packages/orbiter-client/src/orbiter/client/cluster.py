"""Tasks by the API server itself: with a kubeconfig, as a pod, or with a URL and a token.

Needs the extra `kubernetes`, which is loaded where the first client is made.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, TypeVar

from orbiter.client.client import TaskClient
from orbiter.client.contract import RedisApi
from orbiter.client.errors import ClientError, client_error
from orbiter.client.models import TaskPage, TaskQuery
from orbiter.client.objects import LONGEST_NAME, Object, part_of, read_summary, text_of

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration

    from orbiter.tasks.api_server import ApiServer

T = TypeVar("T")
KIND: Final = "agenttasks"
ASK_SECONDS: Final = 10.0
_MERGE, _JSON = "application/merge-patch+json", "application/json-patch+json"
_PAUSES: Final = (0.1, 0.5, 1.0, 2.0, 4.0)
"""Seconds between tries of a watch that does not come about: an API server restarts meanwhile."""
_LONGEST_NAME: Final = 512
"""The resource definition takes no longer name of a person."""


def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    in_cluster: bool = False,
    url: str | None = None,
    token: str | None = None,
    ca: str | None = None,
    redis_url: str | None = None,
    redis: RedisApi | None = None,
) -> TaskClient:
    """Make a client of a cluster; the first request connects.

    Args:
        kubeconfig: The file; by default what kubectl takes, or what a pod finds.
        context: Its context; by default the current one.
        in_cluster: Look for no kubeconfig.
        url: The API server, instead of all that; `https://…`.
        token: With `url`: whose requests these are.
        ca: With `url`: the certificate of its CA, as PEM; None takes those that the machine trusts.
        redis_url: Redis, instead of the one that the namespace's Secrets lead to, which is a name
            inside of the cluster.
        redis: Another way to Redis altogether.

    Raises:
        ClientError: The extra is missing, or `url` and `token` do not go together.
    """
    try:
        from orbiter.tasks.api_server import ApiServer, configuration
    except ModuleNotFoundError:
        raise ClientError(
            "unreachable", "this needs the extra: pip install 'orbiter-client[kubernetes]'"
        ) from None
    from orbiter.client._cluster_redis import ClusterRedis

    if (url is None) != (token is None) or (url is None and ca is not None):
        raise ClientError("invalid", "give url and token together, and ca with them only")

    async def settings() -> "Configuration":
        if url is not None and token is not None:
            return _of_token(url, token, ca)
        return await configuration(kubeconfig, context, in_cluster=in_cluster)

    api = ApiServer(settings)
    return TaskClient(ClusterTasks(api), redis or ClusterRedis(api, redis_url))


def _of_token(url: str, token: str, ca: str | None) -> "Configuration":
    from kubernetes.aio import client

    return client.Configuration(
        host=url.rstrip("/"), ca_cert_data=ca, api_key={"BearerToken": f"Bearer {token}"}
    )


class ClusterTasks:
    """AgentTasks of an API server, as whoever the connection is of; see TaskApi."""

    def __init__(self, api: "ApiServer") -> None:
        self._api = api

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def get(self, namespace: str, name: str) -> Object | None:
        """Return a task as the API server has it; None when there is none."""
        method = "get_namespaced_custom_object"
        found = await _told(self._api.call(method, KIND, namespace, name=name, **_BOUNDED))
        return None if found is None else _whole(found)

    async def page(self, query: TaskQuery) -> TaskPage:
        """Return a page of tasks, in the order of their names."""
        scope = "cluster" if query.namespace is None else "namespaced"
        chosen: dict[str, Any] = {"limit": query.limit}
        if query.after:
            chosen["_continue"] = query.after
        if query.label is not None:
            chosen["label_selector"] = query.label
        found = await _told(
            self._api.call(
                f"list_{scope}_custom_object", KIND, query.namespace or "*", root=3,
                **chosen, **_BOUNDED,
            )
        )  # fmt: skip
        if found is None:
            raise ClientError("not_found", "the API server does not know tasks: Orbiter's resource "
                              "definitions are not applied")  # fmt: skip
        listed = found.get("items")
        if not isinstance(listed, list):
            raise ClientError("unreachable", "the API server's answer is no list")
        items = [read_summary(item) for item in listed if _is_task(item)]
        if query.phase is not None:
            items = [each for each in items if each.phase == query.phase]
        return TaskPage(items=items, next=text_of(part_of(found, "metadata").get("continue"), 4000))

    async def create(self, namespace: str, manifest: Object) -> Object:
        """Create a task."""
        call = self._api.call(
            "create_namespaced_custom_object", KIND, namespace, body=manifest, **_BOUNDED
        )
        try:
            made = await _told(call)
        except ClientError as error:
            if error.code == "conflict":
                raise ClientError("exists", str(error), status=409) from error
            raise
        if made is None:
            raise ClientError(
                "not_found",
                f"there is no namespace {namespace}, or Orbiter's resource definitions are missing",
            )
        return _whole(made)

    async def patch(self, namespace: str, name: str, change: Object | list[Object]) -> Object:
        """Change a task."""
        how = _JSON if isinstance(change, list) else _MERGE
        done = await _told(
            self._api.call(
                "patch_namespaced_custom_object", KIND, namespace, name=name, body=change,
                _content_type=how, **_BOUNDED,
            )
        )  # fmt: skip
        if done is None:
            raise ClientError("not_found", f"there is no task '{namespace}/{name}' any more")
        return done

    async def changes(self, namespace: str, name: str) -> AsyncGenerator[Object, None]:
        """Yield a task as it is, and again after each change. A watch that breaks begins anew."""
        broken = 0
        while True:
            try:
                item = await self.get(namespace, name)
                if item is None:
                    raise _gone(namespace, name)
                yield item
                version = str(item["metadata"]["resourceVersion"])
                watch = self._api.watch(KIND, namespace, version, name=name)
                async with aclosing(watch) as changes:
                    async for change in changes:
                        found = change["object"]
                        if part_of(found, "metadata").get("name") != name:
                            continue
                        if change["type"] == "DELETED":
                            raise _gone(namespace, name)
                        if change["type"] != "BOOKMARK":
                            broken = 0
                            yield found
            except ClientError as error:
                if error.code != "unreachable" or broken == len(_PAUSES):
                    raise
            except Exception as error:
                if broken == len(_PAUSES):
                    raise client_error(error) from error
            await asyncio.sleep(_PAUSES[min(broken, len(_PAUSES) - 1)])
            broken += 1

    async def user(self) -> str | None:
        """Return who asks, by a SelfSubjectReview; None where the API server does not tell."""
        group, kind = "authentication.k8s.io", "SelfSubjectReview"
        body = {"apiVersion": f"{group}/v1", "kind": kind}
        try:
            said = await self._api.review(group, "selfsubjectreviews", body, timeout=ASK_SECONDS)
        except Exception:
            # nobody is named then, and what was asked for is done all the same
            return None
        name = part_of(part_of(said, "status"), "userInfo").get("username")
        return name if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME else None

    async def has_profile(self, namespace: str | None, name: str) -> bool:
        """Say whether there is a profile; False too where that cannot be asked."""
        scope = "cluster" if namespace is None else "namespaced"
        kind = "clusteragentprofiles" if namespace is None else "agentprofiles"
        try:
            return None is not await self._api.call(
                f"get_{scope}_custom_object", kind, namespace or "*", name=name, **_BOUNDED
            )
        except Exception:
            # an installation without profiles, or no right to read them
            return False


_BOUNDED: Final[dict[str, Any]] = {"_request_timeout": ASK_SECONDS}


async def _told(call: Awaitable[T]) -> T:
    try:
        return await call
    except Exception as error:
        raise client_error(error) from error


def _whole(found: Object) -> Object:
    """Return what is a task; whatever else an API server says is no answer."""
    if not _is_task(found):
        raise ClientError("unreachable", "the API server's answer is no task")
    return found


def _is_task(found: object) -> bool:
    if not isinstance(found, dict) or not isinstance(found.get("spec"), dict):
        return False
    names = (part_of(found, "metadata").get(key) for key in ("name", "namespace", "uid"))
    return all(isinstance(name, str) and 0 < len(name) <= LONGEST_NAME for name in names)


def _gone(namespace: str, name: str) -> ClientError:
    return ClientError("not_found", f"there is no task '{namespace}/{name}' any more")
