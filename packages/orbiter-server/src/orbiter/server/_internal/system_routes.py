"""Endpoints about the server itself."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orbiter.server._internal.endpoint import Endpoint
from orbiter.server._internal.metrics import CONTENT_TYPE
from orbiter.server._internal.services import Services
from orbiter.server._internal.viewer import READ_METRICS
from orbiter.server.models import Health


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
    ]  # fmt: skip
