"""A real Redis (or Valkey) server for tests, and fixtures around it.

`redis_server` is one server for the whole run: its `url`, and `start`, `stop`, `kill`, `freeze`,
`thaw` for tests about what happens then. `redis` is a client on an empty database of it.
`own_redis_server` is a server of one's own, for tests that break it.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.exceptions import RedisError
from support.certificates import Certificates
from support.ports import free_port

from orbiter_contracts.queues import Keys

PROGRAMS = ("valkey-server", "redis-server")
_START_SECONDS = 60.0
_KEY = re.compile(r"(worker:|session:user:|agenttask:)")
PATIENT = {"socket_timeout": 60.0, "socket_connect_timeout": 60.0}
"""For the clients of tests: a shared machine is slow now and then, and the library's 5 s are
not what is tested."""
MASTER_KEY = "an installation's own"
"""Of an operator that makes users; what their passwords follow from."""


class NamespacedRedis(Redis):
    """A client whose keys all have a prefix, which may be none."""

    prefix = ""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command with the prefix before whatever looks like a key."""
        words = (
            self.prefix + word if isinstance(word, str) and _KEY.match(word) else word
            for word in args
        )
        return await super().execute_command(*words, **options)


class RedisServer:
    """A server process with its own directory and port; its data survives `kill` and `start`."""

    def __init__(
        self,
        directory: Path,
        *,
        password: str | None = None,
        options: Mapping[str, str] | None = None,
        tls: Certificates | None = None,
    ) -> None:
        self.directory = directory
        self._tls = tls
        self._options = dict(options or {})
        self.port = free_port()
        self.password = password
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What REDIS_URL has to be."""
        secret = f":{quote(self.password, safe='')}@" if self.password else ""
        if self._tls:
            return f"rediss://{secret}127.0.0.1:{self.port}/0?ssl_ca_certs={self._tls.ca}"
        return f"redis://{secret}127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it answers."""
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        assert program, "no redis-server or valkey-server on PATH: apt-get install redis-server"
        options: dict[str, object] = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.directory,
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            "enable-debug-command": "yes",
        }
        if self.password:
            options["requirepass"] = self.password
        if self._tls:
            options |= {"port": 0, "tls-port": self.port, "tls-auth-clients": "no"}
            options |= {"tls-cert-file": self._tls.certificate, "tls-key-file": self._tls.key}
        options |= self._options
        if "cluster-enabled" in options:  # else it is the port and 10,000, which may be too many
            options["cluster-port"] = free_port()
        arguments = [text for key, value in options.items() for text in (f"--{key}", str(value))]
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen([program, *arguments], stdout=log, stderr=log)
        self._wait_until_it_answers()

    def stop(self) -> None:
        """Ask it to leave; it stores its data first."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a warning, as a lost node does."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop it from answering while its connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=_START_SECONDS)
            self._process = None

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        # Whose certificate it is, is what some tests are about.
        any_name = {"ssl_check_hostname": False} if self._tls else {}
        with BlockingRedis.from_url(self.url, **any_name) as client:
            while True:
                try:
                    client.ping()
                    return
                except RedisError:
                    assert time.monotonic() < deadline, (self.directory / "server.log").read_text()
                    time.sleep(0.01)


@contextlib.contextmanager
def running_server(
    directory: Path,
    *,
    password: str | None = None,
    options: Mapping[str, str] | None = None,
    tls: Certificates | None = None,
) -> Iterator[RedisServer]:
    """A running server that is gone afterwards."""
    server = RedisServer(directory, password=password, options=options, tls=tls)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for the whole run. Leave it running; break `own_redis_server` instead."""
    with running_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def own_redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server for one test, which may stop, kill, freeze and start it."""
    directory = tmp_path / "own-redis"
    directory.mkdir()
    with running_server(directory) as server:
        yield server


@pytest.fixture
async def redis(redis_server: RedisServer, namespace: str) -> AsyncIterator[Redis]:
    """A client whose database is empty at the start of the test, in the test's namespace."""
    async with client_of(redis_server, namespace) as client:
        await client.flushall()
        yield client


def login(url: str) -> Redis:
    """A client in the name of the user whose URL it is; it reads replies as text."""
    return Redis.from_url(url, protocol=2, decode_responses=True, **PATIENT)


@contextlib.asynccontextmanager
async def client_of(server: RedisServer, namespace: str = "") -> AsyncIterator[Redis]:
    """A client that reads replies as text, and puts a namespace's prefix before every key."""
    client = NamespacedRedis.from_url(server.url, decode_responses=True, protocol=2, **PATIENT)
    client.prefix = Keys.of_namespace(namespace).prefix if namespace else ""
    try:
        yield client
    finally:
        await client.aclose()
