"""Orbiter's MCP client with servers that nobody here wrote."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.eventually import eventually
from support.mcp_servers import EVERYTHING, FETCH, FILESYSTEM, npm_server, python_server

from orbiter import Agent, run
from orbiter.mcp import MCPClient, Progress, StdioServer, mcp_tools
from orbiter.models import ScriptedModel, call

pytestmark = pytest.mark.integration


def everything(**settings) -> MCPClient:
    return MCPClient(npm_server(EVERYTHING), name="everything", **settings)


def children() -> set[int]:
    """Processes that this one started and that still run."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.add(int(stat.parent.name))
    return found


async def test_an_agent_works_with_the_files_of_the_filesystem_server(tmp_path):
    (tmp_path / "in.txt").write_text("forty-two")
    config = {
        "mcpServers": {
            "files": {"command": npm_server(FILESYSTEM), "args": ["${WORK}"]},
            "all": {"command": npm_server(EVERYTHING)},
        }
    }
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(config))
    target = str(tmp_path / "out.txt")
    model = ScriptedModel(
        call("files_read_text_file", path=str(tmp_path / "in.txt")),
        call("files_write_file", path=target, content="done"),
        call("files_read_text_file", path="/etc/passwd"),
        call("all_echo", message="bye"),
        "Ready.",
    )
    before = children()
    allowed = ["files_read_text_file", "files_write_file", "all_echo"]
    async with mcp_tools(path, allow=allowed, environ={"WORK": str(tmp_path)}) as tools:
        result = await run(Agent(name="clerk", tools=tools), "go", provider=model)
    answers = [message for message in result.messages if message.role == "tool"]
    assert answers[0].content == "forty-two"
    assert (tmp_path / "out.txt").read_text() == "done"
    assert "Access denied" in answers[2].error
    assert answers[3].content == "Echo: bye"
    assert children() == before


async def test_the_everything_server_shows_all_kinds_of_answers():
    told: list[Progress] = []
    async with everything(on_progress=told.append) as client:
        structured = await client.call_tool("get-structured-content", {"location": "New York"})
        assert structured.structured_content["conditions"] == "Cloudy"
        assert json.loads(structured.content) == structured.structured_content

        image = await client.call_tool("get-tiny-image")
        assert [a.mime_type for a in image.attachments] == ["image/png"]
        assert "[image image/png, " in image.content

        link = await client.call_tool("get-resource-links", {"count": 2})
        assert [a.kind for a in link.attachments] == ["link", "link"]

        wrong = await client.call_tool("echo", {})
        assert "Invalid arguments for tool echo" in wrong.error

        arguments = {"duration": 0.4, "steps": 4}
        done = await client.call_tool("trigger-long-running-operation", arguments)
        assert done.error is None
        assert [(p.progress, p.total) for p in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]


async def test_progress_keeps_a_call_alive_and_silence_ends_it():
    async with everything(timeout=1.5) as client:
        tool = "trigger-long-running-operation"
        assert (await client.call_tool(tool, {"duration": 3, "steps": 6})).error is None
        late = await client.call_tool(tool, {"duration": 120, "steps": 1})
        assert late.error.startswith("MCP server 'everything': no answer within 1.5 s")


async def test_a_server_that_was_killed_is_started_again():
    before = children()
    async with everything() as client:
        (pid,) = children() - before
        os.kill(pid, signal.SIGKILL)

        async def answers() -> bool:
            # the call that finds the server dead may fail, the next one does not
            return (await client.call_tool("echo", {"message": "again"})).error is None

        await eventually(answers)
        assert pid not in children()
    assert children() == before


async def test_a_server_killed_during_a_call_fails_that_call_with_its_last_progress():
    reported = asyncio.Event()
    before = children()
    async with everything(on_progress=lambda progress: reported.set()) as client:
        arguments = {"duration": 60, "steps": 120}
        running = asyncio.create_task(client.call_tool("trigger-long-running-operation", arguments))
        await reported.wait()
        for pid in children() - before:
            os.kill(pid, signal.SIGKILL)
        result = await running
        assert "'everything': ended during the call" in result.error
        assert "its last progress was" in result.error
        assert (await client.call_tool("echo", {"message": "on"})).content == "Echo: on"


@pytest.fixture
def page() -> Iterator[str]:
    """A web page on this machine."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/page"
            self.send_response(200 if found else 404)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<h1>Tides</h1><p>High at noon.</p>" if found else b"no")

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_an_agent_reads_a_page_through_the_fetch_server(page):
    command, *args = [*python_server(FETCH), "--allow-private-ips"]
    model = ScriptedModel(
        call("fetch", url=f"{page}/page"), call("fetch", url=f"{page}/none"), "At noon."
    )
    async with mcp_tools(StdioServer(command=command, args=args)) as tools:
        result = await run(Agent(name="sailor", tools=tools), "High tide?", provider=model)
    assert "High at noon." in result.messages[2].content
    assert "404" in result.messages[4].error
