"""Endpoints about what belongs to one AgentTask of the cluster."""

import asyncio
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from orbiter.server._internal.cluster import Cluster
from orbiter.server._internal.cluster_artifacts import KeptArtifacts
from orbiter.server._internal.cluster_attempts import Attempts
from orbiter.server._internal.cluster_spec import spec_of
from orbiter.server._internal.endpoint import Endpoint
from orbiter.server._internal.errors import unknown
from orbiter.server._internal.services import Services
from orbiter.server._internal.viewer import viewer_of
from orbiter.server.cluster_task_models import (
    ArtifactsQuery,
    ClusterArtifacts,
    ClusterAttempts,
    ClusterSpec,
)

KIND: Final = "agenttasks"
BYTES = "application/octet-stream"
# what an agent has made stays a file wherever it is opened, and is nobody else's
FILE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
_AT_ONCE = 2
"""Specs that are written at a time, in threads."""


def task_endpoints(
    services: Services, cluster: Callable[[], Cluster], path: str, errors: tuple[int, ...]
) -> list[Endpoint]:
    """Return the endpoints.

    Args:
        services: All that they need.
        cluster: Returns the cluster, or raises a RequestError where there is none.
        path: Of one task.
        errors: Statuses of what can go wrong beside the common ones.
    """
    shown = services.cluster if services.transcripts else None
    read = Attempts(shown.readers if shown else None)
    kept = KeptArtifacts(services.config.kubeconfig, reads=services.transcripts is not None)
    writing = asyncio.Semaphore(_AT_ONCE)

    async def attempts(request: Request, namespace: str, name: str) -> ClusterAttempts:
        viewer = viewer_of(request)
        _, item = await cluster().get(KIND, viewer, namespace, name)
        return await read.of(item, viewer)

    async def spec(request: Request, namespace: str, name: str) -> ClusterSpec:
        _, item = await cluster().get(KIND, viewer_of(request), namespace, name)
        async with writing:
            # the longest takes a second
            return await asyncio.to_thread(spec_of, item)

    async def artifacts(
        request: Request, namespace: str, name: str, query: ArtifactsQuery
    ) -> ClusterArtifacts:
        viewer = viewer_of(request)
        _, item = await cluster().get(KIND, viewer, namespace, name)
        return await kept.listed(item, viewer, query.attempt)

    async def artifact(
        request: Request, namespace: str, name: str, attempt: str, key: str
    ) -> Response:
        viewer = viewer_of(request)
        _, item = await cluster().get(KIND, viewer, namespace, name)
        if not _NUMBER.fullmatch(attempt):
            raise unknown("attempt", attempt)
        file, data = await kept.content(item, viewer, int(attempt), key)
        shown_as = quote(file.name.rpartition("/")[2], safe="")
        headers = FILE_HEADERS | {"Content-Disposition": f"attachment; filename*=UTF-8''{shown_as}"}
        return Response(data, headers=headers, media_type=BYTES)

    return [
        Endpoint(
            "GET", f"{path}/artifacts", "List what was kept of an AgentTask's workspace", artifacts,
            ClusterArtifacts, query=ArtifactsQuery, errors=errors, needs=None,
        ),
        Endpoint(
            "GET", f"{path}/artifacts/{{attempt}}/{{key}}", "Get a small file that was kept",
            artifact, media=BYTES, errors=(*errors, 403, 409), needs=None,
        ),
        Endpoint(
            "GET", f"{path}/spec", "Show what an AgentTask was told", spec, ClusterSpec,
            errors=errors, needs=None,
        ),
        Endpoint(
            "GET", f"{path}/attempts", "List the attempts of an AgentTask", attempts,
            ClusterAttempts, errors=errors, needs=None,
        ),
    ]  # fmt: skip
