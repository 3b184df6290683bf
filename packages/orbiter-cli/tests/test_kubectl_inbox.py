"""`kubectl orbiter inbox` and `top`: what waits for a person, and what works now."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from support.fake_kubectl import FakeKubectl, Object, a_session, a_task, kubectl
from support.front_end import StubWorker, server, worker
from support.redis_server import RedisServer
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl.main import app
from orbiter.cli.kubectl.questions import Waiting, whole
from orbiter.cli.kubectl.top import render, working
from orbiter.cli.ui.text import money, spent
from orbiter_contracts import POWorkerOutput, encode

__all__ = ["kubectl", "server", "worker"]
NOW = datetime(2026, 1, 10, 12, 5, tzinfo=UTC)
CALL = {"tool": "refund", "arguments": {"order": 7}, "digest": "d"}
TITLE = "\x1b]0;pwned\a"


def run(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, list(words), input=stdin, catch_exceptions=False)


def asking(name: str, question: str, asked_at: str, **changes: Any) -> Object:
    namespace = changes.pop("namespace", "default")
    asked = {"id": f"q-{name}", "question": question, "askedAt": asked_at, **changes}
    task = a_task(name, phase="InputRequired", inputRequest=asked)
    task["metadata"]["namespace"] = namespace
    return task


def test_the_inbox_lists_what_waits_the_longest_first(kubectl: FakeKubectl) -> None:
    answered = asking("third", "Sure?", "2026-01-10T10:00:00Z")
    answered["spec"]["input"] = [{"id": "q-third", "text": "yes"}]
    kubectl.has(
        asking("second", "Which\ncolour?", "2026-01-10T12:00:00Z"),
        asking("first", "May I?", "2026-01-10T11:00:00Z", kind="approval", calls=[CALL]),
        asking("elsewhere", "Left?", "2026-01-10T09:00:00Z", namespace="team-b"),
        answered,
        a_task("fourth", phase="Running"),
    )
    head, first, second = run("inbox").stdout.splitlines()
    assert head.split() == ["NAMESPACE", "NAME", "WAITS", "ASKS", "QUESTION"]
    assert first.split()[:3] == ["1", "default", "at/first"]
    assert first.split()[-3:] == ["approval", "May", "I?"]
    assert second.endswith("question  Which colour?")
    everywhere = run("inbox", "-A").stdout.splitlines()
    assert "team-b" in everywhere[1]
    assert len(everywhere) == 4


def test_programs_read_the_inbox_as_json(kubectl: FakeKubectl) -> None:
    kubectl.has(asking("first", "May I?", "2026-01-10T11:00:00Z", kind="approval", calls=[CALL]))
    assert json.loads(run("inbox", "--json").stdout) == [
        {
            "kind": "AgentTask",
            "namespace": "default",
            "name": "first",
            "asks": "approval",
            "question": "May I?",
            "askedAt": "2026-01-10T11:00:00Z",
            "id": "q-first",
            "calls": [CALL],
        }
    ]


def test_an_empty_inbox_says_so(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="Running"))
    assert run("inbox").stdout == "nothing waits for a person\n"
    assert run("inbox", "--json").stdout == "[]\n"


def test_a_question_is_text_whatever_is_in_it(kubectl: FakeKubectl) -> None:
    call = {"tool": f"rm{TITLE}", "arguments": {"path": "\x9b31m"}, "digest": "d"}
    task = asking("one", f"{TITLE}Really?", "never", kind="approval", calls=[call, "odd"])
    kubectl.has(task)
    shown = run("inbox")
    assert (shown.exit_code, "\x1b" in shown.stdout) == (0, False)
    told = whole(Waiting("q", "approval", f"{TITLE}Really?", None, (call,), task))
    assert "Really?" in told
    assert told.splitlines()[-1] == "Type approve, or deny and a reason. An empty line leaves it."


def test_of_what_is_to_be_approved_nothing_hides(kubectl: FakeKubectl) -> None:
    task = asking("one", "", "never", kind="approval")

    def told(command: str) -> str:
        call = {"tool": "sh\u202e", "arguments": {"command": command}, "digest": "d"}
        return whole(Waiting("q", "approval", "", None, (call,), task))

    assert "sh\\u202e(" in told("ls")
    assert "ls \\u2066; rm -rf /\\u200b" in told("ls \u2066; rm -rf /\u200b")
    assert "; rm -rf /" in told("ls" + " " * 30_000 + "; rm -rf /")
    much = told("ls" + " " * 50_000 + "; rm -rf /")
    assert "characters of these arguments are NOT shown" in much
    assert "kubectl get at one -n default -o yaml" in much


@pytest.mark.integration
def test_a_session_whose_last_answer_asks_is_in_the_inbox(
    kubectl: FakeKubectl, server: RedisServer, worker: StubWorker
) -> None:
    kubectl.has(
        a_session("alice", turns=2, lastActivityTime="2026-01-10T11:00:00Z"),
        a_session("bob", turns=1, outputStream="worker:po:po-2:output"),
        a_session("carol", turns=1, pendingMessages=1),
    )
    asks = POWorkerOutput(request_id="r", user_id=7, text="Which?", status="input_required")
    says = POWorkerOutput(request_id="r", user_id=7, text="Done.", status="success")
    worker.redis.xadd("worker:po:po-1:output", encode(asks))
    none = POWorkerOutput(
        request_id="x", user_id=7, text="", status="error", reason="InvalidMessage"
    )
    worker.redis.xadd("worker:po:po-1:output", encode(none))
    worker.redis.xadd("worker:po:po-2:output", encode(says))
    _, only = run("inbox", "--redis-url", server.url).stdout.splitlines()
    assert only.split()[:3] == ["1", "default", "pos/alice"]
    assert only.endswith("question  Which?")
    [told] = json.loads(run("inbox", "--json", "--redis-url", server.url).stdout)
    assert (told["id"], told["askedAt"]) == ("r", asks.timestamp.isoformat())


def test_sessions_that_cannot_be_read_are_left_out_with_a_word(kubectl: FakeKubectl) -> None:
    kubectl.has(a_session(turns=1), asking("first", "May I?", "2026-01-10T11:00:00Z"))
    shown = run("inbox")
    assert shown.exit_code == 0
    assert "at/first" in shown.stdout
    assert "the sessions of default are left out: there is no Secret" in shown.stderr


def running(name: str = "fix", **status: Any) -> Object:
    began = {"phase": "Running", "startTime": "2026-01-10T12:00:00Z", "message": "the agent works"}
    return a_task(name, **(began | status))


def test_top_shows_what_works_with_time_cost_and_tokens() -> None:
    usage = {"inputTokens": 1200, "outputTokens": 34, "costUSD": 0.5}
    awake = {"type": "Awake", "status": "True", "lastTransitionTime": "2026-01-10T12:04:00Z"}
    found = [
        running("late", startTime="2026-01-10T12:04:30Z", progress="edits login.py"),
        running("fix", usage=usage, checkpoint={"costUSD": 0.25}),
        running(
            "first",
            checkpoint={"inputTokens": 1000, "outputTokens": 7},
            startTime="2026-01-10T12:04:15Z",
        ),
        a_task("waits", phase="Pending"),
        a_session("alice", phase="Busy", conditions=[awake], usage=usage, pendingMessages=1),
        a_session("bob", phase="Asleep"),
    ]
    head, _, names, *lines = render(working(found, NOW)).splitlines()
    assert head == "at work: 3 tasks, 1 sessions; 1.2500 USD, 3,475 tokens"
    assert names.split()[-5:] == ["PHASE", "ELAPSED", "COST", "TOKENS", "DOES"]
    assert [" ".join(line.split()[1:]) for line in lines] == [
        "at/fix claude Running 5m 0.7500 1,234 the agent works",
        "pos/alice claude Busy 1m 0.5000 1,234 1 messages wait or are being answered",
        "at/first claude Running 45.0 s - 1,007 the agent works",
        "at/late claude Running 30.0 s - 0 edits login.py",
    ]


def test_top_has_the_agent_of_a_tasks_profile(kubectl: FakeKubectl) -> None:
    task = running()
    task["spec"].pop("agent", None)
    task["status"]["agent"] = {"type": "codex"}
    kubectl.has(task)
    assert " codex " in run("top").stdout


def test_top_in_a_pipe_prints_once_and_nothing_that_a_terminal_obeys(kubectl: FakeKubectl) -> None:
    kubectl.has(running(message=TITLE), a_session("alice", phase="Ready"))
    shown = run("top")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("at work: 1 tasks, 1 sessions; 0.0000 USD, 0 tokens\n")
    assert "\x1b" not in shown.stdout
    assert run("top", "--interval", "soon").exit_code == 2


def test_nothing_at_work_is_said_in_a_line(kubectl: FakeKubectl) -> None:
    assert run("top", "--once").stdout == ("at work: 0 tasks, 0 sessions; 0.0000 USD, 0 tokens\n")


def test_costs_are_shown_to_four_digits_wherever_people_read_them() -> None:
    noisy = 0.13208399999999998
    assert (money(noisy), money(1234.5), money(0)) == ("0.1321", "1,234.5000", "0.0000")
    assert spent({"costUSD": noisy}).endswith(", 0.1321 USD")
