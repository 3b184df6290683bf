"""Endpoints about the server itself, and about the cluster it may run in."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orbiter.server._internal.cluster import Cluster
from orbiter.server._internal.cluster_api import Kind
from orbiter.server._internal.endpoint import Endpoint
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.metrics import CONTENT_TYPE
from orbiter.server._internal.services import Services
from orbiter.server._internal.sse import begun, last_event_id
from orbiter.server._internal.viewer import READ_METRICS, viewer_of
from orbiter.server.cluster_models import ClusterDetail, ClusterPage, TranscriptQuery
from orbiter.server.models import (
    ClusterQuery,
    Health,
)


def system_endpoints(services: Services) -> list[Endpoint]:
    """Return the endpoints."""
    runs, journal = services.runs, services.journal

    async def healthz(request: Request) -> Health:
        return Health(status="ok", active_runs=runs.active)

    async def readyz(request: Request) -> Response:
        status = "ok"
        if runs.draining:
            status = "the server is about to stop"
        elif journal.failing is not None:
            status = f"events cannot be written: {journal.failing}"
        health = Health(status=status, active_runs=runs.active)
        return JSONResponse(health.model_dump(), 200 if status == "ok" else 503)

    async def metrics(request: Request) -> Response:
        return Response(services.metrics.text(), media_type=CONTENT_TYPE)

    async def tasks(request: Request, query: ClusterQuery) -> ClusterPage:
        return await cluster().page("agenttasks", viewer_of(request), query)

    async def sessions(request: Request, query: ClusterQuery) -> ClusterPage:
        return await cluster().page("posessions", viewer_of(request), query)

    async def task(request: Request, namespace: str, name: str) -> ClusterDetail:
        return await cluster().one("agenttasks", viewer_of(request), namespace, name)

    async def session(request: Request, namespace: str, name: str) -> ClusterDetail:
        return await cluster().one("posessions", viewer_of(request), namespace, name)

    async def task_transcript(
        request: Request, namespace: str, name: str, query: TranscriptQuery
    ) -> Response:
        return await transcript("agenttasks", request, namespace, name, query)

    async def session_transcript(
        request: Request, namespace: str, name: str, query: TranscriptQuery
    ) -> Response:
        return await transcript("posessions", request, namespace, name, query)

    async def transcript(
        kind: Kind, request: Request, namespace: str, name: str, query: TranscriptQuery
    ) -> Response:
        viewer = viewer_of(request)
        if services.transcripts is None:
            cluster()
            raise RequestError(
                404, "the server shows no transcripts: start it with --transcripts, or set the "
                "chart's server.transcripts", code="no_transcripts",
            )  # fmt: skip
        place, over = await cluster().transcript(kind, viewer, namespace, name, query.attempt)
        batches = services.transcripts.follow(
            place, last_event_id(request.headers, query.after),
            idle=services.config.heartbeat_seconds, over=over,
        )  # fmt: skip
        return services.streams.events(await begun(batches), viewer)

    def cluster() -> Cluster:
        if services.cluster is None:
            raise RequestError(
                404, "the server knows no cluster: run it in one or give it a kubeconfig",
                code="no_cluster",
            )  # fmt: skip
        return services.cluster

    trouble = (404, 501, 502)
    return [
        Endpoint("GET", "/healthz", "Say that the process works", healthz, Health, public=True),
        Endpoint(
            "GET", "/readyz", "Say whether new work is welcome", readyz, Health, public=True,
            errors=(503,),
        ),
        Endpoint(
            "GET", "/metrics", "Metrics for Prometheus", metrics, media="text/plain",
            needs=READ_METRICS,
        ),
        Endpoint(
            "GET", "/v1/cluster/tasks", "List the cluster's AgentTasks", tasks, ClusterPage,
            query=ClusterQuery, errors=trouble, needs=None,
        ),
        Endpoint(
            "GET", "/v1/cluster/sessions", "List the cluster's POSessions", sessions, ClusterPage,
            query=ClusterQuery, errors=trouble, needs=None,
        ),
        Endpoint(
            "GET", "/v1/cluster/tasks/{namespace}/{name}", "Show an AgentTask", task,
            ClusterDetail, errors=trouble, needs=None,
        ),
        Endpoint(
            "GET", "/v1/cluster/tasks/{namespace}/{name}/transcript",
            "Follow what an AgentTask's agent says and does", task_transcript,
            query=TranscriptQuery, media="text/event-stream", errors=(*trouble, 503), needs=None,
        ),
        Endpoint(
            "GET", "/v1/cluster/sessions/{namespace}/{name}/transcript",
            "Follow what a POSession's agent says and does", session_transcript,
            query=TranscriptQuery, media="text/event-stream", errors=(*trouble, 503), needs=None,
        ),
        Endpoint(
            "GET", "/v1/cluster/sessions/{namespace}/{name}", "Show a POSession", session,
            ClusterDetail, errors=trouble, needs=None,
        ),
    ]  # fmt: skip
