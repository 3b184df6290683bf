"""Who may use a server over HTTP."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from orbiter.access import bearer_token, is_token

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_REFUSAL = b'{"error":"unauthorized: send the header Authorization: Bearer <token>"}'


class BearerToken:
    """ASGI middleware that lets nobody in without the token."""

    def __init__(self, app: Application, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        if scope["type"] != "http" or is_token(bearer_token(scope), self._token):
            await self._app(scope, receive, send)
            return
        headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": _REFUSAL})
