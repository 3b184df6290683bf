"""MCP clients run tasks on the real cluster: the official one and Claude Code, by both transports.

`kubectl orbiter mcp` speaks as whoever has the kubeconfig, the server's `/mcp` as whoever has the
token.
"""

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.agent_clis import ModelServer
from support.eventually import eventually
from support.plugin import Plugin
from support.world import NAMESPACE, World

from .test_e2e_server_people import FLAGS as PEOPLE_FLAGS
from .test_e2e_server_people import Reader

HOME = RELEASE = "e2e-doors"
NAME = f"{RELEASE}-orbiter-server"
QUESTION = '[[result: {"status": "input_required", "summary": "looked", "question": "Which?"}]]'
# the last of a setting counts
FLAGS = (
    *PEOPLE_FLAGS,
    *(
        "--set",
        f"watchNamespaces={{{HOME},{NAMESPACE}}}",
        "--set",
        f"workers.namespaces={{{HOME}}}",
    ),
)
CLAUDE_SECONDS = 280
PERSON = "by-mcp"


@pytest.fixture(scope="module")
def plugin(world: World) -> Plugin:
    return Plugin(world)


@pytest.fixture(scope="module")
def token(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of somebody who may edit in the namespace of the tests, for the server and the API server."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(world.cluster.namespace(HOME))
        reader = Reader(world, tmp_path_factory.mktemp("reader"), RELEASE, FLAGS)
        words = ("uninstall", RELEASE, "-n", HOME, "--ignore-not-found", "--wait")
        stack.callback(world.cluster.helm, *words, "--timeout", "100s")
        reader.follow(0)
        world.kubectl("-n", NAMESPACE, "create", "serviceaccount", PERSON)
        stack.callback(world.kubectl, "-n", NAMESPACE, "delete", "serviceaccount", PERSON)
        account = f"--serviceaccount={NAMESPACE}:{PERSON}"
        binding = ("-n", NAMESPACE, "create", "rolebinding", PERSON, "--clusterrole=edit", account)
        world.kubectl(*binding)
        stack.callback(world.kubectl, "-n", NAMESPACE, "delete", "rolebinding", PERSON)
        told = json.loads(world.kubectl("get", "--raw", "/.well-known/openid-configuration"))
        audiences = ("--audience=orbiter-server", f"--audience={told['issuer']}")
        yield world.kubectl("-n", NAMESPACE, "create", "token", PERSON, *audiences).strip()


@pytest.fixture
async def url(world: World, token: str) -> AsyncIterator[str]:
    """The server's `/mcp`, through a port-forward."""
    with world.forward(f"service/{NAME}", 8000, HOME) as port:
        address = f"http://127.0.0.1:{port}"

        async def ready() -> bool:
            async with httpx.AsyncClient() as http:
                with contextlib.suppress(httpx.TransportError):
                    return (await http.get(f"{address}/readyz")).status_code == 200
            return False

        await eventually(ready, seconds=60)
        yield f"{address}/mcp"


@asynccontextmanager
async def by_stdio(plugin: Plugin) -> AsyncIterator[Any]:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    words, environ = plugin.command("mcp")
    program = StdioServerParameters(command=words[0], args=words[1:], env=environ)
    async with Client(stdio_client(program), cache=None) as client:
        yield client


@asynccontextmanager
async def by_http(url: str, token: str) -> AsyncIterator[Any]:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=180) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, cache=None) as client:
            yield client


async def called(client: Any, name: str, /, **arguments: Any) -> Any:
    result = await client.call_tool(name, {"namespace": NAMESPACE, **arguments})
    assert not result.is_error, result
    return result.structured_content


