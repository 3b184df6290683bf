"""The real agent CLIs and the scripted model they talk to, for tests.

`claude_cli` and `codex_cli` are paths of the very binaries that the worker images contain; they are
fetched through npm when they are not here yet. `model_server` is a scripted model of one's own.
"""

import json
import os
import platform
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbiter_contracts import AGENTS

ROOT = Path(__file__).resolve().parents[2]
STATE = Path(os.environ.get("ORBITER_STATE") or ROOT / ".orbiter")
IMAGES = ROOT / "images"
COMMANDS = {name: agent.command for name, agent in AGENTS.items()}
FETCH_SECONDS = 280


def agent_cli(agent: str) -> Path:
    """Return the path of an agent's command, fetching it when it is not here yet."""
    lines = (IMAGES / "versions.env").read_text().splitlines()
    versions = dict(line.split("=", 1) for line in lines if "=" in line)
    home = STATE / "agents" / agent / versions[f"{agent.upper()}_VERSION"]
    command = home / "bin" / COMMANDS[agent]
    if not command.exists():
        assert platform.system() == "Linux", f"{agent} is fetched for Linux only"
        home.parent.mkdir(parents=True, exist_ok=True)
        fetch = ["sh", str(IMAGES / "fetch-agent.sh"), agent, str(home)]
        done = subprocess.run(fetch, capture_output=True, text=True, timeout=FETCH_SECONDS)
        assert done.returncode == 0, f"{' '.join(fetch)} failed: {done.stderr}"
    return command


@pytest.fixture(scope="session")
def claude_cli() -> Path:
    """The real Claude Code CLI."""
    return agent_cli("claude")


@pytest.fixture(scope="session")
def codex_cli() -> Path:
    """The real codex CLI."""
    return agent_cli("codex")


class ModelServer:
    """A running scripted model; `url` is what ANTHROPIC_BASE_URL has to be."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str) -> Any:
        """Return the JSON at a path."""
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.load(answer)

    @property
    def stats(self) -> Any:
        """The counts of requests so far."""
        return self.get("/stats")


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    """A scripted model for one test, in its own process on a free port."""
    command = [sys.executable, "-m", "model_server", "--port", "0"]
    with subprocess.Popen(
        command, cwd=ROOT / "tests", stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("model server: "), f"{' '.join(command)} said {line!r}"
        try:
            yield ModelServer(line.removeprefix("model server: ").strip())
        finally:
            process.terminate()
