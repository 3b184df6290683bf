"""Signing in to servers that want it: the SDK's own authorization server, and a person."""

import asyncio
import json
import secrets
import stat
import time
from contextlib import asynccontextmanager, nullcontext
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthToken

from orbiter import tool
from orbiter.listening import listen, url_of
from orbiter.mcp import (
    FileTokenStore,
    HttpServer,
    MCPClient,
    MCPConfigError,
    MCPConnectionError,
    MCPServer,
    OAuth,
    load_config,
)


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Granting:
    """An authorization server that grants what is asked for; counts what it is asked."""

    def __init__(self) -> None:
        self.clients, self.codes, self.access, self.refresh = {}, {}, {}, {}
        self.asked: list[str] = []
        self.refuses = False
        self.seconds = 3600

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.asked.append("register")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        self.asked.append("authorize")
        redirect = str(params.redirect_uri)
        if self.refuses:
            return construct_redirect_uri(redirect, error="access_denied", state=params.state)
        code = secrets.token_hex(8)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=True,
            resource=params.resource,
        )
        return construct_redirect_uri(redirect, code=code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        self.asked.append("exchange")
        return self._grant(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client, refresh_token):
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        self.asked.append("refresh")
        return self._grant(client, scopes, refresh_token.resource)

    async def load_access_token(self, token):
        return self.access.get(token)

    async def revoke_token(self, token):
        pass

    def _grant(self, client, scopes, resource):
        access, refresh = secrets.token_hex(8), secrets.token_hex(8)
        end = int(time.time() + self.seconds)
        common = {"client_id": client.client_id, "scopes": scopes, "resource": resource}
        self.access[access] = AccessToken(token=access, expires_at=end, **common)
        self.refresh[refresh] = RefreshToken(token=refresh, **common)
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=self.seconds,
            scope=" ".join(scopes),
        )  # fmt: skip


class Beside(uvicorn.Server):
    """A server in the test's loop, which leaves Ctrl-C to that loop."""

    capture_signals = nullcontext


@asynccontextmanager
async def served(granting):
    opened = listen("127.0.0.1", 0)
    url = url_of("127.0.0.1", opened)
    app = MCPServer(add).sdk_server.streamable_http_app(
        auth=AuthSettings(
            issuer_url=url,
            resource_server_url=f"{url}/mcp",
            required_scopes=["sums"],
            validate_token_resource=True,
            client_registration_options=ClientRegistrationOptions(
                enabled=True, valid_scopes=["sums"], default_scopes=["sums"]
            ),
        ),
        auth_server_provider=granting,
        token_verifier=ProviderTokenVerifier(granting),
    )
    server = Beside(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve(sockets=[opened]))
    try:
        yield f"{url}/mcp"
    finally:
        server.should_exit = True
        await serving


@pytest.fixture
async def granting():
    return Granting()


@pytest.fixture
async def url(granting):
    async with served(granting) as address:
        yield address


def free_port() -> int:
    with listen("127.0.0.1", 0) as opened:
        return opened.getsockname()[1]


async def person(url):
    """Open a page as a browser does, and say yes."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        answer = await browser.get(url)
        assert answer.text.startswith("You can close this window")


@pytest.fixture
def oauth(tmp_path):
    return OAuth(
        store=FileTokenStore(tmp_path / "tokens"), port=free_port(), on_url=person, timeout=20
    )


async def sums(url, oauth):
    async with MCPClient(HttpServer(url=url, oauth=oauth), name="sums") as client:
        return (await client.call_tool("add", {"a": 1, "b": 2})).content


async def test_a_person_signs_in_once_and_the_tokens_are_kept(granting, url, oauth):
    assert await sums(url, oauth) == "3"
    assert granting.asked == ["register", "authorize", "exchange"]
    assert await sums(url, oauth) == "3"
    assert granting.asked == ["register", "authorize", "exchange"]


async def test_a_token_that_is_old_is_renewed_without_a_person(granting, url, oauth, tmp_path):
    await sums(url, oauth)
    [file] = (tmp_path / "tokens").iterdir()
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "expires_at": time.time() - 1}))
    assert await sums(url, oauth) == "3"
    assert granting.asked == ["register", "authorize", "exchange", "refresh"]


async def test_what_is_kept_is_its_owner_s_alone(granting, url, oauth, tmp_path):
    await sums(url, oauth)
    [file] = (tmp_path / "tokens").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("kept", [b"{no json", b"\xff\xfe", b"", b"[" * 100_000])
async def test_what_cannot_be_read_is_asked_for_again(granting, url, oauth, tmp_path, kept):
    await sums(url, oauth)
    [file] = (tmp_path / "tokens").iterdir()
    file.write_bytes(kept)
    assert await sums(url, oauth) == "3"
    assert granting.asked.count("authorize") == 2


async def test_a_person_who_says_no_is_the_error(granting, url, oauth):
    granting.refuses = True
    with pytest.raises(MCPConnectionError, match="reached: signing in was refused: access_denied"):
        await sums(url, oauth)


async def test_nobody_signs_in(url, tmp_path):
    store = FileTokenStore(tmp_path)
    oauth = OAuth(store=store, port=free_port(), on_url=lambda url: None, timeout=0.05)
    with pytest.raises(MCPConnectionError, match=r"nobody signed in within 0\.05 s"):
        await sums(url, oauth)


async def test_the_answer_to_somebody_else_s_question_is_refused(url, tmp_path):
    async def attacker(address):
        [back] = parse_qs(urlsplit(address).query)["redirect_uri"]
        async with httpx2.AsyncClient() as browser:
            await browser.get(f"{back}?{urlencode({'code': 'x', 'state': 'y'})}")

    oauth = OAuth(store=FileTokenStore(tmp_path), port=free_port(), on_url=attacker, timeout=20)
    with pytest.raises(MCPConnectionError, match=r"(?i)state"):
        await sums(url, oauth)


async def test_other_pages_of_the_way_back_are_none(url, tmp_path):
    statuses = []

    async def curious(address):
        [back] = parse_qs(urlsplit(address).query)["redirect_uri"]
        async with httpx2.AsyncClient() as browser:
            for path in ("favicon.ico", "callback"):
                page = await browser.get(back.replace("callback", path))
                statuses.append(page.status_code)
        await person(address)

    oauth = OAuth(store=FileTokenStore(tmp_path), port=free_port(), on_url=curious, timeout=20)
    assert await sums(url, oauth) == "3"
    assert statuses == [404, 404]


def test_a_config_says_how_to_sign_in():
    entry = {"url": "https://tools.example.com/mcp", "oauth": {"clientId": "c", "scope": "sums"}}
    found = load_config({"mcpServers": {"a": entry, "b": {**entry, "oauth": True}}})
    assert (found["a"].oauth.client_id, found["a"].oauth.scope) == ("c", "sums")
    assert found["b"].oauth == OAuth(store=found["b"].oauth.store)


def test_secrets_are_in_no_repr():
    shown = repr(
        HttpServer(url="https://x/mcp", oauth=OAuth(client_id="c", client_secret="s3cret"))
    )
    assert "s3cret" not in shown


@pytest.mark.parametrize(
    ("given", "told"),
    [({"port": 0}, "give a port"), ({"client_secret": "s"}, "needs the client_id=")],
)
def test_what_makes_no_sense_is_refused(given, told):
    with pytest.raises(MCPConfigError, match=told) as refused:
        OAuth(**given)
    assert "s3cret" not in str(refused.value)
