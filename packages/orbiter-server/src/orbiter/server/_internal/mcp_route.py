"""`/mcp`: the tools of tasks for MCP clients, each call as whoever presents its token."""

import asyncio
import importlib

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from orbiter.server._internal.cluster_task_changes import client_of
from orbiter.server._internal.endpoint import PATTERN
from orbiter.server._internal.errors import RequestError, error_response
from orbiter.server._internal.services import Services
from orbiter.server._internal.sse import while_allowed
from orbiter.server._internal.viewer import viewer_of

PATH = "/mcp"


class MCPEndpoint:
    """Answers the requests of streamable HTTP, each by itself.

    Whose they are, and from which page, the middleware has judged before, as for all addresses.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        scope[PATTERN] = PATH
        try:
            await self._serve(scope, receive, send)
        except RequestError as refusal:
            await error_response(refusal)(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        tasks = client_of(self._services, request)
        try:
            # many modules: not on the event loop, and not before somebody asks
            await asyncio.to_thread(importlib.import_module, "mcp.server.streamable_http_manager")
        except ModuleNotFoundError:
            raise RequestError(
                501, "this needs the extra: pip install 'orbiter-server[kubernetes]'"
            ) from None
        from orbiter.client.mcp_server import MOST_BODY_BYTES, serve_request

        viewer = viewer_of(request)
        body = _again(await self._services.bodies.read(request, MOST_BODY_BYTES), receive)
        # a call may wait for minutes, as an event stream does
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        with self._services.streams.held(viewer):
            if not await while_allowed(serve_request(tasks, scope, body, noted), viewer):
                return
        if not begun:
            raise RequestError(401, "your token, or your right, is gone: present another one")
        # as every stream ends; whoever comes back is told why
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _again(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was read, and after it what comes."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again


def mcp_route(services: Services) -> Route:
    """Return the route; only POST is served, because there is no session to listen to or to end."""
    return Route(PATH, MCPEndpoint(services), methods=["POST"])
