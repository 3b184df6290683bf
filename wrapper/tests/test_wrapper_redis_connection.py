"""The wrapper's connection: when it tries again, when it gives up, and what it says."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, ReadOnlyError, ResponseError
from structlog.testing import capture_logs
from support.eventually import eventually
from support.ports import free_port
from support.redis_server import RedisServer, client_of, running_server

from worker_wrapper.queue import connection as module
from worker_wrapper.queue.connection import (
    RedisConnection,
    RedisUnavailableError,
    delay_after,
)
from worker_wrapper.queue.refusals import explain

pytestmark = pytest.mark.integration


class Pauses:
    """Stands in for asyncio.sleep: notes each pause and runs `then` instead of waiting."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self.then: Any = lambda: None

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        self.then()


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
async def own(own_redis_server: RedisServer, pauses: Pauses) -> AsyncIterator[RedisConnection]:
    connection = make(own_redis_server.url, pauses)
    yield connection
    await connection.close()
    await asyncio.sleep(0)


def make(url: str, pauses: Pauses) -> RedisConnection:
    return RedisConnection(url, structlog.get_logger(), sleep=pauses, luck=lambda: 0.5)


def test_delays_grow_and_survive_a_restart_of_fifteen_seconds() -> None:
    assert [delay_after(failures, 0.5) for failures in (1, 2, 3, 4)] == [0.5, 1.5, 4.5, 13.5]
    assert sum(delay_after(failures, 0.0) for failures in (1, 2, 3, 4)) > 15


def test_delays_are_spread_by_a_fifth_so_that_workers_do_not_return_all_at_once() -> None:
    assert delay_after(1, 0.0) == pytest.approx(0.4)
    assert delay_after(1, 0.999) == pytest.approx(0.6, abs=0.001)


async def test_it_gives_up_after_five_tries_in_a_row(pauses: Pauses) -> None:
    connection = make(f"redis://:hidden-word@127.0.0.1:{free_port()}/0", pauses)
    with pytest.raises(RedisUnavailableError, match="5 tries in a row") as caught:
        await connection.call("PING")
    assert pauses.taken == [0.5, 1.5, 4.5, 13.5]
    assert "127.0.0.1" in str(caught.value)
    assert "hidden-word" not in str(caught.value)


async def test_it_does_not_give_up_while_somebody_insists(pauses: Pauses) -> None:
    connection = make(f"redis://127.0.0.1:{free_port()}/0", pauses)
    connection.insists = lambda: len(pauses.taken) < 2000
    with pytest.raises(RedisUnavailableError, match="2001 tries in a row"):
        await connection.call("PING")
    assert pauses.taken[4:6] == [13.5, 13.5]
    with pytest.raises(RedisUnavailableError, match="2 tries in a row"):
        await connection.call("PING", tries=2)


async def test_a_limit_of_tries_is_logged_where_it_holds_and_never_exceeded(
    pauses: Pauses,
) -> None:
    connection = make(f"redis://127.0.0.1:{free_port()}/0", pauses)
    with capture_logs() as lines, pytest.raises(RedisUnavailableError):
        await connection.call("PING")
    assert [(line["failures"], line["of"]) for line in lines] == [(n, 5) for n in range(1, 5)]
    pauses.taken.clear()
    connection.insists = lambda: len(pauses.taken) < 7
    with capture_logs() as lines, pytest.raises(RedisUnavailableError):
        await connection.call("PING")
    assert [(line["failures"], line.get("of")) for line in lines] == [
        (number, None) for number in range(1, 8)
    ]


async def test_a_restart_between_two_calls_is_not_noticed_by_the_caller(
    own: RedisConnection, own_redis_server: RedisServer, pauses: Pauses
) -> None:
    await own.call("SET", "key", "value")
    own_redis_server.kill()
    own_redis_server.start()
    assert await own.call("GET", "key") == "value"
    assert own.generation == 2


async def test_a_server_that_is_away_for_three_tries_is_waited_for(
    own: RedisConnection, own_redis_server: RedisServer, pauses: Pauses
) -> None:
    await own.call("PING")
    own_redis_server.kill()
    pauses.then = lambda: own_redis_server.start() if len(pauses.taken) == 3 else None
    assert await own.call("PING") == "PONG"
    assert len(pauses.taken) == 3


async def test_every_failed_try_is_logged_with_its_reason(
    own: RedisConnection, own_redis_server: RedisServer, pauses: Pauses
) -> None:
    own_redis_server.kill()
    pauses.then = own_redis_server.start
    with capture_logs() as logs:
        await own.call("PING")
    assert [(line["event"], line["failures"], line["of"]) for line in logs] == [
        ("redis_retry", 1, 5)
    ]
    assert str(own_redis_server.port) in logs[0]["redis"]


async def _blocked(redis: Redis) -> bool:
    return bool((await redis.info("clients"))["blocked_clients"])


async def test_a_server_that_accepts_and_never_answers_counts_as_failed(
    own: RedisConnection,
    own_redis_server: RedisServer,
    pauses: Pauses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REPLY_SECONDS", 0.05)
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.05)
    await own.call("PING")
    own_redis_server.freeze()
    try:
        with pytest.raises(RedisUnavailableError, match="does not answer in time"):
            await own.call("PING")
    finally:
        own_redis_server.thaw()
    assert len(pauses.taken) == 4


