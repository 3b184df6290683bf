"""The receiver over real HTTP, with a real Redis behind it."""

import asyncio
import contextlib
import io
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.redis_server import RedisServer
from support.webhooks import MASTER_KEY, commented, github_request, pushed, standard_request

from orbiter_contracts import decode
from orbiter_contracts.queues import Keys
from orbiter_contracts.trigger_events import MAX_BODY_BYTES, TriggerEvent
from orbiter_contracts.webhook_signatures import Hook, signed_body
from orbiter_operator.streams.client import redis_client
from orbiter_triggers.event_stream import KEPT_SECONDS, EventStream
from orbiter_triggers.receiver.app import Receiver

pytestmark = pytest.mark.integration
HOOK = Hook("team", "fixes", "github", "9f1c-1")
STREAM = Keys.of_namespace("team").trigger_events
MANY = 8


class Door:
    """A receiver, and who knocks."""

    def __init__(self, redis: Redis, url: str) -> None:
        self.redis = redis
        self.url = url
        self.counted: Counter[str] = Counter()
        self.port = 0
        self.clients: list[Redis] = []

    def stream(self, url: str = "", **bounds: int) -> EventStream:
        self.clients.append(redis_client(url or self.url))
        return EventStream(self.clients[-1], **bounds)

    def receiver(self, **options: Any) -> Receiver:
        ours: dict[str, Any] = {
            "stream": options.get("stream") or self.stream(),
            "master_key": MASTER_KEY,
            "generation": 1,
            "count": lambda outcome: self.counted.update([outcome]),
            "most": MANY,
            "head_seconds": 60.0,
            "body_seconds": 60.0,
        }
        return Receiver(**ours | options)

    async def post(
        self, headers: dict[str, str], body: Any, path: str = HOOK.path, method: str = "POST"
    ) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.port}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, data=body, headers=headers) as response,
        ):
            return response.status, json.loads(await response.text())

    async def say(self, *parts: bytes) -> bytes:
        """What comes back until it ends, after some bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for part in parts:
            writer.write(part)
        await writer.drain()
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        await writer.wait_closed()
        return answer

    async def events(self) -> list[TriggerEvent]:
        return [decode(TriggerEvent, fields) for _, fields in await self.redis.xrange(STREAM)]


@pytest.fixture
async def door(redis: Redis, redis_server: RedisServer) -> AsyncIterator[Door]:
    made = Door(redis, redis_server.url)
    async with made.receiver().listen(0) as made.port:
        yield made
    for client in made.clients:
        await client.aclose()


async def test_a_signed_request_is_accepted_when_redis_has_the_event(door: Door) -> None:
    status, answer = await door.post(*github_request(HOOK, "issue_comment", commented()))
    assert (status, answer) == (202, {"accepted": True})
    [event] = await door.events()
    assert (event.trigger, event.uid, event.kind) == ("fixes", "9f1c-1", "issue_comment.created")
    assert 0 < await door.redis.ttl(STREAM) <= KEPT_SECONDS


async def test_standard_webhooks_come_in_at_an_address_of_their_own(door: Door) -> None:
    hook = HOOK._replace(scheme="standard-webhooks")
    status, _ = await door.post(*standard_request(hook, {"type": "x"}), path=hook.path)
    assert status == 202


async def test_what_is_refused_has_one_reason_and_leaves_nothing(door: Door) -> None:
    headers, body = github_request(HOOK, "push", pushed())
    assert (await door.post(headers, body + b" "))[0] == 401
    hook = HOOK._replace(scheme="standard-webhooks")
    status, answer = await door.post(*standard_request(hook, {}, at=1.0), path=hook.path)
    assert (status, answer["error"]) == (401, "replayed")
    nonsense = b"{"
    signed = {"X-Hub-Signature-256": signed_body(HOOK.secret(MASTER_KEY), nonsense)}
    status, answer = await door.post(signed | {"X-GitHub-Event": "push"}, nonsense)
    assert (status, answer["error"]) == (400, "malformed")
    assert await door.events() == []
    assert door.counted == {"forged": 1, "replayed": 1, "malformed": 1}


async def test_a_large_body_is_not_read_to_its_end(door: Door) -> None:
    status, answer = await door.post({}, io.BytesIO(b"x" * (MAX_BODY_BYTES + 1)))
    assert (status, answer["error"]) == (413, "oversized")

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 65536 + 1):
            yield b"x" * 65536

    assert (await door.post({}, parts()))[0] == 413
    assert door.counted == {"oversized": 2}


@pytest.mark.parametrize("path", ["/", "/v1/triggers/team/fixes/github", f"{HOOK.path}/x", "/%00"])
async def test_there_is_nothing_at_other_addresses(door: Door, path: str) -> None:
    assert (await door.post({}, b"", path=path))[0] == 404
    assert (await door.post({}, None, method="GET"))[0] == 405


async def test_curl_that_waits_to_be_asked_for_the_body_is_asked(door: Door) -> None:
    headers, body = github_request(HOOK, "push", pushed())
    status, _ = await door.post(headers | {"Expect": "100-continue"}, body)
    assert status == 202


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\n\r\n\r\n", b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nA: " + b"x" * 9000],
)
async def test_what_is_no_http_is_malformed(door: Door, garbage: bytes) -> None:
    assert b" 400 " in (await door.say(garbage))
    assert door.counted == {"malformed": 1}


HEAD = f"POST {HOOK.path} HTTP/1.1\r\nHost: x\r\n".encode()


@pytest.mark.parametrize(
    ("sent", "options"),
    [
        (HEAD, {"head_seconds": 0.05}),
        (HEAD + b"Content-Length: 9\r\n\r\n{", {"body_seconds": 0.05}),
    ],
)
async def test_who_sends_slowly_is_told_so_and_sent_away(
    door: Door, sent: bytes, options: dict[str, float]
) -> None:
    async with door.receiver(**options).listen(0) as door.port:
        assert (await door.say(sent)).startswith(b"HTTP/1.1 408 ")
    assert door.counted == {"slow": 1}


async def test_silent_connections_keep_nobody_out(door: Door) -> None:
    opened = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(MANY * 3)]
    await eventually(lambda: door.counted["surplus"] == MANY * 2)
    status, _ = await door.post(*github_request(HOOK, "push", pushed()))
    assert status == 202
    for _, writer in opened:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_full_stream_is_said_to_be_full_and_takes_more_when_it_has_room(
    door: Door,
) -> None:
    bounds = {"stream": door.stream(most=2)}
    async with door.receiver(**bounds).listen(0) as door.port:
        for expected in (202, 202, 503):
            status, answer = await door.post(*github_request(HOOK, "push", pushed()))
            assert status == expected
        assert answer["error"] == "full"
        other = HOOK._replace(namespace="other")
        request = github_request(other, "push", pushed())
        assert (await door.post(*request, path=other.path))[0] == 202
        assert door.counted["full"] == 1
        [first, _] = await door.redis.xrange(STREAM)
        await door.redis.xdel(STREAM, first[0])
        assert (await door.post(*github_request(HOOK, "push", pushed())))[0] == 202


async def test_a_stream_is_full_by_its_bytes_too(door: Door) -> None:
    bounds = {"stream": door.stream(most_bytes=30_000)}
    async with door.receiver(**bounds).listen(0) as door.port:
        body = commented(body="é" * 9000)
        for _ in range(3):
            status, _ = await door.post(*github_request(HOOK, "issue_comment", body))
        assert status == 503
    assert (await door.redis.xlen(STREAM)) < 3


async def test_small_events_hide_no_large_ones_behind_them(door: Door) -> None:
    most = 100_000
    async with door.receiver(stream=door.stream(most_bytes=most)).listen(0) as door.port:
        for _ in range(60):
            await door.post(*github_request(HOOK, "issue_comment", commented(body="x")))
        large = github_request(HOOK, "issue_comment", commented(body="é" * 9000))
        answers = [(await door.post(*large))[0] for _ in range(12)]
    assert answers[-1] == 503
    assert await door.redis.memory_usage(STREAM, samples=0) < most + 25_000


async def test_without_redis_the_sender_is_to_come_again(
    door: Door, own_redis_server: RedisServer
) -> None:
    stream = door.stream(own_redis_server.url)
    async with door.receiver(stream=stream).listen(0) as door.port:
        own_redis_server.kill()
        status, answer = await door.post(*github_request(HOOK, "push", pushed()))
        assert (status, answer["error"]) == (503, "unavailable")
        own_redis_server.start()
        assert (await door.post(*github_request(HOOK, "push", pushed())))[0] == 202


async def test_the_secret_of_the_generation_before_opens_too(door: Door) -> None:
    async with door.receiver(generation=3).listen(0) as door.port:
        found = {}
        for number in (1, 2, 3, 4):
            secret = HOOK.secret(MASTER_KEY, number)
            request = github_request(HOOK, "push", pushed(), secret=secret)
            found[number] = (await door.post(*request))[0]
    assert found == {1: 401, 2: 202, 3: 202, 4: 401}


async def test_the_program_serves_until_it_is_told_to_stop(
    redis: Redis, redis_server: RedisServer, tmp_path: Path
) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "ORBITER_REDIS_URL": redis_server.url,
        "ORBITER_WEBHOOK_MASTER_KEY": MASTER_KEY,
        **{f"ORBITER_{name}_PORT": "0" for name in ("WEBHOOK", "HEALTH", "METRICS")},
    }
    log = tmp_path / "log"
    with log.open("wb") as file:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "orbiter_triggers.receiver", env=environment, stderr=file
        )
    try:
        await eventually(lambda: '"serving"' in log.read_text())
        [line] = [each for each in log.read_text().splitlines() if '"serving"' in each]
        knocks = Door(redis, redis_server.url)
        knocks.port = json.loads(line)["port"]
        assert (await knocks.post(*github_request(HOOK, "push", pushed())))[0] == 202
        assert MASTER_KEY not in log.read_text()
        assert HOOK.secret(MASTER_KEY) not in log.read_text()
    finally:
        program.terminate()
    assert await program.wait() == 0


async def test_without_a_master_key_it_does_not_begin() -> None:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orbiter_triggers.receiver"),
        env={"PATH": os.environ["PATH"], "ORBITER_REDIS_URL": "redis://127.0.0.1:1/0"},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await program.communicate()
    assert program.returncode == 2
    assert b"ORBITER_WEBHOOK_MASTER_KEY" in said
