"""The tasks and sessions of a cluster, read from its API server, page by page."""

import asyncio
import importlib
import os
from pathlib import Path
from typing import Any, Literal

from orbiter.server._internal.errors import RequestError
from orbiter.server.models import ClusterObject, ClusterPage

GROUP, VERSION = "orbiter.dev", "v1alpha1"
TIMEOUT_SECONDS = 10
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
Kind = Literal["agenttasks", "posessions"]


class Cluster:
    """Reads AgentTasks and POSessions; connects when it is first asked."""

    def __init__(self, kubeconfig: Path | None, namespace: str | None) -> None:
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._client: Any = None
        self._connecting = asyncio.Lock()

    @classmethod
    def if_any(cls, kubeconfig: Path | None, namespace: str | None) -> "Cluster | None":
        """Return the cluster of the kubeconfig, else the one we run in, else None."""
        if kubeconfig is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
            return None
        return cls(kubeconfig, namespace)

    async def page(self, kind: Kind, limit: int, after: str | None) -> ClusterPage:
        """Return a page of objects in the order of their names.

        Raises:
            RequestError: The API server did not answer as it should.
        """
        client = await self._connected()
        try:
            answer = await client.list_namespaced_custom_object(
                GROUP, VERSION, self._namespace, kind, limit=limit,
                _request_timeout=TIMEOUT_SECONDS, **({"_continue": after} if after else {}),
            )  # fmt: skip
        except Exception as error:
            raise _failure(error, kind, self._namespace) from error
        meta = answer.get("metadata", {})
        items = [_object(item) for item in answer["items"]]
        return ClusterPage(
            items=items,
            total=len(items) + (meta.get("remainingItemCount") or 0),
            next=meta.get("continue") or None,
        )

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.api_client.close()
            self._client = None

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._client is None:
                try:
                    self._client = await self._connect()
                except RequestError:
                    raise
                except Exception as error:
                    raise RequestError(
                        502, f"the cluster cannot be reached: {error}", code="cluster_unreachable"
                    ) from error
            return self._client

    async def _connect(self) -> Any:
        try:
            # hundreds of modules: not on the event loop, and not before somebody asks
            aio: Any = await asyncio.to_thread(importlib.import_module, "kubernetes.aio.client")
        except ModuleNotFoundError:
            raise RequestError(
                501, "this needs the extra: pip install 'orbiter-server[kubernetes]'"
            ) from None
        config: Any = importlib.import_module("kubernetes.aio.config")
        settings = aio.Configuration()
        if self._kubeconfig is not None:
            await config.load_kube_config(str(self._kubeconfig), client_configuration=settings)
            _, current = config.list_kube_config_contexts(str(self._kubeconfig))
            own = current["context"].get("namespace")
        else:
            config.load_incluster_config(client_configuration=settings)
            own = _NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.exists() else None
        self._namespace = self._namespace or own or "default"
        return aio.CustomObjectsApi(aio.ApiClient(settings))


def _failure(error: Exception, kind: str, namespace: str | None) -> RequestError:
    status = getattr(error, "status", None)
    if status in (400, 410):
        return RequestError(410, "this page is gone: begin with the first", code="cursor_expired")
    reason = getattr(error, "reason", None) or str(error) or type(error).__name__
    return RequestError(
        502, f"the cluster did not list {kind} of namespace {namespace}: {reason}",
        code="cluster_unreachable",
    )  # fmt: skip


def _object(item: dict[str, Any]) -> ClusterObject:
    meta, spec, status = item["metadata"], item.get("spec", {}), item.get("status", {})
    return ClusterObject(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        phase=status.get("phase", ""),
        agent=spec.get("agent", {}).get("type", ""),
        message=str(status.get("message") or spec.get("prompt") or "")[:200],
        created_at=meta.get("creationTimestamp"),
    )