async def test_a_reply_that_comes_after_a_cancelled_read_answers_nothing_else(
    own: RedisConnection, own_redis_server: RedisServer
) -> None:
    await own.call("XGROUP", "CREATE", "stream", "group", "0", "MKSTREAM")
    reading = asyncio.create_task(
        own.call(
            *("XREADGROUP", "GROUP", "group", "me", "BLOCK", 20_000, "STREAMS", "stream", ">"),
            block_seconds=20,
        )
    )
    async with client_of(own_redis_server) as redis:
        await eventually(lambda: _blocked(redis))
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert await own.call("PING") == "PONG"


async def test_a_command_for_one_connection_is_not_sent_on_the_next(
    own: RedisConnection, own_redis_server: RedisServer
) -> None:
    assert await own.call("INCR", "key", generation=0) is None
    assert await own.call("INCR", "key", generation=1) == 1
    async with client_of(own_redis_server) as redis:
        await redis.client_kill_filter(_type="normal", skipme=True)
    assert await own.call("INCR", "key", generation=1) is None
    assert await own.call("GET", "key") == "1"


async def test_calls_at_the_same_time_get_their_own_replies(own: RedisConnection) -> None:
    replies = await asyncio.gather(*(own.call("ECHO", str(number)) for number in range(50)))
    assert replies == [str(number) for number in range(50)]


async def test_a_read_only_replica_is_named_and_tried_again(
    own: RedisConnection, own_redis_server: RedisServer, pauses: Pauses
) -> None:
    async with client_of(own_redis_server) as redis:
        await redis.replicaof("127.0.0.1", str(free_port()))
    with pytest.raises(RedisUnavailableError, match=r"read-only replica.*primary"):
        await own.call("SET", "key", "value")
    assert len(pauses.taken) == 4


async def test_a_server_out_of_memory_is_tried_again(
    own: RedisConnection, own_redis_server: RedisServer, pauses: Pauses
) -> None:
    async with client_of(own_redis_server) as redis:
        await redis.config_set("maxmemory", 1)
    with pytest.raises(RedisUnavailableError, match="maxmemory"):
        await own.call("SET", "key", "value")
    assert len(pauses.taken) == 4


async def test_a_stream_whose_ids_are_used_up_is_tried_again(
    own: RedisConnection, own_redis_server: RedisServer, pauses: Pauses
) -> None:
    await own.call("XADD", "s", "18446744073709551615-18446744073709551615", "data", "x")
    async with client_of(own_redis_server) as redis:
        with pytest.raises(RedisUnavailableError, match="last possible ID"):
            await own.call("EVAL", "return redis.call('XADD', KEYS[1], '*', 'a', 'b')", 1, "s")
        assert len(pauses.taken) == 4
        await redis.delete("s")
    assert await own.call("XADD", "s", "*", "data", "x")


@pytest.mark.parametrize("secret", ["", ":wrong-word@"])
async def test_a_refused_password_is_said_so_without_showing_it(
    tmp_path: Path, pauses: Pauses, secret: str
) -> None:
    with running_server(tmp_path, password="right-word") as server:
        url = server.url.replace(":right-word@", secret)
        with pytest.raises(RedisUnavailableError, match="user or password in REDIS_URL") as caught:
            await make(url, pauses).call("PING")
    assert "-word" not in str(caught.value)


async def test_a_password_that_is_right_is_used(tmp_path: Path, pauses: Pauses) -> None:
    with running_server(tmp_path, password="right/word") as server:
        connection = make(server.url, pauses)
        assert await connection.call("PING") == "PONG"
        await connection.close()


async def test_what_the_acl_forbids_is_not_tried_again(
    own: RedisConnection, own_redis_server: RedisServer, pauses: Pauses
) -> None:
    async with client_of(own_redis_server) as redis:
        await redis.acl_setuser(
            "limited", enabled=True, passwords=["+pass-word"], commands=["+ping"]
        )
    url = own_redis_server.url.replace("redis://", "redis://limited:pass-word@")
    connection = make(url, pauses)
    with pytest.raises(RedisUnavailableError, match="ACL"):
        await connection.call("GET", "key")
    await connection.close()
    assert pauses.taken == []


async def test_an_error_of_the_command_itself_is_the_callers(own: RedisConnection) -> None:
    await own.call("SET", "key", "value")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await own.call("HGETALL", "key")
    assert await own.call("GET", "key") == "value"


async def test_bytes_that_are_no_text_do_not_break_it(
    own: RedisConnection, own_redis_server: RedisServer
) -> None:
    async with client_of(own_redis_server) as redis:
        await redis.set("key", b"\xff\xfe")
    assert await own.call("GET", "key") == "��"
    await own.call("SET", "key", "half a pair \ud800")
    assert await own.call("GET", "key") == "half a pair ?"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ReadOnlyError("READONLY You can't write"), "read-only replica"),
        (AuthenticationError("invalid username-password pair"), "user or password"),
        (TimeoutError(), "does not answer in time"),
        (ConnectionRefusedError(111, "refused"), "refused"),
        (EOFError(), "EOFError"),
    ],
)
def test_errors_are_explained(error: Exception, words: str) -> None:
    assert words in explain(error)


async def test_a_unix_socket_that_is_not_there_is_named(tmp_path: Path, pauses: Pauses) -> None:
    path = tmp_path / "redis.sock"
    connection = make(f"unix://{path}", pauses)
    with pytest.raises(RedisUnavailableError, match=str(path)):
        await connection.call("PING")
