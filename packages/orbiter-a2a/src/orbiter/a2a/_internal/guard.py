"""Who may speak to an A2A server: whoever has the token; without one, this machine's programs."""

import hmac
import ipaddress

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

CARD = "/.well-known/agent-card.json"
_PROXIED = ("forwarded", "x-forwarded-for", "x-real-ip")


class Guard:
    """Middleware that lets requests through or refuses them; the card is for everybody."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refusal(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        if self._token is None:
            if _local(scope, headers):
                return None
            said = "without a token only this machine is served, by a loopback address"
            return JSONResponse({"error": said}, 403)
        if scope["path"].endswith(CARD):
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(
            given.strip().encode(), self._token.encode()
        ):
            return None
        said = "this needs the agent's token: 'Authorization: Bearer ...'"
        return JSONResponse({"error": said}, 401, {"WWW-Authenticate": 'Bearer realm="a2a"'})


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
    # a page of a stranger in the user's browser is on this machine too: it has an Origin, or a Host
    # that was made to point here
    if "origin" in headers or any(name in headers for name in _PROXIED):
        return False
    ends = [end[0] for end in (scope.get("client"), scope.get("server")) if end]
    host = headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return len(ends) == 2 and all(map(is_loopback, [*ends, name]))