async def end_to_end(client: Any, world: World, name: str) -> None:
    """Submit twice, watch until it asks, answer, watch to its end, and read what it has kept."""
    told: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    wanted = {
        "prompt": f"[[bash: mkdir -p out; echo kept > out/report]]\n{QUESTION}",
        "artifacts": ["out"], "agent": "claude", "idempotency_key": name,
    }  # fmt: skip
    assert (await called(client, "submit_task", **wanted))["created"]
    assert not (await called(client, "submit_task", **wanted))["created"]
    place = {"namespace": NAMESPACE, "name": name}
    watched = await client.call_tool(
        "watch_task", {**place, "seconds": 150}, progress_callback=progress
    )
    seen = watched.structured_content
    assert seen["ended"] == "asks", seen
    assert seen["agent_said"]["question"] == "Which?"
    assert any(message.startswith("InputRequired") for message in told)
    asked = seen["task"]["question_id"]
    prompt = "[[bash: mkdir -p out; echo kept > out/report]]\n[[result]]"
    await called(client, "answer_task", name=name, question_id=asked, text=prompt)
    end = await called(client, "watch_task", name=name, seconds=150)
    assert (end["ended"], end["task"]["phase"]) == ("over", "Completed"), end
    listed = await called(client, "list_artifacts", name=name)
    assert [each["name"] for each in listed["agent_said"]["files"]] == ["out/report"]
    assert listed["agent_said"]["files"][0]["place"] == "redis"
    found = await called(client, "get_artifact", name=name, file="out/report")
    assert found["agent_said"]["text"] == "kept\n"
    every = await called(client, "list_tasks", limit=100)
    assert name in [each["task"]["name"] for each in every["tasks"]]
    (given,) = world.cluster.get("agenttask", name, NAMESPACE)["spec"]["input"]
    assert given["id"] == asked


async def test_the_official_client_runs_a_task_by_the_plugin(plugin: Plugin, world: World) -> None:
    async with by_stdio(plugin) as client:
        await end_to_end(client, world, "mcp-by-stdio")


async def test_the_official_client_runs_a_task_by_the_server(
    url: str, token: str, world: World
) -> None:
    async with by_http(url, token) as client:
        await end_to_end(client, world, "mcp-by-http")
    (given,) = world.cluster.get("agenttask", "mcp-by-http", NAMESPACE)["spec"]["input"]
    assert given["by"] == f"system:serviceaccount:{NAMESPACE}:{PERSON}"


async def test_the_server_does_nothing_by_a_right_of_its_own(
    url: str, world: World, token: str
) -> None:
    reads = ("-n", NAMESPACE, "create", "token", PERSON, "--audience=orbiter-server")
    async with by_http(url, world.kubectl(*reads).strip()) as client:
        new = {"namespace": NAMESPACE, "prompt": "[[result]]", "name": "not-made"}
        result = await client.call_tool("submit_task", new)
        assert result.structured_content["error"]["code"] == "reads_only"
        new["namespace"] = "kube-system"
    async with by_http(url, token) as client:
        result = await client.call_tool("submit_task", new)
        assert result.structured_content["error"]["code"] == "refused"
    assert "not-made" not in world.tasks()


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_claude_code_runs_a_task(
    transport: str,
    request: pytest.FixtureRequest,
    world: World,
    plugin: Plugin,
    claude_cli: Path,
    model_server: ModelServer,
    tmp_path: Path,
) -> None:
    name = f"claude-by-{transport}"
    words, environ = plugin.command("mcp")
    kept = {key: environ[key] for key in ("PATH", "KUBECONFIG")}
    entry: dict[str, Any] = {"command": words[0], "args": words[1:], "env": kept}
    if transport == "http":
        token = request.getfixturevalue("token")
        with world.forward(f"service/{NAME}", 8000, HOME) as port:
            headers = {"Authorization": f"Bearer {token}"}
            entry = {"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "headers": headers}
            await by_claude(entry, name, claude_cli, model_server, tmp_path)
    else:
        await by_claude(entry, name, claude_cli, model_server, tmp_path)
    status = world.wait(name, "Completed")
    assert status["result"]["summary"] == "by claude"


async def by_claude(
    entry: dict[str, Any], name: str, claude: Path, model: ModelServer, directory: Path
) -> None:
    """Let Claude Code submit a task and watch it to its end, in one turn."""
    config = directory / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"orbiter": entry}}))
    wanted = {
        "prompt": '[[result: {"status": "success", "summary": "by claude"}]]',
        "namespace": NAMESPACE, "agent": "claude", "idempotency_key": name,
    }  # fmt: skip
    place = {"namespace": NAMESPACE, "name": name, "seconds": 150}
    # a directive of the task's script is none of this one's
    told = json.dumps(wanted).replace("[[", r"\u005b[").replace("]]", r"]\u005d")
    script = (
        f"[[tool: mcp__orbiter__submit_task {told}]]\n"
        f"[[tool: mcp__orbiter__watch_task {json.dumps(place)}]]\n"
        "[[say: it ended so: {output}]]"
    )
    process = await asyncio.create_subprocess_exec(
        *(str(claude), "-p", "--output-format", "json", "--dangerously-skip-permissions"),
        *("--mcp-config", str(config), "--strict-mcp-config"),
        cwd=directory,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(CLAUDE_SECONDS):
            out, err = await process.communicate(script.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert out, err
    assert "over" in json.loads(out)["result"], out
