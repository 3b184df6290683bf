"""The courier's way to GitHub, against a scripted GitHub over real HTTP."""

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import ValidationError
from support.certificates import make_certificates
from support.fake_github import APP_TOKEN, ME, TOKEN, FakeGithub, broken, limited
from support.webhooks import REPOSITORY

from orbiter_operator.kube.leader_election import NotLeadingError
from orbiter_triggers.courier.addresses import PrivateAddressError, PublicResolver, may_connect
from orbiter_triggers.courier.answers import MAX_ANSWER_BYTES, AnswerTooLargeError, GithubError
from orbiter_triggers.courier.client import Github
from orbiter_triggers.courier.credentials import GithubCredentials, NoCredentialError
from orbiter_triggers.courier.notify.sender import guarded_session
from orbiter_triggers.courier.rate_limits import GithubBusyError, RateLimits, pause_after
from orbiter_triggers.courier.settings import CourierSettings

LOOPBACK = (ip_network("127.0.0.0/8"),)
ISSUE = f"/repos/{REPOSITORY}/issues/12"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Way:
    """A client, its server, and what it has counted."""

    def __init__(self, github: FakeGithub, directory: Path) -> None:
        self.server = github
        self.directory = directory
        self.clock = Clock()
        self.counted: Counter[str] = Counter()
        self.credentials = GithubCredentials(directory, self.clock)

    def client(self, url: str = "", **options: Any) -> Github:
        ours: dict[str, Any] = {"private": LOOPBACK, "write_pause": 0.0}
        return Github(
            url or self.server.url,
            self.credentials,
            count=lambda outcome: self.counted.update([outcome]),
            clock=self.clock,
            **ours | options,
        )


@pytest.fixture
async def way(tmp_path: Path) -> AsyncIterator[Way]:
    server = FakeGithub()
    await server.start()
    server.open_issue(12)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    yield Way(server, tmp_path)
    await server.stop()


async def test_what_has_not_changed_is_not_told_again(way: Way) -> None:
    async with way.client() as github:
        first = await github.get(ISSUE)
        assert (first.status, first.body["number"]) == (200, 12)
        again = await github.get(ISSUE, etag=first.etag)
        assert (again.status, again.body) == (304, None)
    assert way.counted == {"2xx": 1, "unchanged": 1}


async def test_after_a_secondary_limit_nothing_is_asked_until_it_says_so(way: Way) -> None:
    way.server.faults.append(lambda: limited(30))
    async with way.client() as github:
        with pytest.raises(GithubBusyError) as caught:
            await github.get(ISSUE)
        assert caught.value.seconds == 30
        way.clock.now += 29
        with pytest.raises(GithubBusyError):
            await github.get(ISSUE)
        assert way.server.requests.total() == 1
        way.clock.now += 2
        assert (await github.get(ISSUE)).status == 200


async def test_when_no_request_remains_the_hour_is_waited_for(way: Way) -> None:
    way.server.headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1000100"}
    async with way.client() as github:
        assert (await github.get(ISSUE)).status == 200
        with pytest.raises(GithubBusyError) as caught:
            await github.get(ISSUE)
        assert caught.value.seconds == 100


async def test_a_limit_that_ends_in_a_thousand_years_holds_for_an_hour(way: Way) -> None:
    way.server.headers = {"X-RateLimit-Remaining": "150", "X-RateLimit-Reset": "9" * 12}
    async with way.client() as github:
        await github.get(ISSUE)
        with pytest.raises(GithubBusyError):
            await github.get(ISSUE, reserved=200)
        way.clock.now += 3601
        await github.get(ISSUE, reserved=200)


async def test_an_etag_that_is_no_text_is_none(way: Way) -> None:
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\nETag: \xff\r\n\r\n{}"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with way.client(f"http://127.0.0.1:{port}") as github:
            assert (await github.get(ISSUE)).etag == ""


async def test_a_poll_leaves_requests_to_comments(way: Way) -> None:
    way.server.headers = {"X-RateLimit-Remaining": "150", "X-RateLimit-Reset": "1000100"}
    async with way.client() as github:
        await github.get(ISSUE, reserved=200)
        with pytest.raises(GithubBusyError):
            await github.get(ISSUE, reserved=200)
        await github.send("POST", f"{ISSUE}/comments", {"body": "x"})


