"""The server is killed and stopped in the middle of streams; clients go on where they were."""

import asyncio
import json
import os
import random
import resource
import signal
import sys
from pathlib import Path

import httpx
import pytest
from support.eventually import eventually
from support.ports import free_port

from .spelling_server import WORDS

pytestmark = pytest.mark.integration
PROGRAM = Path(__file__).with_name("spelling_server.py")


class Process:
    """The server as a process on one port, started again as often as needed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=30)
        self.child: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self.child = await asyncio.create_subprocess_exec(
                sys.executable, str(PROGRAM), str(self.directory), str(self.port), stderr=log
            )

        async def answers() -> bool:
            try:
                return (await self.http.get("/readyz")).status_code == 200
            except httpx.TransportError:
                return False

        await eventually(answers)

    async def send(self, sig: int) -> int:
        assert self.child is not None
        self.child.send_signal(sig)
        return await self.child.wait()

    def let(self, first: int, last: int) -> None:
        for number in range(first, last):
            (self.directory / f"go-{number}").touch()


async def test_silent_connections_keep_nobody_out(tmp_path):
    """In a container that gives a process 700 descriptors; more than in some."""
    server = Process(tmp_path)
    await server.start()
    resource.prlimit(server.child.pid, resource.RLIMIT_NOFILE, (700, 700))
    silent = []
    try:
        for number in range(1000):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET / HTTP/1.1\r\nX: " if number % 2 else b"")
            silent.append(writer)
        async with httpx.AsyncClient(base_url=server.http.base_url, timeout=10) as stranger:
            assert (await stranger.get("/readyz")).status_code == 200
    finally:
        for writer in silent:
            writer.transport.abort()
        await server.http.aclose()
        await server.send(signal.SIGKILL)


class Client:
    """Follows a run as a careful client does, over any number of connections."""

    def __init__(self, server: Process, run: str) -> None:
        self.server = server
        self.run = run
        self.seen: list[dict] = []

    async def follow(self) -> bool:
        """Read until the run ends (True) or the connection breaks (False)."""
        last = str(self.seen[-1]["seq"]) if self.seen else "0"
        try:
            async with self.server.http.stream(
                "GET", f"/v1/runs/{self.run}/events", headers={"Last-Event-ID": last}
            ) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: "):
                        self.seen.append(json.loads(line[6:]))
        except httpx.TransportError:
            pass
        return bool(self.seen) and self.seen[-1]["type"] == "end"

    @property
    def text(self) -> str:
        """What the client shows: a `resumed` event takes back what came after `kept`."""
        shown: list[dict] = []
        for event in self.seen:
            if event["type"] == "resumed":
                shown = [e for e in shown if e["seq"] <= event["kept"]]
            elif event["type"] == "text":
                shown.append(event)
        return "".join(event["text"] for event in shown)


@pytest.fixture
async def server(tmp_path):
    process = Process(tmp_path)
    await process.start()
    yield process
    if process.child.returncode is None:
        await process.send(signal.SIGKILL)
    await process.http.aclose()


async def begin(server: Process) -> Client:
    answer = await server.http.post("/v1/agents/speller/runs", json={"input": "Spell"})
    return Client(server, answer.json()["id"])


async def read_to(client: Client, word: str) -> asyncio.Task[bool]:
    reading = asyncio.create_task(client.follow())
    await eventually(lambda: word in client.text)
    return reading


async def test_kill_9_in_mid_stream_costs_a_client_nothing(server):
    client = await begin(server)
    chance = random.Random(7)
    given = 0
    for _ in range(4):
        more = given + chance.randint(3, 9)
        server.let(given, more)
        given = more
        reading = await read_to(client, WORDS[given - 1])
        await server.send(signal.SIGKILL)
        assert await reading is False
        await server.start()
    server.let(given, len(WORDS))
    while not await client.follow():
        pass
    assert client.text == "Let me see. " + "".join(WORDS)
    assert [event["seq"] for event in client.seen] == list(range(1, len(client.seen) + 1))
    assert [event["type"] for event in client.seen].count("resumed") == 4
    assert client.seen[-1]["output"] == "".join(WORDS)
    # a step that was complete is not taken again: the tool ran once
    assert (server.directory / "marks").read_text() == "ran\n"
    run = (await server.http.get(f"/v1/runs/{client.run}")).json()
    # one step with the tool, and one begun under each of five servers; two replies were whole
    assert (run["steps"], run["usage"]["total_tokens"]) == (6, 30)
    assert [e["step"] for e in client.seen if e["type"] == "step"] == [1, 2, 3, 4, 5, 6]
    session = (await server.http.get(f"/v1/sessions/{run['session_id']}")).json()
    assert [m["role"] for m in session["messages"]] == ["user", "assistant", "tool", "assistant"]


async def test_sigterm_lets_runs_end_and_welcomes_nothing_new(server):
    client = await begin(server)
    server.let(0, 5)
    reading = await read_to(client, WORDS[4])
    os.kill(server.child.pid, signal.SIGTERM)

    async def unready():
        return (await server.http.get("/readyz")).status_code == 503

    await eventually(unready)
    refused = await server.http.post("/v1/agents/speller/runs", json={"input": "More"})
    assert refused.status_code == 503
    assert refused.headers["retry-after"]
    server.let(5, len(WORDS))
    assert await reading is True
    assert await server.child.wait() == 0
    assert client.seen[-1]["output"] == "".join(WORDS)


async def test_a_run_that_outlasts_the_drain_is_gone_on_with_by_the_next_server(server):
    client = await begin(server)
    server.let(0, 5)
    reading = await read_to(client, WORDS[4])
    await server.send(signal.SIGTERM)
    assert await reading is False
    await server.start()
    server.let(5, len(WORDS))
    while not await client.follow():
        pass
    assert client.text == "Let me see. " + "".join(WORDS)


async def test_a_second_server_keeps_out_of_a_directory_in_use(server):
    second = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), str(server.directory), "0",
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await second.communicate()
    assert second.returncode != 0
    assert b"another server uses" in said
