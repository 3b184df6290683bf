"""`kubectl orbiter mcp` as a program: the official client runs a task by stdin and stdout."""

import asyncio
import base64
import hashlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.fake_api import FakeApi, api
from support.front_end import StubWorker, server, worker
from support.mcp_servers import our_environment
from support.redis_server import RedisServer

from orbiter_contracts.queues import Keys

__all__ = ["api", "server", "worker"]
pytestmark = pytest.mark.integration
SPACE = "team-a"
KEYS = Keys.of_namespace(SPACE)
PLUGIN = "from orbiter.cli.kubectl.main import main; main()"


@asynccontextmanager
async def entered(api: FakeApi, server: RedisServer, tmp_path: Path) -> AsyncIterator[Any]:
    """The official client of the program, as ada."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    ada = {"status": {"userInfo": {"username": "ada"}}}
    api.reviews["selfsubjectreviews"] = lambda body: {**body, **ada}
    config = str(api.kubeconfig(tmp_path))
    words = ("mcp", "--kubeconfig", config, "-n", SPACE, "--redis-url", server.url)
    program = StdioServerParameters(
        command=sys.executable, args=["-c", PLUGIN, *words],
        env={**os.environ, **our_environment()},
    )  # fmt: skip
    async with Client(stdio_client(program), cache=None) as found:
        yield found


async def called(client: Any, name: str, /, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    return result.structured_content


async def test_the_official_client_runs_a_task_end_to_end(
    api: FakeApi, server: RedisServer, worker: StubWorker, tmp_path: Path
) -> None:
    async with entered(api, server, tmp_path) as client:
        made = await called(client, "submit_task", prompt="Fix the page", idempotency_key="page-1")
        assert (made["created"], made["task"]["namespace"]) == (True, SPACE)

        async def progress(done: float, total: float | None, message: str | None) -> None:
            asked = {"id": "q1", "question": "main or trunk?"}
            status = {"phase": "InputRequired", "inputRequest": asked}
            api.patch("agenttasks", SPACE, "page-1", {"status": status})

        watched = await client.call_tool(
            "watch_task", {"name": "page-1", "seconds": 30}, progress_callback=progress
        )
        assert watched.structured_content["ended"] == "asks"
        await called(client, "answer_task", name="page-1", question_id="q1", text="main")
        found = api.get("agenttasks", SPACE, "page-1")
        assert found is not None
        assert found["spec"]["input"] == [{"id": "q1", "text": "main", "by": "ada"}]
        kept = {"phase": "Completed", "attempts": 1, "artifacts": {"attempt": 1, "count": 2}}
        kept["inputStream"] = KEYS.developer_input
        api.patch("agenttasks", SPACE, "page-1", {"status": kept})
        hides = "one\r\n\ttwo\u202e\x1b[8m\rthree".encode()
        files = {"0000-a": b"# Done", "0001-b": bytes(range(256)), "0002-c": hides}
        entries = [
            {
                "name": f"out/{key}", "key": key, "size_bytes": len(data), "place": "redis",
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            for key, data in files.items()
        ]  # fmt: skip
        entries.append({**entries[0], "name": "out/forged", "sha256": "0" * 64})
        index = json.dumps({"time": "2026-01-10T12:00:00Z", "files": entries, "store": None})
        record = KEYS.task_artifacts(found["metadata"]["uid"], 1)
        worker.redis.hset(record, mapping={"index": index, **files})
        assert (await called(client, "watch_task", name="page-1"))["ended"] == "over"
        listed = await called(client, "list_artifacts", name="page-1")
        names = [each["name"] for each in listed["agent_said"]["files"]]
        assert names == ["out/0000-a", "out/0001-b", "out/0002-c", "out/forged"]
        text = await called(client, "get_artifact", name="page-1", file="out/0000-a")
        assert text["agent_said"]["text"] == "# Done"
        binary = await called(client, "get_artifact", name="page-1", file="out/0001-b")
        assert base64.b64decode(binary["agent_said"]["base64"]) == files["0001-b"]
        hidden = await called(client, "get_artifact", name="page-1", file="out/0002-c")
        assert hidden["agent_said"]["text"] == "one\r\n\ttwo\\u202e\\u001b[8m\\rthree"
        assert hidden["agent_said"]["escaped"] is True
        forged = await called(client, "get_artifact", name="page-1", file="out/forged")
        assert forged["error"]["code"] == "no_artifacts"
        missing = await called(client, "get_artifact", name="page-1", file="../../etc/passwd")
        assert missing["error"]["code"] == "not_found"
        assert {bearer for *_, bearer in api.bearers} == {"Bearer fake"}


async def test_what_cannot_be_is_refused_with_its_reason(
    api: FakeApi, server: RedisServer, tmp_path: Path
) -> None:
    async with entered(api, server, tmp_path) as client:
        for name, arguments, code in (
            ("get_task", {"name": "none"}, "not_found"),
            ("get_task", {"name": "A B"}, "invalid"),
            ("submit_task", {"prompt": "x" * 300_000}, "invalid"),
            ("cancel_task", {"name": "none", "why": "x"}, "invalid"),
        ):
            assert (await called(client, name, **arguments))["error"]["code"] == code
        assert api.writes == 0


INITIALIZE = {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}
}  # fmt: skip
NONSENSE = (
    *(
        b"",
        b"hello",
        b"\x00\x00",
        b"[" * 200_000,
        b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b"}",
    ),
    *(b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', b'[{"jsonrpc": "2.0", "id": 1}]'),
    *(b'{"id": 1, "method": "\xff\xfe"}', b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}'),
    *(b'{"jsonrpc": "2.0", "id": 7, "result": {}}', b'{"jsonrpc": "2.0", "method": "tools/call"}'),
)


async def test_lines_that_are_no_messages_end_nothing(api: FakeApi, tmp_path: Path) -> None:
    words = ("mcp", "--kubeconfig", str(api.kubeconfig(tmp_path)), "-n", SPACE)
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PLUGIN, *words), env={**os.environ, **our_environment()},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert program.stdin is not None
    assert program.stdout is not None

    def say(line: bytes, **message: Any) -> None:
        assert program.stdin is not None
        text = json.dumps({"jsonrpc": "2.0", **message}).encode() if message else line
        program.stdin.write(text + b"\n")

    async with asyncio.timeout(90):
        say(b"", id=0, method="initialize", params=INITIALIZE)
        assert b'"serverInfo"' in await program.stdout.readline()
        for number, line in enumerate(NONSENSE, 1):
            say(line)
            say(b"", id=f"after {number}", method="ping")
            while json.loads(await program.stdout.readline())["id"] != f"after {number}":
                pass
        program.stdin.close()
        assert await program.wait() == 0
    assert api.writes == 0
