"""What the bundled Redis has answered survives its kill, with the chart's own configuration."""

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.exceptions import AuthenticationError, BusyLoadingError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry
from support.chart_redis import acl_file, passwords_of
from support.cluster import Cluster
from support.manifests import read_manifests
from support.redis_server import RedisServer

from orbiter_contracts import queues, scripts
from orbiter_operator.streams.client import BLOCKING_SECONDS, blocking_client, redis_client
from worker_wrapper.queue.connection import RedisConnection
from worker_wrapper.queue.streams import BLOCK_SECONDS

pytestmark = pytest.mark.e2e

CHART = Path(__file__).resolve().parents[1] / "orbiter"
Client = Callable[..., "Redis[str]"]


def rendered(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    """The objects that one of the chart's templates makes."""
    text = cluster.helm("template", "orbiter", str(CHART), "--show-only", f"templates/{name}.yaml")
    return read_manifests(text)


@contextmanager
def running(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The chart's Redis on a socket in a directory, until it is killed."""
    command = ["redis-server", str(directory / "redis.conf")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def test_queue_entries_written_by_scripts_and_transactions_survive_a_kill(
    cluster: Cluster, tmp_path: Path
) -> None:
    items = rendered(cluster, "redis")
    passwords = passwords_of(items)
    password = passwords["operator"]
    (tmp_path / "acl").mkdir()
    (tmp_path / "users.acl").write_text(acl_file(items, tmp_path / "acl", passwords))
    conf = next(o["data"]["redis.conf"] for o in items if "data" in o)
    socket = tmp_path / "socket"
    (tmp_path / "redis.conf").write_text(
        conf.replace("dir /data", f"dir {tmp_path}")
        .replace("/run/redis/users.acl", str(tmp_path / "users.acl"))
        .replace("port 6379", f"port 0\nunixsocket {socket}")
    )

    def client(**login: str) -> "Redis[str]":
        starting = (RedisConnectionError, BusyLoadingError, OSError)
        patience = Retry(ConstantBackoff(0.05), 200, starting)
        return Redis(unix_socket_path=str(socket), decode_responses=True, retry=patience, **login)

    record = queues.BARE.attempt_record("uid", 1)
    arguments = [60, "data", "{}", queues.TASK_FIELD, "team/one"]
    with running(tmp_path), client(username="operator", password=password) as redis:
        entry = redis.eval(
            scripts.ADMIT_ATTEMPT, 2, record, queues.BARE.developer_input, *arguments
        )
        with redis.pipeline(transaction=True) as transaction:
            transaction.xadd(queues.BARE.lifecycle, {"data": "{}"})
            transaction.xadd(queues.BARE.developer_output, {"data": "{}"})
            transaction.execute()
    with running(tmp_path), client(username="operator", password=password) as redis:
        assert redis.hget(record, "entry") == entry
        assert redis.xlen(queues.BARE.developer_input) == 1
        assert redis.xlen(queues.BARE.lifecycle) == 1
        assert redis.xlen(queues.BARE.developer_output) == 1
        with client() as nobody, pytest.raises(AuthenticationError):
            nobody.ping()


def test_idle_connections_are_closed_and_blocked_ones_and_our_clients_survive(
    cluster: Cluster, own_redis_server: RedisServer
) -> None:
    conf = next(o["data"]["redis.conf"] for o in rendered(cluster, "redis") if "data" in o)
    settings = dict(line.split(maxsplit=1) for line in conf.splitlines() if line[:1].isalpha())
    assert int(settings["timeout"]) >= 2 * max(BLOCK_SECONDS, BLOCKING_SECONDS, 60)
    assert int(settings["maxclients"]) > 10_000
    assert int(settings["tcp-keepalive"]) <= 60
    asyncio.run(_outlast(own_redis_server))


async def _outlast(server: RedisServer) -> None:
    """The chart's kind of timeout, as short as can be: everything idle is closed after a second."""
    short, blocking = redis_client(server.url), blocking_client(server.url)
    worker = RedisConnection(server.url, structlog.get_logger(), sleep=_never)
    await worker.call("CONFIG", "SET", "timeout", 1)
    await short.ping()
    await blocking.ping()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    waiting = asyncio.create_task(blocking.xread({"s": "0"}, block=10_000))
    assert await asyncio.wait_for(reader.read(), 15) == b""
    await _until_two_are_left(server)
    assert not waiting.done()
    assert await short.ping()
    assert await worker.call("PING") == "PONG"
    await short.xadd("s", {"data": "x"})
    assert await waiting
    for client in (short, blocking):
        await client.aclose()
    await worker.close()
    writer.close()
    await writer.wait_closed()


async def _until_two_are_left(server: RedisServer) -> None:
    """Wait until all that are idle are closed: then there are the blocked one and who asks."""
    asks = redis_client(server.url)
    async with asyncio.timeout(15):
        while len(await asks.client_list()) > 2:
            await asyncio.sleep(0.05)
    await asks.aclose()


async def _never(seconds: float) -> None:
    raise AssertionError("the worker has met an error")