@pytest.mark.parametrize(
    ("status", "headers", "message", "pause"),
    [
        (200, {}, "", None),
        (200, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1050"}, "", 50),
        (200, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9" * 12}, "", 3600),
        (403, {}, "Resource not accessible by integration", None),
        (403, {}, "You have exceeded a secondary rate limit", 60),
        (403, {"Retry-After": "7"}, "", 7),
        (403, {"Retry-After": "99999"}, "", 3600),
        (403, {"Retry-After": "-7"}, "", None),
        (429, {}, "", 60),
        (429, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, "", 60),
    ],
)
def test_how_long_it_wants_to_be_left_alone(
    status: int, headers: dict[str, str], message: str, pause: float | None
) -> None:
    assert pause_after(status, headers, message, 1000.0) == pause


def test_a_limit_that_says_no_time_is_waited_for_longer_each_time() -> None:
    clock = Clock()
    limits, pauses = RateLimits(clock), []
    for _ in range(3):
        with pytest.raises(GithubBusyError) as caught:
            limits.learn(429, {}, "")
        pauses.append(caught.value.seconds)
        clock.now += caught.value.seconds
    assert pauses == [60, 120, 240]


async def test_a_server_that_fails_is_asked_later(way: Way) -> None:
    way.server.faults.append(broken)
    async with way.client() as github:
        with pytest.raises(GithubBusyError, match="502"):
            await github.get(ISSUE)
        assert (await github.get(ISSUE)).status == 200
        await way.server.stop()
        with pytest.raises(GithubBusyError, match="cannot be reached"):
            await github.get(ISSUE)


async def test_a_redirect_is_not_followed_and_its_target_is_told_no_token(way: Way) -> None:
    other = FakeGithub()
    await other.start()
    way.server.faults.append(
        lambda: web.Response(status=302, headers={"Location": f"{other.url}/secrets"})
    )
    async with way.client() as github:
        with pytest.raises(GithubError, match="no redirect is followed"):
            await github.get(ISSUE)
    assert other.requests.total() == 0
    await other.stop()


async def test_a_large_answer_is_not_read_to_its_end(way: Way) -> None:
    way.server.faults.append(lambda: web.Response(body=b" " * (MAX_ANSWER_BYTES + 1)))
    async with way.client() as github:
        with pytest.raises(AnswerTooLargeError):
            await github.get(ISSUE)
        assert (await github.get(ISSUE)).status == 200
    assert way.counted["oversized"] == 1


@pytest.mark.parametrize(
    ("body", "headers", "error"),
    [
        (b"{", {}, GithubBusyError),
        (b"", {}, GithubBusyError),
        (b'{"a":NaN}', {}, GithubBusyError),
        (b"[" * 5000, {}, GithubBusyError),
        (b"[" + b"0," * 200_001 + b"0]", {}, GithubBusyError),
        (b"\x1f\x8b", {"Content-Encoding": "gzip"}, GithubError),
    ],
)
async def test_what_cannot_be_read_is_no_answer(
    way: Way, body: bytes, headers: dict[str, str], error: type[Exception]
) -> None:
    way.server.faults.append(lambda: web.Response(body=body, headers=headers))
    async with way.client() as github:
        with pytest.raises(error):
            await github.get(ISSUE)


async def test_a_name_that_leads_to_a_private_address_is_not_connected_to(way: Way) -> None:
    url = f"http://localhost:{way.server.port}"
    async with way.client(url, private=()) as github:
        with pytest.raises(GithubBusyError, match="no public address"):
            await github.get(ISSUE)
    assert way.server.requests.total() == 0
    assert way.counted == {"private": 1}
    async with way.client(url) as github:
        assert (await github.get(ISSUE)).status == 200


class Rebinding(AbstractResolver):
    """A name that is public when it is looked at, and private a moment later."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = list(addresses)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=one, port=port, family=family, proto=0, flags=0)
            for one in self._addresses
        ]

    async def close(self) -> None:
        return None


async def test_of_several_addresses_the_public_ones_are_left() -> None:
    found = await PublicResolver(Rebinding("10.0.0.1", "8.8.8.8"), ()).resolve("x", 443)
    assert [one["host"] for one in found] == ["8.8.8.8"]
    with pytest.raises(PrivateAddressError):
        await PublicResolver(Rebinding("10.0.0.1"), ()).resolve("x", 443)


async def test_names_that_nobody_answers_for_keep_no_thread_from_anybody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known, answered = socket.getaddrinfo, threading.Event()

    def slow(host: Any, *more: Any, **named: Any) -> Any:
        if str(host).endswith(".example"):
            answered.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "nobody answers")
        return known(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    try:
        async with guarded_session(()) as session:
            short = aiohttp.ClientTimeout(total=0.2)
            tries = [session.post(f"https://n{n}.example/", timeout=short) for n in range(40)]
            failed = await asyncio.gather(*tries, return_exceptions=True)
            assert all(isinstance(error, TimeoutError) for error in failed)
            async with asyncio.timeout(5):
                assert await asyncio.to_thread(str) == ""
    finally:
        answered.set()


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("10.1.2.3", False),
        ("127.0.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::a00:1", False),
        ("2002:a00:1::", False),
        ("64:ff9b:1::a00:1", False),
        ("::127.0.0.1", False),
        ("::ffff:0:10.0.0.1", False),
        ("fec0::1", False),
        ("ff0e::1", False),
        ("168.63.129.16", False),
        ("::ffff:168.63.129.16", False),
        ("github.example", False),
        ("", False),
    ],
)
def test_which_addresses_are_public(address: str, allowed: bool) -> None:
    assert may_connect(address, ()) is allowed


def test_a_private_address_is_allowed_where_its_network_is_named() -> None:
    assert may_connect("10.1.2.3", [ip_network("10.1.0.0/16")])
    assert may_connect("::ffff:10.1.2.3", [ip_network("10.1.0.0/16")])
    assert not may_connect("10.2.2.3", [ip_network("10.1.0.0/16")])


async def test_an_app_has_tokens_of_an_hour_that_its_key_makes(way: Way) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    (way.directory / "app-id").write_text("4711\n")
    (way.directory / "installation-id").write_text("99")
    (way.directory / "private-key").write_bytes(pem)
    async with way.client() as github:
        await github.get(ISSUE)
        await github.get(ISSUE)
        assert await github.login() == ME
        made = "POST /app/installations/99/access_tokens"
        assert way.server.requests[made] == 1
        told = jwt.decode(
            way.server.bearers[0], key.public_key(), ["RS256"], options={"verify_exp": False}
        )
        assert (told["iss"], told["exp"] - told["iat"]) == ("4711", 600)
        assert way.server.bearers[1:3] == [APP_TOKEN, APP_TOKEN]
        way.clock.now += 3400
        await github.get(ISSUE)
        assert way.server.requests[made] == 2


async def test_a_token_that_is_taken_back_is_read_again(way: Way) -> None:
    async with way.client() as github:
        assert (await github.get(ISSUE)).status == 200
        way.server.tokens = {"another"}
        (way.directory / "token").write_text("another")
        assert (await github.get(ISSUE)).status == 200
        way.server.tokens = set()
        with pytest.raises(GithubError, match="401"):
            await github.get(ISSUE)


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "the key token"),
        ({"token": "two words"}, "the key token"),
        ({"token": "ü"}, "the key token"),
        ({"app-id": "1", "installation-id": "1/..", "private-key": "x"}, "installation-id"),
        ({"app-id": "1", "installation-id": "1"}, "private-key"),
    ],
)
async def test_a_secret_without_a_credential_is_said_to_be_so(
    tmp_path: Path, files: dict[str, str], problem: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert problem in str(GithubCredentials(tmp_path).problem())


async def test_a_key_that_is_none_is_said_to_be_so_and_not_shown(way: Way) -> None:
    for name, text in {"app-id": "1", "installation-id": "1", "private-key": "secret"}.items():
        (way.directory / name).write_text(text)
    async with way.client() as github:
        with pytest.raises(NoCredentialError) as caught:
            await github.get(ISSUE)
    assert "private-key" in str(caught.value)
    assert "secret" not in str(caught.value).replace("Secret", "")


def settings(**given: str) -> CourierSettings:
    return CourierSettings(**{"redis_url": "redis://x"} | given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "http://api.github.com",
        "https://",
        "https://me:token@api.github.com",
        "https://10.0.0.1/api/v3",
        "https://[::1]/api/v3",
        "https://api.github.com/?x=1",
        "file:///etc/passwd",
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        settings(github_url=url)


def test_githubs_enterprise_server_may_be_in_a_network_that_is_named() -> None:
    found = settings(github_url="https://10.0.0.1/api/v3/", github_private_networks="10.0.0.0/24")
    assert found.github_url == "https://10.0.0.1/api/v3"


def test_a_namespace_has_the_repositories_that_are_named_for_it() -> None:
    given = {"team-a": ["octo-org/shop"], "team-b": ["other/*"], "*": ["open/site"]}
    found = settings(github_repositories=json.dumps(given))
    assert found.has_repository("team-a", "Octo-Org/Shop")
    assert found.has_repository("team-a", "open/site")
    assert found.has_repository("team-b", "other/anything")
    assert not found.has_repository("team-b", "octo-org/shop")
    assert not found.has_repository("team-a", "octo-org/shop2")
    assert not settings().has_repository("team-a", "octo-org/shop")


async def test_who_has_lost_the_lease_while_it_waited_its_turn_writes_nothing(way: Way) -> None:
    leading = True

    def allowed() -> None:
        if not leading:
            raise NotLeadingError("another one is")

    reading, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        reading.set()
        await go_on.wait()
        return web.json_response({})

    way.server.instead = slow
    async with way.client(allowed=allowed) as github:
        read = asyncio.create_task(github.get(ISSUE))
        await reading.wait()
        way.server.instead = None
        write = asyncio.create_task(github.send("POST", f"{ISSUE}/comments", {"body": "x"}))
        await asyncio.sleep(0)
        leading = False
        go_on.set()
        await read
        with pytest.raises(NotLeadingError):
            await write
    assert way.server.thread(12) == []


async def test_githubs_enterprise_server_may_have_a_certificate_of_a_ca_of_its_own(
    tmp_path: Path,
) -> None:
    made = make_certificates(tmp_path / "tls")
    server = FakeGithub(certificate=(made.certificate, made.key), root="/api/v3")
    await server.start()
    server.open_issue(12)
    way = Way(server, tmp_path)
    (tmp_path / "token").write_text(TOKEN)
    try:
        async with way.client(ca=str(made.ca)) as github:
            assert (await github.get(ISSUE)).body["number"] == 12
        async with way.client() as github:
            with pytest.raises(GithubBusyError, match="CertificateError"):
                await github.get(ISSUE)
    finally:
        await server.stop()
