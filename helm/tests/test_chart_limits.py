"""What clients of the chart's Redis leave unfinished or unread takes nobody else's memory."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError
from support.eventually import eventually
from support.redis_server import RedisServer, client_of, running_server

pytestmark = pytest.mark.integration

CHART = Path(__file__).resolve().parents[1] / "orbiter"
LIMITS = ("proto-max-bulk-len", "client-query-buffer-limit", "maxmemory-clients")
BUSY_SECONDS = 90
REQUESTS = {
    "unfinished": b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$60000000\r\nx",
    "unread": b"*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n" * 60,
}
"""Of which each takes some 60 MB: a text of which Redis is told the size, and replies."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server whose memory is soon full, and which forgets nothing for it."""
    options = {"maxmemory": "100mb", "maxmemory-policy": "noeviction"}
    with running_server(tmp_path, options=options) as server:
        yield server


@contextmanager
def three_send(server: RedisServer, request: bytes) -> Iterator[None]:
    """Have three clients send this, and then nothing more."""
    address = ("127.0.0.1", server.port)
    clients = [socket.create_connection(address) for _ in range(3)]
    try:
        for client in clients:
            client.sendall(request)
        yield
    finally:
        for client in clients:
            client.close()


async def refuses(redis: "Redis[str]") -> bool:
    """Whether somebody else may write nothing."""
    try:
        await redis.set("y", "z")
    except OutOfMemoryError:
        return True
    return False


@pytest.mark.parametrize("sent", REQUESTS.values(), ids=REQUESTS.keys())
async def test_who_leaves_much_unfinished_or_unread_is_sent_away_and_others_may_write(
    server: RedisServer, sent: bytes
) -> None:
    text = (CHART / "templates" / "_redis.tpl").read_text()
    limits = dict(re.findall(rf"^({'|'.join(LIMITS)}) (\S+)$", text, re.MULTILINE))
    assert set(limits) == set(LIMITS)
    async with client_of(server) as redis:
        for name, value in limits.items():
            await redis.config_set(name, value)
        await redis.set("large", "x" * 1_000_000)

        async def sent_away() -> bool:
            return int((await redis.info("stats"))["evicted_clients"]) == 3

        with three_send(server, sent):
            await eventually(sent_away, seconds=BUSY_SECONDS)
            assert not await refuses(redis)


@pytest.mark.parametrize("sent", REQUESTS.values(), ids=REQUESTS.keys())
async def test_without_the_limits_others_are_refused(server: RedisServer, sent: bytes) -> None:
    async with client_of(server) as redis:
        await redis.set("large", "x" * 1_000_000)
        with three_send(server, sent):
            await eventually(lambda: refuses(redis), seconds=BUSY_SECONDS)
