"""The real Claude Code CLI against the scripted model, on loopback."""

import json
import os
import signal
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
from support.agent_clis import ModelServer
from support.eventually import eventually

pytestmark = pytest.mark.integration

FLAGS = ("-p", "--output-format", "json", "--dangerously-skip-permissions")


class Claude:
    """Claude Code with a home and a working directory of its own."""

    def __init__(self, command: Path, server: ModelServer, home: Path) -> None:
        self._command = command
        self._home = home
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_MAX_RETRIES": "3",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            # As root the CLI refuses to skip permissions unless it is told that it is contained.
            "IS_SANDBOX": "1",
        }

    def start(self, prompt: str, *flags: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [self._command, *FLAGS, *flags],
            cwd=self._home,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(prompt)
        process.stdin.close()
        process.stdin = None
        return process

    def ask(self, prompt: str, *flags: str) -> tuple[int, dict[str, Any]]:
        process = self.start(prompt, *flags)
        out, err = process.communicate(timeout=60)
        assert out, f"no output, exit code {process.returncode}: {err}"
        return process.returncode, json.loads(out)


@pytest.fixture
def claude(claude_cli: Path, model_server: ModelServer, tmp_path: Path) -> Claude:
    return Claude(claude_cli, model_server, tmp_path)


def test_it_answers_what_the_script_says(claude: Claude) -> None:
    code, answer = claude.ask("[[say: hello there]]")
    assert (code, answer["result"], answer["is_error"]) == (0, "hello there", False)
    assert answer["total_cost_usd"] > 0
    assert answer["num_turns"] == 1


def test_it_greets_without_a_script(claude: Claude) -> None:
    code, answer = claude.ask("What can you do?")
    assert code == 0
    assert '<result>\n{"status": "success"' in answer["result"]


def test_it_runs_the_commands_of_the_script(claude: Claude, tmp_path: Path) -> None:
    script = "[[bash: echo made > made.txt]]\n[[bash: cat made.txt]]\n[[say: it says {output}]]"
    code, answer = claude.ask(script)
    assert (code, answer["result"], answer["num_turns"]) == (0, "it says made", 3)
    assert (tmp_path / "made.txt").read_text() == "made\n"


def test_it_tries_again_after_429(claude: Claude, model_server: ModelServer) -> None:
    code, answer = claude.ask("[[status: 429 x2]] [[say: made it]]")
    assert (code, answer["result"]) == (0, "made it")
    assert model_server.stats["statuses"]["429"] == 2


def test_it_gives_up_on_401(claude: Claude) -> None:
    code, answer = claude.ask("[[status: 401]]")
    assert (code, answer["is_error"], answer["api_error_status"]) == (1, True, 401)


async def test_it_ends_when_it_is_interrupted_while_the_model_hangs(
    claude: Claude, model_server: ModelServer
) -> None:
    process = claude.start("[[hang]]")
    await eventually(lambda: model_server.stats["active"] == 1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    # Interrupted in its first moments it leaves with exit code 0 and without a word.
    assert out == "" or json.loads(out)["subtype"] == "error_during_execution"
    await eventually(lambda: model_server.stats["active"] == 0)


def test_a_resumed_session_remembers(claude: Claude) -> None:
    session = str(uuid.uuid4())
    claude.ask("[[remember: the word is blue]]", "--session-id", session)
    code, answer = claude.ask("[[recall]]", "--resume", session)
    assert (code, answer["result"]) == (0, "I remember: the word is blue")
    assert claude.ask("[[recall]]")[1]["result"] == "I remember nothing."


def test_a_budget_stops_it(claude: Claude) -> None:
    script = "[[usage: 1000000 in, 100000 out]]\n[[bash: true]]\n[[bash: true]]\n[[say: dear]]"
    code, answer = claude.ask(script, "--max-budget-usd", "0.5")
    assert (code, answer["subtype"]) == (1, "error_max_budget_usd")
