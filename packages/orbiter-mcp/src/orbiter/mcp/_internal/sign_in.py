"""Signs in to a server by the SDK's OAuth client: what it keeps, and the browser's way back."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
import webbrowser
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, ValidationError

from orbiter.listening import listen
from orbiter.mcp.oauth import OAuth
from orbiter.types import OrbiterError

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider

_HOST = "127.0.0.1"
_PATH = "/callback"
_LONGEST = 16384
_PAGE = b"You can close this window and go back to your program.\n"


class _Record(BaseModel):
    """What is kept of a server; the parts are the SDK's, as JSON.

    `expires_at` is a moment, where the token itself says a span that nobody knows the beginning of.
    """

    tokens: dict[str, Any] | None = None
    expires_at: float | None = None
    client: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


def authentication(url: str, oauth: OAuth) -> OAuthClientProvider:
    """Return what signs the requests to a server, after signing in if that has to be."""
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    way_back = _WayBack(oauth)
    redirect: Any = f"http://{_HOST}:{oauth.port}{_PATH}"
    kept = _Kept(url, oauth, redirect)
    provider = OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(
            redirect_uris=[redirect], client_name="Orbiter", scope=oauth.scope
        ),
        storage=kept,
        redirect_handler=way_back.open,
        callback_handler=way_back.wait,
    )
    kept.context = provider.context
    return provider


class _Kept:
    """The SDK's storage, in a TokenStore."""

    context: Any

    def __init__(self, url: str, oauth: OAuth, redirect: str) -> None:
        self._url = url
        self._oauth = oauth
        self._redirect = redirect

    async def get_tokens(self) -> Any:
        from mcp.shared.auth import OAuthMetadata, OAuthToken

        record = await self._load()
        if record.tokens is None:
            return None
        # the SDK asks for neither; without them an old token is taken for a new one, and the
        # place where it is renewed is guessed
        self.context.token_expiry_time = record.expires_at
        with contextlib.suppress(ValidationError):
            if record.metadata is not None:
                self.context.oauth_metadata = OAuthMetadata.model_validate(record.metadata)
            return OAuthToken.model_validate(record.tokens)
        return None

    async def set_tokens(self, tokens: Any) -> None:
        record = await self._load()
        span = tokens.expires_in
        metadata = self.context.oauth_metadata
        await self._save(
            record.model_copy(
                update={
                    "tokens": tokens.model_dump(mode="json"),
                    "expires_at": None if span is None else time.time() + span,
                    "metadata": metadata and metadata.model_dump(mode="json", exclude_none=True),
                }
            )
        )

    async def get_client_info(self) -> Any:
        from mcp.shared.auth import OAuthClientInformationFull

        oauth = self._oauth
        if oauth.client_id is not None:
            given = {"client_id": oauth.client_id, "client_secret": oauth.client_secret}
            how = "none" if oauth.client_secret is None else "client_secret_post"
            return OAuthClientInformationFull.model_validate(
                {**given, "redirect_uris": [self._redirect], "token_endpoint_auth_method": how}
            )
        record = await self._load()
        with contextlib.suppress(ValidationError):
            if record.client is not None:
                return OAuthClientInformationFull.model_validate(record.client)
        return None

    async def set_client_info(self, client_info: Any) -> None:
        record = await self._load()
        told = client_info.model_dump(mode="json", exclude_none=True)
        await self._save(record.model_copy(update={"client": told}))

    async def _load(self) -> _Record:
        text = await self._oauth.store.load(self._url)
        try:
            return _Record() if text is None else _Record.model_validate_json(text)
        except ValidationError:
            # what cannot be read is asked for again
            return _Record()

    async def _save(self, record: _Record) -> None:
        await self._oauth.store.save(self._url, record.model_dump_json(exclude_none=True))


class _WayBack:
    """Sends a person to the server's page, and hears from the browser when it is done."""

    def __init__(self, oauth: OAuth) -> None:
        self._oauth = oauth
        self._answer: asyncio.Future[dict[str, str]] | None = None
        self._server: asyncio.Server | None = None

    async def open(self, url: str) -> None:
        """Listen for the browser, and show the page."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise OrbiterError(f"its page to sign in has no web address: {url!r:.80}")
        self._answer = asyncio.get_running_loop().create_future()
        opened = listen(_HOST, self._oauth.port)
        self._server = await asyncio.start_server(self._serve, sock=opened, limit=_LONGEST)
        try:
            shown = (self._oauth.on_url or _browse)(url)
            if inspect.isawaitable(shown):
                await shown
        except BaseException:
            await self._close()
            raise

    async def wait(self) -> Any:
        """Return what the browser has brought."""
        from mcp.client.auth import AuthorizationCodeResult

        assert self._answer is not None  # noqa: S101 - the SDK opens before it waits
        try:
            async with asyncio.timeout(self._oauth.timeout):
                told = await self._answer
        except TimeoutError as error:
            raise OrbiterError(f"nobody signed in within {self._oauth.timeout:g} s") from error
        finally:
            await self._close()
        if "code" not in told:
            why = told.get("error_description") or told.get("error") or "no reason"
            raise OrbiterError(f"signing in was refused: {why:.200}")
        return AuthorizationCodeResult(
            code=told["code"], state=told.get("state"), iss=told.get("iss")
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            words = head.split(b" ", 2)
            address = urlsplit(words[1].decode("ascii", "replace"))
            told = {name: values[0] for name, values in _query(address.query).items()}
            found = (
                words[0] == b"GET" and address.path == _PATH and ("code" in told or "error" in told)
            )
            status = b"200 OK" if found else b"404 Not Found"
            writer.write(
                b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (status, len(_PAGE), _PAGE)
            )
            await writer.drain()
            if found and self._answer is not None and not self._answer.done():
                self._answer.set_result(told)
        except (
            OSError,
            ValueError,
            IndexError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ):
            # whatever that was, it was no browser that comes back
            pass
        finally:
            writer.close()

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


def _query(text: str) -> dict[str, list[str]]:
    return parse_qs(text, max_num_fields=20)


def _browse(url: str) -> Any:
    return asyncio.to_thread(webbrowser.open, url)
