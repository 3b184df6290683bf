"""The real codex CLI against the scripted model, on loopback."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.agent_clis import ModelServer

pytestmark = pytest.mark.integration

FLAGS = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")


class Codex:
    """codex with a home of its own."""

    def __init__(self, command: Path, server: ModelServer, home: Path) -> None:
        self._command = command
        self._home = home
        self._base = f'openai_base_url="{server.url}/v1"'

    def ask(self, prompt: str, *words: str, model: str | None = None) -> list[dict[str, Any]]:
        flags = [*FLAGS, "-c", self._base, *(["-m", model] if model else [])]
        done = subprocess.run(
            [self._command, "exec", *words[:1], *flags, *words[1:], "-"],
            cwd=self._home,
            env={"PATH": os.environ["PATH"], "HOME": str(self._home), "CODEX_API_KEY": "scripted"},
            input=prompt,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]


def last_message(events: list[dict[str, Any]]) -> str:
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return str([item["text"] for item in items if item["type"] == "agent_message"][-1])


@pytest.fixture
def codex(codex_cli: Path, model_server: ModelServer, tmp_path: Path) -> Codex:
    return Codex(codex_cli, model_server, tmp_path)


@pytest.mark.parametrize("model", [None, "gpt-5"])
def test_it_runs_commands_with_either_of_its_shell_tools(codex: Codex, model: str | None) -> None:
    events = codex.ask("[[bash: echo one; echo two]]\n[[say: I saw {output}]]", model=model)
    assert last_message(events) == "I saw one\ntwo"
    assert events[-1]["type"] == "turn.completed"
    assert events[-1]["usage"]["output_tokens"] > 0


def test_a_resumed_thread_remembers(codex: Codex) -> None:
    thread = codex.ask("[[remember: green]]")[0]["thread_id"]
    assert last_message(codex.ask("[[recall]]", "resume", thread)) == "I remember: green"


def test_it_reports_a_refused_request(codex: Codex) -> None:
    assert codex.ask("[[status: 400]]")[-1]["type"] == "turn.failed"
