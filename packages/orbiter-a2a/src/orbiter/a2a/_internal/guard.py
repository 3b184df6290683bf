"""Who may speak to an A2A server: whoever has the token; without one, this machine's programs."""

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from orbiter.access import bearer_token, header, is_local, is_token

CARD = "/.well-known/agent-card.json"


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
        if self._token is None:
            # a page of a stranger in the user's browser is on this machine too: it has an Origin
            if is_local(scope) and header(scope, "origin") is None:
                return None
            said = "without a token only this machine is served, by a loopback address"
            return JSONResponse({"error": said}, 403)
        if scope["path"].endswith(CARD):
            return None
        if is_token(bearer_token(scope), self._token):
            return None
        said = "this needs the agent's token: 'Authorization: Bearer ...'"
        return JSONResponse({"error": said}, 401, {"WWW-Authenticate": 'Bearer realm="a2a"'})
