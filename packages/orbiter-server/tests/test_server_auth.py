"""Who is served: with the token anybody, without one this machine's programs."""

import httpx
import pytest

from orbiter import Agent
from orbiter.server import ServerConfig, create_app
from orbiter.server.main import TOKEN_VARIABLE, with_token
from orbiter.types import OrbiterError

TOKEN = "correct-horse"
AGENTS = {"helper": Agent(name="helper")}
PUBLIC = ["/", "/healthz", "/readyz", "/page/app.js"]
PROTECTED = [
    "/v1/agents", "/v1/sessions", "/v1/tasks", "/v1/models", "/v1/cluster/tasks",
    "/openapi.json", "/metrics",
]  # fmt: skip


def client(tmp_path, token, *, peer="127.0.0.1", host="127.0.0.1:8000"):
    app = create_app(AGENTS, config=ServerConfig(directory=tmp_path, token=token))
    transport = httpx.ASGITransport(app, client=(peer, 1234))
    return httpx.AsyncClient(transport=transport, base_url=f"http://{host}")


@pytest.mark.parametrize("path", PROTECTED)
async def test_without_the_token_nothing_is_told(tmp_path, path):
    async with client(tmp_path, TOKEN) as http:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}):
            answer = await http.get(path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert "helper" not in answer.text


@pytest.mark.parametrize("path", PUBLIC)
async def test_health_and_the_empty_page_need_no_token(tmp_path, path):
    async with client(tmp_path, TOKEN, peer="192.0.2.7", host="orbiter.example") as http:
        assert (await http.get(path)).status_code == 200


async def test_with_the_token_a_client_is_served_from_anywhere(tmp_path):
    async with client(tmp_path, TOKEN, peer="192.0.2.7", host="orbiter.example") as http:
        answer = await http.get("/v1/agents", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "[::1]:8000"])
async def test_without_a_token_this_machine_is_served(tmp_path, host):
    async with client(tmp_path, None, host=host) as http:
        assert (await http.get("/v1/agents")).status_code == 200


@pytest.mark.parametrize(
    ("peer", "headers"),
    [
        ("192.0.2.7", {}),
        ("127.0.0.1", {"Host": "evil.example"}),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7"}),
        ("127.0.0.1", {"Origin": "https://evil.example"}),
        ("127.0.0.1", {"Origin": "null"}),
    ],
)
async def test_without_a_token_others_and_foreign_pages_are_refused(tmp_path, peer, headers):
    async with client(tmp_path, None, peer=peer) as http:
        answer = await http.get("/v1/agents", headers=headers)
        assert answer.status_code == 403
        assert "helper" not in answer.text


async def test_the_page_is_strict_about_what_it_loads(tmp_path):
    async with client(tmp_path, TOKEN) as http:
        policy = (await http.get("/")).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert (await http.get("/page/..%2Fapp.py")).status_code == 404


def test_outside_of_loopback_a_token_is_made_and_kept_in_a_private_file(tmp_path, caplog):
    config = ServerConfig(directory=tmp_path / "server")
    first = with_token(config, "0.0.0.0", {})
    file = tmp_path / "server" / "token"
    assert first.token.get_secret_value() == file.read_text()
    assert len(file.read_text()) > 40
    assert file.stat().st_mode & 0o777 == 0o600
    assert with_token(config, "::", {}).token == first.token
    assert str(file) in caplog.text
    assert file.read_text() not in caplog.text
    assert file.read_text() not in repr(first)


def test_a_given_token_outranks_the_environment_and_loopback_needs_none(tmp_path):
    config = ServerConfig(directory=tmp_path)
    assert with_token(config, "localhost", {}).token is None
    named = with_token(config, "127.0.0.1", {TOKEN_VARIABLE: "abc"})
    assert named.token.get_secret_value() == "abc"
    given = with_token(ServerConfig(token="own"), "0.0.0.0", {TOKEN_VARIABLE: "abc"})
    assert given.token.get_secret_value() == "own"
    for bad in ("no good", "", "schön"):
        with pytest.raises(OrbiterError, match="printable"):
            with_token(ServerConfig(token=bad), "localhost", {})
