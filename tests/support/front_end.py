"""Around a front end, for tests: a Redis with a password, and a worker that says what it is told.

`server`, `worker` and `session` are fixtures: import them into the test module that uses them.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis
from support.fake_kubectl import FakeKubectl, a_session, an_object
from support.redis_server import PATIENT, RedisServer, running_server

from orbiter_contracts import POWorkerInput, POWorkerOutput, decode, encode
from orbiter_contracts.queues import BARE, Keys

PASSWORD = "p@ss:word/with?marks"
Reply = Callable[["StubWorker", POWorkerInput], object]


class StubWorker:
    """Reads a session's messages in a thread and answers as the test says."""

    under: Keys = BARE

    def __init__(self, url: str) -> None:
        self.redis = Redis.from_url(url, decode_responses=True, protocol=2, **PATIENT)
        self.heard: list[POWorkerInput] = []
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def answers(self, reply: Reply) -> None:
        """Answer each message from now on."""

        def work() -> None:
            after = "0"
            while not self._end.is_set():
                replies = self.redis.xread({self.under.po_input("po-1"): after}, block=20)
                for entry, fields in replies[0][1] if replies else ():
                    after = entry
                    self.heard.append(decode(POWorkerInput, fields))
                    reply(self, self.heard[-1])

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def says(self, message: POWorkerInput, text: str, **fields: Any) -> None:
        """Put an output on the stream."""
        fields = {"user_id": message.user_id, "session_id": "s-1", **fields}
        output = POWorkerOutput(request_id=message.request_id, text=text, **fields)
        self.redis.xadd(self.under.po_output("po-1"), encode(output))

    def stands(self, **fields: str) -> None:
        """Say where the worker stands."""
        self.redis.hset(self.under.po_state("po-1"), mapping=fields)

    def end(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        self.redis.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_server(tmp_path_factory.mktemp("redis"), password=PASSWORD) as server:
        yield server


@pytest.fixture
def worker(server: RedisServer) -> Iterator[StubWorker]:
    worker = StubWorker(server.url)
    worker.redis.flushall()
    yield worker
    worker.end()


@pytest.fixture
def session(kubectl: FakeKubectl, server: RedisServer) -> FakeKubectl:
    """The session alice, and the Secret that leads to its Redis."""
    kubectl.has(a_session(), secret(server))
    (kubectl.home / "redis-port").write_text(str(server.port))
    return kubectl


def secret(server: RedisServer, host: str = "orbiter-redis.orbiter-system.svc:6379") -> Any:
    url = server.url.replace(f"127.0.0.1:{server.port}", host)
    return an_object("Secret", "orbiter-chat", data={"chat-url": url})


def echo(worker: StubWorker, message: POWorkerInput) -> None:
    worker.says(message, f"you said {message.prompt}")
