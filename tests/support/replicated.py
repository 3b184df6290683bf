"""A primary with two replicas and the three Sentinels that watch them: real processes.

`replicated` starts all six on free ports. A test that ends the primary first says
`everything_replicated`; what was written until then is on both replicas.
"""

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.exceptions import RedisError
from support.eventually import eventually
from support.ports import free_port
from support.redis_server import PROGRAMS, RedisServer

NAME = "mymaster"
PASSWORD = "data-word"
SENTINEL_PASSWORD = "sentinel-word"
_START_SECONDS = 60.0
_DOWN_AFTER_MILLISECONDS = (500, 60_000, 60_000)
"""Of each Sentinel. The first sees that the primary is gone and the others vote for it; were they
equal, two at once might each make another server the primary, which takes ten seconds to end."""

_SENTINEL = f"""
port {{port}}
bind 127.0.0.1
dir {{directory}}
requirepass {SENTINEL_PASSWORD}
sentinel sentinel-pass {SENTINEL_PASSWORD}
sentinel monitor {NAME} 127.0.0.1 {{primary}} 1
sentinel auth-pass {NAME} {PASSWORD}
sentinel down-after-milliseconds {NAME} {{down_after}}
sentinel failover-timeout {NAME} 10000
sentinel parallel-syncs {NAME} 2
"""


class Stopwatch:
    """Says how long after a primary's death something happened: a figure, and no promise."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, what: str) -> None:
        """Print what has happened, and when."""
        print(f"{time.monotonic() - self._began:5.1f} s after the primary died: {what}")


class Replicated:
    """Three servers, of which one is the primary, and three Sentinels."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.servers = [self._server(number) for number in range(3)]
        self.sentinel_ports = [free_port() for _ in range(3)]
        self._sentinels: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """What a program is given."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.sentinel_ports)
        options = f"?sentinel_password={SENTINEL_PASSWORD}"
        return f"redis+sentinel://default:{PASSWORD}@{hosts}/{NAME}/0{options}"

    @property
    def primary(self) -> RedisServer:
        """The server that the Sentinels name at present."""
        with self._sentinel(self.sentinel_ports[-1]) as sentinel:
            _, port = sentinel.sentinel_get_master_addr_by_name(NAME)
        return next(server for server in self.servers if server.port == port)

    def start(self) -> None:
        """Start everything and wait until each Sentinel knows all the others."""
        for server in self.servers:
            server.start()
        for server in self.servers[1:]:
            with BlockingRedis.from_url(server.url) as client:
                client.replicaof("127.0.0.1", str(self.servers[0].port))
        for number, port in enumerate(self.sentinel_ports):
            self._sentinels.append(self._start_sentinel(number, port))
        deadline = time.monotonic() + _START_SECONDS
        while not all(map(self._knows_all, self.sentinel_ports)):
            assert time.monotonic() < deadline, "the Sentinels do not find each other"
            time.sleep(0.02)

    async def fail_over(self) -> "Stopwatch":
        """Kill the primary once all is replicated, and wait until another one is named."""
        await self.everything_replicated()
        old = self.primary
        old.kill()
        watch = Stopwatch()
        await eventually(lambda: self.primary is not old)
        watch.say("another primary was named")
        return watch

    async def hand_over(self) -> None:
        """Have the Sentinels make another server the primary; the old one is a replica of it."""
        old = self.primary
        with self._sentinel(self.sentinel_ports[-1]) as sentinel:
            sentinel.sentinel_failover(NAME)
        await eventually(lambda: self.primary is not old)

    async def everything_replicated(self) -> None:
        """Wait until both replicas have what the primary has; a failed one is not waited for."""
        async with Redis.from_url(self.primary.url, decode_responses=True) as client:

            async def level() -> bool:
                await client.set("marker", "everything before it is replicated too")
                return int(await client.wait(2, 1000)) == 2

            await eventually(level)

    def end(self) -> None:
        """End all that still run."""
        for sentinel in self._sentinels:
            sentinel.kill()
            sentinel.wait()
        for server in self.servers:
            server.kill()

    def _server(self, number: int) -> RedisServer:
        directory = self._directory / f"server-{number}"
        directory.mkdir(parents=True)
        options = {
            "masterauth": PASSWORD,
            "min-replicas-to-write": "1",
            "repl-diskless-sync-delay": "0",
            "repl-ping-replica-period": "1",
        }
        return RedisServer(directory, password=PASSWORD, options=options)

    def _start_sentinel(self, number: int, port: int) -> subprocess.Popen[bytes]:
        directory = self._directory / f"sentinel-{number}"
        directory.mkdir()
        config = directory / "sentinel.conf"
        config.write_text(
            _SENTINEL.format(
                port=port,
                directory=directory,
                primary=self.servers[0].port,
                down_after=_DOWN_AFTER_MILLISECONDS[number],
            )
        )
        program = next(filter(None, map(shutil.which, PROGRAMS)))
        with (directory / "sentinel.log").open("ab") as log:
            return subprocess.Popen([program, str(config), "--sentinel"], stdout=log, stderr=log)

    def _knows_all(self, port: int) -> bool:
        try:
            with self._sentinel(port) as sentinel:
                seen = sentinel.sentinel_master(NAME)
        except RedisError:
            return False
        return bool(seen["num-slaves"] == 2 and seen["num-other-sentinels"] == 2)

    @staticmethod
    def _sentinel(port: int) -> "BlockingRedis":
        return BlockingRedis(
            host="127.0.0.1", port=port, password=SENTINEL_PASSWORD, decode_responses=True
        )


@contextlib.contextmanager
def running_replicated(directory: Path) -> Iterator[Replicated]:
    """All six processes, gone afterwards."""
    made = Replicated(directory)
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[Replicated]:
    """A primary that the test may end, with replicas and Sentinels."""
    with running_replicated(tmp_path / "replicated") as made:
        yield made
