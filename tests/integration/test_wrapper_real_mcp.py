"""Real CLI agents call tools of real MCP servers that the wrapper tells them of."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.mcp_servers import our_environment
from support.ports import free_port
from support.queues import UID, Queues
from support.real_agents import RealWorkers

from orbiter_contracts.mcp_servers import told_of_mcp_servers
from orbiter_contracts.queues import BARE
from orbiter_contracts.transcript import AnyEvent
from orbiter_contracts.transcript_reading import TranscriptReader, read_entry

pytestmark = pytest.mark.integration

TOKEN = "s3cr3t$HOME-token"
GIVEN = 'it\'s ${HOME} in "marks"'
PROGRAM = Path(__file__).with_name("mcp_told.py")
SECRET = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
TOOLS = {
    "claude": "mcp__{}__told",
    "codex": "mcp__{}.told",
    "factory": "{}___told",
    "gemini": "mcp_{}_told",
    "opencode": "{}_told",
    "orbiter": "{}_told",
}
SAYS_ITSELF = {"codex": "scripted"}
"""Models whose tools the CLI offers by their names, and not from within a program."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[int]:
    """The port of a real MCP server that wants the token."""
    port, log = free_port(), tmp_path / "mcp.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(port)],
            env={**os.environ, **our_environment(), "TOKEN": TOKEN},
            stdout=output,
            stderr=output,
        )
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def servers(port: int, begun: Path) -> dict[str, str]:
    """What a pod has of them; the one that is a program makes the file `begun`."""
    told = told_of_mcp_servers(
        [
            {
                "name": "docs",
                "url": f"http://127.0.0.1:{port}/mcp",
                "headers": [{"name": "Authorization", **SECRET}],
            },
            {
                "name": "files",
                "command": sys.executable,
                "args": [str(PROGRAM), "$HOME", str(begun)],
                "env": [{"name": "GIVEN", **SECRET}],
            },
        ]
    )
    values = dict(zip(told.secrets, (f"Bearer {TOKEN}\n", GIVEN), strict=True))
    return told.environment | values | {"SECRET_ENV": ",".join(values)}


async def up(port: int) -> None:
    import httpx

    async def answers() -> bool:
        async with httpx.AsyncClient() as client:
            try:
                return (await client.get(f"http://127.0.0.1:{port}/mcp")).status_code > 0
            except httpx.TransportError:
                return False

    await eventually(answers, seconds=60)


async def seen(redis: Redis) -> list[AnyEvent]:
    reader = TranscriptReader()
    entries = await redis.xrange(BARE.task_transcript(UID, 1))
    return [event for _, fields in entries for event in reader.take(read_entry(fields))]


def holding(text: str, *places: Path) -> list[Path]:
    """Files in which a text is."""
    files = (path for place in places for path in place.rglob("*") if path.is_file())
    return [path for path in files if text.encode() in path.read_bytes()]


@pytest.mark.parametrize("name", sorted(TOOLS))
async def test_the_agent_calls_their_tools_and_what_is_secret_is_in_no_file_and_no_argument(
    name: str, request: pytest.FixtureRequest, redis: Redis, server: int
) -> None:
    workers: RealWorkers = request.getfixturevalue(f"{name}_workers")
    queues = Queues(redis)
    await up(server)
    remote, local = (TOOLS[name].format(each) for each in ("docs", "files"))
    begun = workers.work / "begun"
    # droid waits for no server: one that begins too slowly is missing in the whole turn.
    started = name != "factory"
    calls = [
        f"[[bash: while [ ! -e {begun} ]; do sleep 0.05; done]]",
        f"[[tool: {remote} {{}}]]",
        *([f"[[tool: {local} {{}}]]"] if started else []),
        "[[bash: cat /proc/$PPID/cmdline > argv.bin]]",
        '[[result: {"status": "success", "summary": "called"}]]',
    ]
    bound = await queues.bound_task("\n".join(calls))
    model = {"AGENT_MODEL": SAYS_ITSELF[name]} if name in SAYS_ITSELF else {}
    worker = workers.start(**bound, **servers(server, begun), **model)
    assert await worker.exit_code(seconds=280) == 0
    output = await queues.output()
    assert output.status == "success", output.error
    results = [event for event in await seen(redis) if event.type == "tool_result"]
    told = [event.content.replace("\\", "") for event in results]
    assert str(server) in told[1]
    if started:
        assert "$HOME" in told[2]
        assert GIVEN[::-1].replace('"', "") in told[2].replace('"', "")
    assert (workers.work / "argv.bin").stat().st_size
    for secret in (TOKEN, GIVEN):
        assert holding(secret, workers.home, workers.work) == []
        assert secret not in worker.output


ELSEWHERE = "http://127.0.0.1:9/mcp"
OWN = {
    "claude": (".mcp.json", {"mcpServers": {"docs": {"type": "http", "url": ELSEWHERE}}}),
    "codex": (".codex/config.toml", f'[mcp_servers.docs]\nurl = "{ELSEWHERE}"\n'),
    "gemini": (".gemini/settings.json", {"mcpServers": {"docs": {"httpUrl": ELSEWHERE}}}),
    "opencode": ("opencode.json", {"mcp": {"docs": {"type": "remote", "url": ELSEWHERE}}}),
}
"""What a repository may have of its own; droid is not here, because it lets that win."""


@pytest.mark.parametrize("name", sorted(OWN))
async def test_a_server_of_the_repository_does_not_take_the_place_of_one_of_the_task(
    name: str, request: pytest.FixtureRequest, redis: Redis, server: int
) -> None:
    workers: RealWorkers = request.getfixturevalue(f"{name}_workers")
    queues = Queues(redis)
    await up(server)
    path, content = OWN[name]
    file = workers.work / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    bound = await queues.bound_task(f"[[tool: {TOOLS[name].format('docs')} {{}}]]\n[[result]]")
    model = {"AGENT_MODEL": SAYS_ITSELF[name]} if name in SAYS_ITSELF else {}
    given = servers(server, workers.work / "begun")
    assert await workers.start(**bound, **given, **model).exit_code(seconds=280) == 0
    [told] = [event for event in await seen(redis) if event.type == "tool_result"]
    assert str(server) in told.content, told.error
