"""`create_app`: agents and tasks as an ASGI application."""

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from orbiter import Agent, Swarm
from orbiter.agent import Provider
from orbiter.client import ClientError
from orbiter.server._internal.agent_routes import agent_endpoints
from orbiter.server._internal.auth import Auth
from orbiter.server._internal.bodies import Bodies
from orbiter.server._internal.chat_routes import chat_endpoints
from orbiter.server._internal.cluster import Cluster
from orbiter.server._internal.cluster_routes import cluster_endpoints
from orbiter.server._internal.cluster_task_changes import cluster_task_endpoints
from orbiter.server._internal.database import Database
from orbiter.server._internal.directory import owned
from orbiter.server._internal.endpoint import PATTERN, on_request_error, openapi
from orbiter.server._internal.errors import RequestError, error_response
from orbiter.server._internal.given import check_given
from orbiter.server._internal.journal import Journal
from orbiter.server._internal.mcp_route import mcp_route
from orbiter.server._internal.metrics import Metrics
from orbiter.server._internal.page import page_routes
from orbiter.server._internal.reviews import reviews_of
from orbiter.server._internal.runs import Runs
from orbiter.server._internal.services import Services
from orbiter.server._internal.sessions import Sessions
from orbiter.server._internal.socket import Connection
from orbiter.server._internal.sse import Streams
from orbiter.server._internal.system_routes import system_endpoints
from orbiter.server._internal.task_routes import task_endpoints
from orbiter.server._internal.transcripts import Transcripts
from orbiter.server._internal.viewer import USE_AGENTS, viewer_of
from orbiter.server.config import ServerConfig
from orbiter.tasks import TaskBroker, TaskStoreSqlite

logger = logging.getLogger("orbiter.server")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""Those that are counted by name: anybody may send a word of their own, and another each time."""


def create_app(
    agents: Mapping[str, Agent | Swarm],
    *,
    config: ServerConfig | None = None,
    provider: Provider | None = None,
) -> Starlette:
    """Return the application that serves these agents; any ASGI server can run it, in one process.

    Args:
        agents: What is served, by the name clients know it by.
        config: How; without a token only this machine's own programs are served.
        provider: A model to use instead of the agents' own.

    Raises:
        OrbiterError: There are no agents, or no cluster to ask where the configuration has
            `auth="kubernetes"`. While it starts: the directory cannot be used.
    """
    check_given(agents, config)
    config = config or ServerConfig()
    services = _services(dict(agents), config, provider)
    token = config.token.get_secret_value() if config.token is not None else None
    reviews = services.reviews
    endpoints = [
        *agent_endpoints(services),
        *task_endpoints(services),
        *chat_endpoints(services),
        *system_endpoints(services),
        *cluster_endpoints(services),
        *cluster_task_endpoints(services),
    ]
    document = openapi(
        endpoints, version=_version(), secured=token is not None or reviews is not None,
        reviewed=reviews is not None,
    )  # fmt: skip

    async def describe(request: Request) -> Response:
        return JSONResponse(document)

    async def socket(connection: WebSocket) -> None:
        viewer = viewer_of(connection)
        try:
            await viewer.require(USE_AGENTS)
            with services.streams.held(viewer), services.metrics.sockets.track_inprogress():
                await Connection(services, connection).serve()
        except RequestError as refusal:
            if "websocket.http.response" in connection.scope.get("extensions", ()):
                await connection.send_denial_response(error_response(refusal))
            else:
                await connection.close(1008, str(refusal))

    app = Starlette(
        routes=[
            *(endpoint.route(services.bodies) for endpoint in endpoints),
            Route("/openapi.json", describe, methods=["GET"]),
            mcp_route(services),
            WebSocketRoute("/v1/socket", socket),
            *page_routes(),
        ],
        middleware=[Middleware(_Counted, services.metrics), Middleware(Auth, token, reviews)],
        exception_handlers={
            RequestError: on_request_error,
            ClientError: on_request_error,
            HTTPException: _on_http_error,
            Exception: _on_error,
        },
        lifespan=_lifespan(services),
    )
    app.state.runs = services.runs
    app.state.directory = config.directory
    app.state.streams, app.state.bodies = services.streams, services.bodies
    return app


def _services(
    agents: Mapping[str, Agent | Swarm], config: ServerConfig, provider: Provider | None
) -> Services:
    database = Database(config.directory / "sessions.db")
    sessions, journal, metrics = Sessions(database), Journal(database), Metrics()
    cluster = Cluster.if_any(config.kubeconfig, config.namespace)
    return Services(
        agents=agents,
        provider=provider,
        config=config,
        database=database,
        sessions=sessions,
        journal=journal,
        runs=Runs(agents, provider, sessions, journal, metrics, config),
        broker=TaskBroker(
            TaskStoreSqlite(config.directory / "tasks.db"), model=provider, agent_specs=agents,
            exit_timeout=config.drain_seconds,
        ),
        metrics=metrics,
        streams=Streams(metrics.streams, config.max_streams),
        bodies=Bodies(config.max_body_bytes),
        cluster=cluster,
        transcripts=Transcripts(cluster.readers) if cluster and config.transcripts else None,
        reviews=reviews_of(config),
    )  # fmt: skip


def _lifespan(services: Services) -> Callable[[Starlette], Any]:
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with owned(services.config.directory):
            services.journal.start()
            await services.runs.resume()
            try:
                async with services.broker:
                    yield
            finally:
                await services.runs.stop()
                await services.database.close()
                store = services.broker.store
                if isinstance(store, TaskStoreSqlite):
                    await store.close()
                for connected in (services.transcripts, services.cluster, services.reviews):
                    if connected is not None:
                        await connected.close()

    return lifespan


def _version() -> str:
    try:
        return version("orbiter-server")
    except PackageNotFoundError:  # bare sources, as in an image
        return "unknown"


class _Counted:
    """Counts requests by route, method and status."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                # the pattern, not the path: an id of each session would be a series of its own
                path = scope.get(PATTERN, "other")
                status, method = str(message["status"]), scope["method"]
                method = method if method in _METHODS else "other"
                self._metrics.requests.labels(path, method, status).inc()
            await send(message)

        await self._app(scope, receive, counted)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
    response = error_response(RequestError(error.status_code, str(error.detail)))
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        # each method of a path is a route of its own, and each knows only of itself
        methods = {
            method
            for route in request.app.routes
            if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
            for method in route.methods or ()
        }
        response.headers["Allow"] = ", ".join(sorted(methods))
    return response


async def _on_error(request: Request, error: Exception) -> Response:
    # the text may hold anything; it is for our log, not for the client
    return error_response(RequestError(500, "the server failed; its log says why"))
