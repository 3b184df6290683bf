"""`/mcp`: the tools of tasks for MCP clients, each call as whoever presents its token."""

import asyncio
import importlib

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from orbiter.server._internal.cluster_task_changes import client_of
from orbiter.server._internal.endpoint import BODY_SECONDS, PATTERN
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
        from orbiter.client.mcp_server import serve_request

        viewer = viewer_of(request)
        body = await _whole(receive)
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


async def _whole(receive: Receive) -> Receive:
    """Return what gives a body that has arrived in time; how large it may be is the SDK's to say.

    Raises:
        RequestError: It has not arrived, or is larger than any that is taken.
    """
    from orbiter.client.mcp_server import MOST_BODY_BYTES

    messages, size = list[Message](), 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                messages.append(message)
                size += len(message.get("body", b""))
                if size > MOST_BODY_BYTES:
                    raise RequestError(
                        413, f"the request is longer than {MOST_BODY_BYTES} bytes", code="too_large"
                    )
                if not message.get("more_body"):
                    break
    except TimeoutError:
        raise RequestError(
            408, f"the request's body has not arrived within {BODY_SECONDS:g} s", code="too_slow"
        ) from None
    left = iter(messages)

    async def again() -> Message:
        return next(left, None) or await receive()

    return again


def mcp_route(services: Services) -> Route:
    """Return the route; only POST is served, because there is no session to listen to or to end."""
    return Route(PATH, MCPEndpoint(services), methods=["POST"])
