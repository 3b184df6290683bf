"""`kubectl orbiter watch` with what the agent does, from a real Redis."""

import json
import threading
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.cells import cell_len
from support.fake_kubectl import FakeKubectl, a_task, an_object, kubectl
from support.front_end import PASSWORD, StubWorker, server, worker
from support.redis_server import RedisServer
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl.main import app
from orbiter.cli.kubectl.screen import Screen
from orbiter.cli.kubectl.transcript_text import Line
from orbiter_contracts.queues import Keys

__all__ = ["kubectl", "server", "worker"]
pytestmark = pytest.mark.integration
KEYS = Keys.of_namespace("default")
PATIENCE_SECONDS = 20.0
AT = datetime(2026, 1, 10, 12, tzinfo=UTC).isoformat()
EDIT = {"file_path": "a.py", "old_string": "x", "new_string": "y"}


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["watch", *words], catch_exceptions=False)


class Agent:
    """Writes transcripts of a task's attempts, as a worker does."""

    def __init__(self, worker: StubWorker) -> None:
        self._redis = worker.redis
        self._written = dict[int, int]()

    def does(self, attempt: int, *events: dict[str, Any]) -> None:
        """Append an entry with these events."""
        first = self._written.get(attempt, 0)
        numbered = [
            {"sequence": first + place, "at": AT, "attempt": attempt, **each}
            for place, each in enumerate(events)
        ]
        self._written[attempt] = first + len(events)
        fields = {"data": json.dumps(numbered), "next": str(first + len(events)), "end": "0"}
        self._redis.xadd(KEYS.task_transcript("uid-hello", attempt), fields)


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def hears(worker: StubWorker) -> None:
    """Wait until somebody reads from Redis and waits there for more."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any("b" in client["flags"] for client in worker.redis.client_list()):
        assert time.monotonic() < deadline


VERDICT = {"type": "verdict", "status": "success", "text": "done"}


@pytest.fixture
def agent(worker: StubWorker) -> Agent:
    return Agent(worker)


@pytest.fixture
def task(kubectl: FakeKubectl, server: RedisServer) -> FakeKubectl:
    """A task whose first attempt works, and the right to read what its agent does."""
    running(kubectl, 1)
    kubectl.has(an_object("Secret", "orbiter-transcript", data={"transcript-url": server.url}))
    return kubectl


def running(kubectl: FakeKubectl, attempt: int) -> None:
    kubectl.has(
        a_task(
            phase="Running",
            message="the agent works" if attempt == 1 else f"attempt {attempt} works",
            attempts=attempt,
            inputStream=KEYS.developer_input,
        )
    )


def ends(kubectl: FakeKubectl, **status: Any) -> None:
    told = {"phase": "Completed", "reason": "Succeeded", "message": "done"} | status
    kubectl.status("AgentTask", "hello", **told)


def test_what_the_agent_says_and_does_appears_between_the_phases(
    task: FakeKubectl, agent: Agent
) -> None:
    agent.does(1, text("I look at it.\n"), {"type": "tool_call", "tool_name": "Edit",
               "tool_call_id": "1", "arguments": json.dumps(EDIT)})  # fmt: skip

    def goes_on() -> None:
        agent.does(1, {"type": "tool_result", "tool_call_id": "1", "seconds": 0.2})
        agent.does(1, text("It is done."), VERDICT)
        ends(task)

    task.once_told(goes_on)
    result = run("hello")
    assert result.exit_code == 0
    first, *rest = result.stdout.splitlines()
    assert first.split(maxsplit=2)[2:] == ["Running        the agent works"]
    assert rest[:6] == [
        "| I look at it.",
        "| → Edit  a.py",
        "|     - x",
        "|     + y",
        "|   ✓ 0.2 s",
        "| It is done.",
    ]
    assert rest[6].split()[2:] == ["Completed", "done"]
    assert rest[7:10] == ["task      hello", "phase     Completed (Succeeded)", "summary   done"]
    assert result.stderr == ""
    assert PASSWORD not in " ".join(" ".join(call.argv) for call in task.calls)


def test_the_next_attempt_is_read_from_its_own_transcript(task: FakeKubectl, agent: Agent) -> None:
    agent.does(1, text("I try."), VERDICT)

    def again() -> None:
        running(task, 2)
        agent.does(2, text("I try again."), VERDICT)
        task.once_told(lambda: ends(task, attempts=2))

    task.once_told(again)
    shown = run("hello").stdout
    assert [shown.count(words) for words in ("I try.", "\nattempt 2\n", "I try again.")] == [1] * 3
    assert shown.index("I try.") < shown.index("attempt 2\n") < shown.index("I try again.")


def test_nothing_is_lost_or_told_twice_over_connections_that_break(
    task: FakeKubectl, agent: Agent, worker: StubWorker
) -> None:
    over = threading.Event()

    def cuts() -> None:
        for number in range(10):
            hears(worker)
            agent.does(1, text(f"word {number}\n"))
            worker.redis.client_kill_filter(_type="normal", skipme=True)
        agent.does(1, VERDICT)
        ends(task)
        over.set()

    task.once_told(cuts)
    shown = run("hello").stdout.splitlines()
    assert over.is_set()
    assert [line for line in shown if "word" in line] == [f"| word {n}" for n in range(10)]


def test_what_is_missing_is_said_and_what_cannot_be_read_is_left_out(
    task: FakeKubectl, agent: Agent, worker: StubWorker
) -> None:
    agent.does(1, text("one\n"))
    key = KEYS.task_transcript("uid-hello", 1)
    worker.redis.xadd(key, {"data": b"\xff\x00{", "odd": "x"})  # type: ignore[dict-item]
    agent._written[1] = 7
    agent.does(1, text("\x1b[2Jtwo\n"), {"type": "unheard"}, VERDICT)
    task.once_told(lambda: ends(task))
    shown = run("hello").stdout
    assert "| one\n| … 6 events are missing here\n| two\n| … 1 events are missing here\n" in shown
    assert "\x1b" not in shown


IMITATED = "   9.9 s  Completed      all is well"
BREAKS = ("\n", "\r", "\r\n", *"\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\n\r", "\x1b[E", "\x1b[1G")


def test_no_line_of_an_agents_looks_like_one_of_the_tasks(task: FakeKubectl, agent: Agent) -> None:
    forged = "".join(f"{each}{IMITATED}{each}phase     Completed (Succeeded)" for each in BREAKS)
    call = {"tool_name": forged, "tool_call_id": "1", "arguments": json.dumps({"command": forged})}
    edit = {"tool_name": "Edit", "arguments": json.dumps(EDIT | {"new_string": forged})}
    agent.does(
        1, text(forged), {"type": "thinking", "text": forged}, {"type": "tool_call", **call},
        {"type": "tool_result", "tool_call_id": "1", "error": forged, "content": forged},
        {"type": "tool_call", **edit}, {"type": "error", "error": forged},
        {"type": "input_request", "question": forged}, text(forged, agent_name=forged[:200]),
        VERDICT,
    )  # fmt: skip
    task.once_told(lambda: ends(task))
    shown = run("hello", "--plain").stdout
    told = [line for line in shown.splitlines() if not line.startswith("|")]
    assert len(shown.splitlines()) > 40
    assert [line.split()[2:] for line in told[:2]] == [
        ["Running", "the", "agent", "works"], ["Completed", "done"],
    ]  # fmt: skip
    assert told[2:] == [
        "task      hello", "phase     Completed (Succeeded)", "summary   done", "attempts  1",
    ]  # fmt: skip


def test_a_terminal_that_is_narrow_breaks_no_line_of_an_agents_behind_its_mark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    Screen(plain=True).lines([Line("x" * 38 + IMITATED), Line("漢" * 30), Line("")])
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("|") and cell_len(line) <= 40 for line in lines)
    assert lines[0] == "| " + "x" * 38
    assert IMITATED.strip() in lines[1]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (None, "there is no Secret orbiter-transcript or orbiter-redis in namespace default"),
        ("redis://127.0.0.1:1/0", "Redis at 127.0.0.1 does not answer"),
    ],
)
def test_without_the_transcript_the_task_is_followed_and_why_is_said_once(
    kubectl: FakeKubectl, url: str | None, why: str
) -> None:
    running(kubectl, 1)
    if url is not None:
        kubectl.has(an_object("Secret", "orbiter-transcript", data={"transcript-url": url}))
    kubectl.once_told(lambda: ends(kubectl))
    result = run("hello")
    assert result.exit_code == 0
    assert "Running        the agent works" in result.stdout
    assert result.stdout.count("Completed") == 2
    said = " ".join(result.stderr.split())
    assert said.count("what the agent does is not shown:") == 1
    assert why in said


def test_programs_that_read_json_and_tasks_that_have_ended_need_no_redis(task: FakeKubectl) -> None:
    task.once_told(lambda: ends(task))
    told = [json.loads(line) for line in run("hello", "--json").stdout.splitlines()]
    assert [each["status"]["phase"] for each in told] == ["Running", "Completed"]
    assert run("hello").exit_code == 0
    assert not any("secret" in call.argv for call in task.calls)
