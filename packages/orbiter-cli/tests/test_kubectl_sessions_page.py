"""docs/sessions.md and examples/chat_bot.py tell what is so: what they say is run."""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis.asyncio import Redis
from support.real_agents import RealWorkers
from support.redis_server import RedisServer

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "sessions.md"
BOT = ROOT / "examples" / "chat_bot.py"
CRD = ROOT / "crds" / "posession.yaml"
BLOCK = re.compile(
    r"^```(?P<kind>sh|python)\n(?P<code>.*?)^```$(?:\n+```text\n(?P<prints>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
PATIENCE_SECONDS = 120


def spec_fields() -> Iterator[str]:
    """Every field of a POSession's spec, but for the parts it shares with tasks."""
    [version] = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    for name, field in spec.items():
        inner = {} if name in ("agent", "podTemplate") else field.get("properties", {})
        yield from (f"{name}.{each}" for each in inner) if inner else (name,)


@pytest.mark.parametrize("field", list(spec_fields()))
def test_the_page_has_every_field_of_the_spec(field: str) -> None:
    assert f"`{field}" in PAGE.read_text()


def test_the_page_has_every_field_of_the_status() -> None:
    [version] = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    text = PAGE.read_text().partition("`status` has")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", text)) == set(status)


@pytest.fixture
def worker(claude_workers: RealWorkers) -> None:
    claude_workers.start("default.alice", WORKER_TYPE="po", USER_ID="4711")


@pytest.fixture
async def environ(redis: Redis, redis_server: RedisServer, tmp_path: Path) -> dict[str, str]:
    """A shell in which `redis-cli --user chat-default` reaches the server of this run."""
    await redis.execute_command("ACL", "SETUSER", "chat-default", "on", ">pass", "~*", "+@all")
    program = tmp_path / "bin" / "redis-cli"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec /usr/bin/redis-cli -p {redis_server.port} "$@"\n')
    program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "REDISCLI_AUTH": "pass",
        "REDIS_URL": f"redis://chat-default:pass@127.0.0.1:{redis_server.port}/0",
    }


def run(environ: dict[str, str], *command: str | Path, stdin: str = "") -> str:
    done = subprocess.run(
        list(map(str, command)),
        env=environ,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def looks_like(printed: str, told: str) -> bool:
    """Whether a text is the one in the page, where … stands for anything."""
    pattern = ".*".join(re.escape(piece) for piece in told.rstrip().split("…"))
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


@pytest.mark.integration
def test_the_commands_of_the_page_do_what_it_tells(worker: None, environ: dict[str, str]) -> None:
    blocks = list(BLOCK.finditer(PAGE.read_text()))
    programs: dict[str, tuple[Any, ...]] = {
        "sh": ("bash", "-euo", "pipefail", "-c"),
        "python": (sys.executable, "-c"),
    }
    for block in blocks:
        printed = run(environ, *programs[block["kind"]], block["code"])
        assert "ERR" not in printed
        if block["prints"] is not None:
            assert looks_like(printed, block["prints"]), f"{block['code']} prints:\n{printed}"
    assert [block["kind"] for block in blocks].count("sh") == 5


@pytest.mark.integration
def test_the_bot_of_the_example_talks(claude_workers: RealWorkers, environ: dict[str, str]) -> None:
    claude_workers.start("default.alice", WORKER_TYPE="po", STREAMING="Enabled")
    lines = "[[remember: blue]]\n\n[[say: I look.]] [[bash: true]] [[recall]]\n"
    streams = (f"worker:po:default.alice:{end}" for end in ("input", "output"))
    said = run(environ, sys.executable, BOT, *streams, "4711", stdin=lines)
    assert said.splitlines()[:4] == ["I will remember: blue", "I look.", "", "I remember: blue"]


def bot_shows(capsys: pytest.CaptureFixture[str], *outputs: dict[str, Any]) -> str:
    rest = {"is_final": False, "part": 0, "text": "", "error": None}
    runpy.run_path(str(BOT))["show"]([rest | output for output in outputs])
    return capsys.readouterr().out


def test_the_bot_shows_whole_answers_pieces_and_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    final = {"is_final": True}
    assert bot_shows(capsys, final | {"text": "whole"}) == "whole\n"
    assert bot_shows(capsys, final | {"error": "it crashed"}) == "error: it crashed\n"
    pieces = [{"text": "I look."}, {"text": "\n\nDo", "part": 1}, {"text": "ne", "part": 1}]
    assert bot_shows(capsys, *pieces, final | {"text": "Done: 3"}) == "I look.\n\nDone: 3\n"


def test_the_bot_has_about_sixty_lines() -> None:
    assert len(BOT.read_text().splitlines()) <= 65


@pytest.mark.parametrize(
    ("words", "url", "told"),
    [
        (
            [],
            "redis://127.0.0.1:1/0",
            "usage: REDIS_URL=redis://... chat_bot.py INPUT OUTPUT USER_ID",
        ),
        (["in", "out", "x"], "redis://127.0.0.1:1/0", "USER_ID (a number)"),
        (["in", "out", "7"], None, "usage: REDIS_URL="),
        (["in", "out", "7"], "nowhere", "Redis URL must specify"),
        (["in", "out", "7"], "redis://127.0.0.1:1/0", "127.0.0.1:1. Connection refused"),
    ],
)
def test_what_the_bot_cannot_do_is_one_line(words: list[str], url: str | None, told: str) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    done = subprocess.run(
        [sys.executable, BOT, *words],
        env=environ | ({"REDIS_URL": url} if url else {}),
        input="hi\n",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
