"""The two requests the server makes to a cluster's API server: list a kind, and watch it."""

import importlib
import json
from collections.abc import AsyncGenerator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

from orbiter.server._internal.errors import RequestError
from orbiter_contracts.json_text import bounded

GROUP, VERSION = "orbiter.dev", "v1alpha1"
Kind = Literal["agenttasks", "posessions"]
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
ALL = "*"
LIST_SECONDS = 10
# a watch also ends when nobody has looked since it began, so this is how long it lives in vain
WATCH_SECONDS = 120
_PAGE = 500
_EVENT, _LIST = 2, 3


class ExpiredError(Exception):
    """The watch cannot go on from there: list again."""


class ClusterApi:
    """A connection to an API server.

    Attributes:
        own: The namespace of the kubeconfig's context, or the pod's.
    """

    def __init__(self, client: Any, own: str) -> None:
        self._client = client
        self.own = own

    @classmethod
    async def connect(cls, aio: Any, kubeconfig: Path | None) -> "ClusterApi":
        """Read the configuration; the first request connects.

        Args:
            aio: The module kubernetes.aio.client.
            kubeconfig: None takes the pod's service account.
        """
        config: Any = importlib.import_module("kubernetes.aio.config")
        settings = aio.Configuration()
        if kubeconfig is not None:
            await config.load_kube_config(str(kubeconfig), client_configuration=settings)
            _, current = config.list_kube_config_contexts(str(kubeconfig))
            own = current["context"].get("namespace")
        else:
            config.load_incluster_config(client_configuration=settings)
            own = (ACCOUNT / "namespace").read_text().strip()
        return cls(aio.CustomObjectsApi(aio.ApiClient(settings)), own or "default")

    async def list(self, kind: Kind, namespace: str) -> tuple[list[dict[str, Any]], str]:
        """Return every object, and the version from which to watch.

        Raises:
            RequestError: The API server did not answer as it should.
        """
        request, place = self._request(kind, namespace)
        items: list[dict[str, Any]] = []
        more = ""
        while True:
            cursor = {"_continue": more} if more else {}
            try:
                # decoded here: the library gives up on what is nested too deep
                answer = await getattr(self._client, f"{request}_without_preload_content")(
                    **place, limit=_PAGE, _request_timeout=LIST_SECONDS, **cursor
                )
                page = await _page(answer)
            except Exception as error:
                raise _failure(error, kind, namespace) from error
            items += page["items"]
            more = page["metadata"].get("continue") or ""
            if not more:
                return items, page["metadata"]["resourceVersion"]

    async def watch(
        self, kind: Kind, namespace: str, version: str
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield each change after a version, until the API server ends it.

        Raises:
            ExpiredError: The version is too old, or the connection broke.
        """
        request, place = self._request(kind, namespace)
        try:
            answer = await getattr(self._client, f"{request}_without_preload_content")(
                **place, resource_version=version, watch=True,
                timeout_seconds=WATCH_SECONDS, _request_timeout=WATCH_SECONDS + 30,
            )  # fmt: skip
            try:
                if answer.status != 200:  # a stream's status is nobody's business but ours
                    raise ExpiredError(answer.reason)
                rest = b""
                # by pieces and not by lines: a line may be longer than aiohttp allows
                async for piece in answer.content.iter_any():
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        change = json.loads(bounded(line, root=_EVENT))
                        if change["type"] == "ERROR":
                            raise ExpiredError(change["object"].get("message", ""))
                        yield change
            finally:
                answer.close()
        except (GeneratorExit, ExpiredError):
            raise
        except Exception as error:
            raise ExpiredError(str(error)) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.api_client.close()

    def _request(self, kind: Kind, namespace: str) -> tuple[str, dict[str, str]]:
        place = {"group": GROUP, "version": VERSION, "plural": kind}
        if namespace == ALL:
            # named for its scope; for a namespaced kind it is all namespaces
            return "list_cluster_custom_object", place
        return "list_namespaced_custom_object", {**place, "namespace": namespace}


class _RefusedError(Exception):
    """What the API server says when it lists nothing."""

    def __init__(self, reason: str, body: bytes) -> None:
        super().__init__(reason)
        self.reason = reason
        self.body = body


async def _page(answer: Any) -> dict[str, Any]:
    try:
        body = await answer.read()
    finally:
        answer.close()
    if answer.status != HTTPStatus.OK:
        raise _RefusedError(answer.reason, body)
    page: dict[str, Any] = json.loads(bounded(body, root=_LIST))
    return page


def _failure(error: Exception, kind: str, namespace: str) -> RequestError:
    where = "all namespaces" if namespace == ALL else f"namespace {namespace}"
    return RequestError(
        502, f"the cluster did not list {kind} of {where}: {_words(error)}",
        code="cluster_unreachable",
    )  # fmt: skip


def _words(error: Exception) -> str:
    try:
        return str(json.loads(getattr(error, "body", ""))["message"])
    except (TypeError, ValueError, KeyError):
        return str(getattr(error, "reason", None) or error) or type(error).__name__
