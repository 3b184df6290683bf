"""Who may speak to the server: whoever has the token; without one, only this machine's programs.

A web page of a stranger that is open in the user's browser is on this machine too. It is told by
its Origin, and by a Host that is no address of ours (a name that was made to point here).
"""

import hmac
import ipaddress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from orbiter.server._internal.errors import RequestError, error_response

PUBLIC = ("/healthz", "/readyz", "/")
PUBLIC_BELOW = "/page/"
SUBPROTOCOL = "orbiter.bearer."
_PROXIED = ("forwarded", "x-forwarded-for", "x-real-ip")


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
            return None if _local(scope, headers) else RequestError(
                403,
                "without a token only this machine is served, by a loopback address: give the "
                "server a token and present it as 'Authorization: Bearer ...'",
            )  # fmt: skip
        path = scope["path"]
        if path in PUBLIC or path.startswith(PUBLIC_BELOW):
            return None
        given = _token_in(headers)
        if given is None:
            return RequestError(401, "this needs the server's token: 'Authorization: Bearer ...'")
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return RequestError(401, "this is not the server's token", code="invalid_api_key")
        return None


def is_loopback(host: str) -> bool:
    """Say whether a host's name or address means this machine only."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _local(scope: Scope, headers: Headers) -> bool:
    if any(name in headers for name in _PROXIED):
        return False
    ends = [end[0] for end in (scope.get("client"), scope.get("server")) if end]
    host = headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return len(ends) == 2 and all(map(is_loopback, [*ends, name]))


def _token_in(headers: Headers) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    # browsers cannot give a WebSocket headers, but may name subprotocols
    for name in headers.get("sec-websocket-protocol", "").split(","):
        if name.strip().startswith(SUBPROTOCOL):
            return name.strip().removeprefix(SUBPROTOCOL)
    return None
