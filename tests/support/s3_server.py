"""A real S3 server, for tests: versitygw, built once from its Go module, over a directory.

`make s3-server` builds it as well; its version stands in s3_gateway/go.mod. `s3_server` is one for
the whole run; a bucket is a directory of it, and what is in the bucket are files.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from support.go_programs import go_program
from support.ports import free_port

SOURCES = Path(__file__).with_name("s3_gateway")
PACKAGE = "github.com/versity/versitygw/cmd/versitygw"
_START_SECONDS = 60.0


def s3_program() -> Path:
    """Return the path of the server, building it when it is not here yet."""
    return go_program("versitygw", SOURCES, PACKAGE)


@dataclass(frozen=True)
class S3Server:
    """A running server."""

    endpoint: str
    directory: Path
    access_key_id: str = "orbiter-tests"
    secret_access_key: str = "a-secret-of-the-tests"

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.endpoint.rpartition(":")[2])

    def bucket(self, name: str) -> Path:
        """Make a bucket; the directory that it is."""
        place = self.directory / name
        place.mkdir(exist_ok=True)
        return place


@contextmanager
def running_s3(
    directory: Path, *, address: str = "127.0.0.1", wrapped: Sequence[str] = ()
) -> Iterator[S3Server]:
    """Run a server over a directory.

    Args:
        directory: For its buckets and its log.
        address: Where it listens.
        wrapped: A command before its own, for instance one that limits what it may write.
    """
    buckets, log = directory / "buckets", directory / "s3.log"
    for place in (buckets, directory / "sidecar"):
        place.mkdir(parents=True, exist_ok=True)
    server = S3Server(f"http://{address}:{free_port()}", buckets)
    command = [
        *(*wrapped, str(s3_program()), "--port", server.endpoint.removeprefix("http://")),
        *("--health", "/health", "posix", "--sidecar", str(directory / "sidecar"), str(buckets)),
    ]
    secrets = {
        "ROOT_ACCESS_KEY": server.access_key_id,
        "ROOT_SECRET_KEY": server.secret_access_key,
    }
    with (
        log.open("w") as output,
        subprocess.Popen(
            command, stdout=output, stderr=output, env=os.environ | secrets
        ) as process,
    ):
        try:
            _wait_until_it_answers(process, server, log)
            yield server
        finally:
            process.terminate()


def _wait_until_it_answers(process: subprocess.Popen[bytes], server: S3Server, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urlopen(f"{server.endpoint}/health", timeout=5):
                return
        except HTTPError:
            return
        except (URLError, OSError):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for the whole run."""
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


if __name__ == "__main__":
    os.write(sys.stdout.fileno(), f"{s3_program()}\n".encode())
