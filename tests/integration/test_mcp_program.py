"""An MCP server of Orbiter's as a program, and who uses it: our client, and Claude Code."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent_clis import ModelServer
from support.eventually import eventually
from support.mcp_servers import our_environment

from orbiter.mcp import HttpServer, MCPClient, MCPConnectionError, StdioServer

pytestmark = pytest.mark.integration

PROGRAM = Path(__file__).with_name("mcp_program.py")
TOKEN = "let-me-in"


def by_stdio() -> StdioServer:
    return StdioServer(command=sys.executable, args=[str(PROGRAM)], env=our_environment())


class Program:
    """The program, serving HTTP on a port that it keeps over restarts."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.start()

    def start(self) -> None:
        environ = {**os.environ, **our_environment(), "TOKEN": TOKEN}
        self.process = subprocess.Popen([sys.executable, PROGRAM, str(self.port)], env=environ)

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def client(self, token: str = TOKEN, **settings) -> MCPClient:
        headers = {"Authorization": f"Bearer {token}"}
        return MCPClient(HttpServer(url=self.url, headers=headers), name="program", **settings)


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    yield program
    program.kill()


async def test_tools_and_agents_are_served_over_stdio():
    async with MCPClient(by_stdio()) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert names == ["pid", "add", "die", "calculator"]
        answer = await client.call_tool("calculator", {"input": "20 + 22?"})
        assert answer.content == "It is 42."


async def test_a_server_that_dies_in_a_call_serves_the_next_one():
    async with MCPClient(by_stdio(), name="program") as client:
        first = (await client.call_tool("pid")).content
        died = await client.call_tool("die")
        assert "MCP server 'program': ended during the call" in died.error
        second = await client.call_tool("pid")
        assert second.error is None
        assert second.content != first
    with pytest.raises(ProcessLookupError):
        os.kill(int(second.content), 0)


async def test_a_program_that_never_comes_back_is_an_error_that_says_so(tmp_path):
    program = tmp_path / "once.py"
    program.write_text(PROGRAM.read_text())
    server = StdioServer(command=sys.executable, args=[str(program)], env=our_environment())
    async with MCPClient(server, name="once", reconnect_pauses=(0, 0.01)) as client:
        program.write_text("raise SystemExit('the disk is gone')")
        await client.call_tool("die")
        result = await client.call_tool("pid")
        assert result.error.startswith("MCP server 'once': cannot be reached")
        assert "the disk is gone" in result.error


async def test_over_http_only_who_has_the_token_is_served(program):
    await eventually(program.answers)
    async with program.client() as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"sum": 3}
    with pytest.raises(MCPConnectionError, match="HTTP 401 Unauthorized"):
        async with program.client(token="guess"):
            pass


async def test_a_restarted_http_server_is_found_again(program):
    await eventually(program.answers)
    async with program.client(reconnect_pauses=(0, 0.01)) as client:
        first = (await client.call_tool("pid")).content
        program.kill()

        async def is_missed() -> bool:
            error = (await client.call_tool("pid")).error
            return (
                error == "MCP server 'program': cannot be reached: All connection attempts failed"
            )

        await eventually(is_missed)
        program.start()
        await eventually(program.answers)
        second = await client.call_tool("pid")
        assert second.error is None
        assert second.content != first


async def test_a_server_ends_when_told_to_although_a_client_is_connected(program):
    await eventually(program.answers)
    async with program.client() as client:
        await client.call_tool("pid")
        program.process.terminate()
        await asyncio.to_thread(program.process.wait, 60)


async def test_connections_that_nobody_closed_end_with_the_event_loop(tmp_path):
    user = tmp_path / "user.py"
    user.write_text(
        "import asyncio\n"
        "from orbiter.mcp import StdioServer, mcp_tools\n"
        "async def main():\n"
        f"    server = StdioServer.model_validate({by_stdio().model_dump()!r})\n"
        "    tools = await mcp_tools(server, allow=['pid'])\n"
        "    print(await tools[0].execute())\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", user),
        env={**os.environ, **our_environment()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    with pytest.raises(ProcessLookupError):
        os.kill(int(out), 0)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_claude_code_calls_our_tools_and_agents(
    transport, program, claude_cli, model_server: ModelServer, tmp_path
):
    await eventually(program.answers)
    entry = {"command": sys.executable, "args": [str(PROGRAM)], "env": our_environment()}
    if transport == "http":
        headers = {"Authorization": f"Bearer {TOKEN}"}
        entry = {"type": "http", "url": program.url, "headers": headers}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"orbiter": entry}}))
    script = (
        '[[tool: mcp__orbiter__calculator {"input": "20 + 22?"}]]\n[[say: the agent says {output}]]'
    )
    process = await asyncio.create_subprocess_exec(
        *(claude_cli, "-p", "--output-format", "json", "--dangerously-skip-permissions"),
        *("--mcp-config", config, "--strict-mcp-config"),
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "ANTHROPIC_BASE_URL": model_server.url,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate(script.encode())
    assert out, err
    assert json.loads(out)["result"] == "the agent says It is 42."
