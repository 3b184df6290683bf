"""Who may speak to the server: whoever has the token; without one, only this machine's programs.

A web page of a stranger that is open in the user's browser is on this machine too. It is told by
its Origin, and by a Host that is no address of ours (a name that was made to point here).
"""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from orbiter.access import bearer_token, is_local, is_token
from orbiter.server._internal.errors import RequestError, error_response

PUBLIC = ("/healthz", "/readyz", "/")
PUBLIC_BELOW = "/page/"
SUBPROTOCOL = "orbiter.bearer."


class Auth:
    """Middleware that lets requests through or refuses them."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] in ("http", "websocket"):
            refusal = self._refusal(scope)
            if refusal is not None:
                if scope["type"] == "websocket":
                    await WebSocketClose(1008, str(refusal))(scope, receive, send)
                else:
                    await error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> RequestError | None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host"):
            return RequestError(403, f"requests of pages at {origin[:200]} are not served")
        if self._token is None:
            return None if is_local(scope) else RequestError(
                403,
                "without a token only this machine is served, by a loopback address: give the "
                "server a token and present it as 'Authorization: Bearer ...'",
            )  # fmt: skip
        path = scope["path"]
        if path in PUBLIC or path.startswith(PUBLIC_BELOW):
            return None
        given = bearer_token(scope) or _named(headers)
        if given is None:
            return RequestError(401, "this needs the server's token: 'Authorization: Bearer ...'")
        if not is_token(given, self._token):
            return RequestError(401, "this is not the server's token", code="invalid_api_key")
        return None


def _named(headers: Headers) -> str | None:
    # browsers cannot give a WebSocket headers, but may name subprotocols
    for name in headers.get("sec-websocket-protocol", "").split(","):
        if name.strip().startswith(SUBPROTOCOL):
            return name.strip().removeprefix(SUBPROTOCOL)
    return None
