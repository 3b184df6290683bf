"""Who may speak to the server: whoever has the token; without one, only this machine's programs.

Or whomever the cluster knows: then the request's token is the cluster's to judge.

A web page of a stranger that is open in the user's browser is on this machine too. It is told by
its Origin, and by a Host that is no address of ours (a name that was made to point here).
"""

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from orbiter.access import bearer_token, is_local, is_token
from orbiter.server._internal.cluster_viewer import ClusterViewer
from orbiter.server._internal.errors import RequestError, error_response
from orbiter.server._internal.reviews import Reviews
from orbiter.server._internal.viewer import READ_METRICS, Viewer, set_viewer

PUBLIC = ("/healthz", "/readyz", "/")
PUBLIC_BELOW = "/page/"
SUBPROTOCOL = "orbiter.bearer."


class Auth:
    """Middleware that lets requests through or refuses them."""

    def __init__(self, app: ASGIApp, token: str | None, reviews: Reviews | None) -> None:
        self._app = app
        self._token = token
        self._reviews = reviews

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] in ("http", "websocket"):
            connection = HTTPConnection(scope)
            try:
                set_viewer(connection, await self._viewer(connection))
            except RequestError as refusal:
                if scope["type"] == "websocket":
                    await WebSocketClose(1008, str(refusal))(scope, receive, send)
                else:
                    await error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _viewer(self, connection: HTTPConnection) -> Viewer:
        scope, headers = connection.scope, connection.headers
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host"):
            raise RequestError(403, f"requests of pages at {origin[:200]} are not served")
        path = scope["path"]
        public = path in PUBLIC or path.startswith(PUBLIC_BELOW)
        given = bearer_token(scope) or _named(connection)
        if self._reviews is not None:
            if public:
                return Viewer()
            # metrics are read by programs of the cluster, with the token that they have anyway
            audience = "" if path == READ_METRICS.path else self._reviews.audience
            return await ClusterViewer.of(self._reviews, given, audience)
        if self._token is None:
            if is_local(scope):
                return Viewer()
            raise RequestError(
                403,
                "without a token only this machine is served, by a loopback address: give the "
                "server a token and present it as 'Authorization: Bearer ...'",
            )
        if public:
            return Viewer()
        if given is None:
            raise RequestError(401, "this needs the server's token: 'Authorization: Bearer ...'")
        if not is_token(given, self._token):
            raise RequestError(401, "this is not the server's token", code="invalid_api_key")
        return Viewer()


def _named(connection: HTTPConnection) -> str | None:
    # browsers cannot give a WebSocket headers, but may name subprotocols
    for name in connection.headers.get("sec-websocket-protocol", "").split(","):
        if name.strip().startswith(SUBPROTOCOL):
            return name.strip().removeprefix(SUBPROTOCOL)
    return None
