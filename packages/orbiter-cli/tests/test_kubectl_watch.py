"""`kubectl orbiter` and tasks under way: watched, answered, cancelled."""

import json
from types import SimpleNamespace

import pytest
from support.fake_kubectl import FakeKubectl, a_task, kubectl
from typer.testing import CliRunner, Result

from orbiter.approval import InputCall
from orbiter.cli.kubectl import answer
from orbiter.cli.kubectl.client import Kubectl, Scope
from orbiter.cli.kubectl.main import app

__all__ = ["kubectl"]
ALICE = "alice@example.com"
ASKED = {"id": "q-1", "question": "Which colour?"}


def run(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, list(words), input=stdin, catch_exceptions=False)


def spec_of(kubectl: FakeKubectl, name: str) -> dict[str, object]:
    spec: dict[str, object] = kubectl.get("AgentTask", name)["spec"]
    return spec


def test_watch_tells_each_change_once_and_ends_with_what_came_of_it(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="Pending"))
    status = {
        "phase": "Completed",
        "reason": "Succeeded",
        "message": "it is done",
        "duration": "4.5s",
        "attempts": 1,
        "result": {"summary": "it is done", "commitSHA": "abc123"},
        "usage": {"inputTokens": 1200, "outputTokens": 30, "costUSD": 0.5},
    }
    kubectl.once_told(lambda: kubectl.status("AgentTask", "hello", **status))
    result = run("watch", "hello")
    assert result.exit_code == 0
    first, last, *table = result.stdout.splitlines()
    assert first.split()[-1] == "Pending"
    assert last.split(maxsplit=3)[2:] == ["Completed", "it is done"]
    assert table == [
        "task      hello",
        "phase     Completed (Succeeded)",
        "summary   it is done",
        "duration  4.5s",
        "attempts  1",
        "spent     1,200 + 30 tokens, 0.5000 USD",
        "commit    abc123",
    ]


def test_why_a_task_does_not_begin_is_told_with_its_reason_and_all_of_its_words(
    kubectl: FakeKubectl,
) -> None:
    why = f"no worker may run in namespace default{' as it is' * 20}; give it the label"
    kubectl.has(a_task())
    states = iter(
        [
            {"phase": "Pending", "reason": "NamespaceNotServed", "message": why},
            {"phase": "Pending", "reason": "QuotaExceeded", "message": why},
            {"phase": "Cancelled", "reason": "Cancelled", "message": "by alice"},
        ]
    )

    def next_state() -> None:
        if state := next(states, None):
            kubectl.once_told(next_state)
            kubectl.status("AgentTask", "hello", **state)

    kubectl.once_told(next_state)
    lines = run("watch", "hello").stdout.splitlines()
    assert [line.split(maxsplit=2)[2].split(maxsplit=1) for line in lines[:4]] == [
        ["Pending"],
        ["Pending", f"NamespaceNotServed: {why}"],
        ["Pending", f"QuotaExceeded: {why}"],
        ["Cancelled", "by alice"],
    ]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"phase": "Completed"}, 0),
        ({"phase": "Failed"}, 1),
        ({"phase": "InputRequired", "inputRequest": ASKED}, 4),
        ({"phase": "Cancelled"}, 5),
    ],
)
def test_the_exit_code_of_watch_is_the_outcome(
    kubectl: FakeKubectl, status: dict[str, object], code: int
) -> None:
    kubectl.has(a_task(**status))
    assert run("watch", "at/hello").exit_code == code


def test_watch_as_json_prints_a_status_per_line(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="Completed", message="done"))
    [line] = run("watch", "hello", "--json").stdout.splitlines()
    assert json.loads(line) == {
        "name": "hello",
        "status": {"phase": "Completed", "message": "done"},
    }


def test_watch_shows_the_question_and_how_to_answer_it(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="InputRequired", inputRequest=ASKED))
    shown = run("watch", "hello").stdout
    assert "Which colour?" in shown
    assert "kubectl orbiter answer hello TEXT" in shown


def test_watch_survives_a_watch_that_breaks(kubectl: FakeKubectl) -> None:
    (kubectl.home / "watch-breaks").touch()
    kubectl.has(a_task(phase="Running"))
    kubectl.once_told(lambda: kubectl.status("AgentTask", "hello", phase="Completed"), times=2)
    result = run("watch", "hello")
    assert result.exit_code == 0
    assert [line.split()[2] for line in result.stdout.splitlines()[:2]] == ["Running", "Completed"]


@pytest.mark.integration
def test_watch_ends_when_time_is_over(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="Running"))
    late = run("watch", "hello", "--timeout", "1s")
    assert (late.exit_code, "not ended within 1 s" in late.stderr) == (124, True)


def test_watch_ends_when_the_task_is_deleted(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="Running"))
    kubectl.once_told(lambda: kubectl.delete("AgentTask", "hello"))
    gone = run("watch", "hello")
    assert (gone.exit_code, "task hello was deleted" in gone.stderr) == (3, True)


def test_an_agents_words_cannot_command_the_terminal(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="Completed", message="\x1b]0;owned\x07\x1b[2Jfine\x07"))
    assert "\x1b" not in run("watch", "hello").stdout
    assert "\x07" not in run("describe", "hello").stdout


def test_an_answer_is_added_to_those_that_were_given(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="InputRequired", inputRequest=ASKED))
    assert run("answer", "hello", "blue").stdout == "agenttask/hello answered\n"
    assert spec_of(kubectl, "hello")["input"] == [{"id": "q-1", "text": "blue", "by": ALICE}]
    kubectl.status("AgentTask", "hello", inputRequest={"id": "q-2", "question": "Sure?"})
    assert run("answer", "hello", stdin="yes\n").exit_code == 0
    answers = [
        {"id": "q-1", "text": "blue", "by": ALICE},
        {"id": "q-2", "text": "yes", "by": ALICE},
    ]
    assert spec_of(kubectl, "hello")["input"] == answers
    assert not any("blue" in " ".join(call.argv) for call in kubectl.calls)


CALL = InputCall.of("refund", {"order": 7})
WAITS = ASKED | {"kind": "approval", "calls": [CALL.model_dump()]}


def test_a_decision_says_which_call_was_seen(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="InputRequired", inputRequest=WAITS))
    wrong = run("answer", "hello", "perhaps")
    assert (wrong.exit_code, "'perhaps' is no answer: type `approve`" in wrong.stderr) == (1, True)
    assert "input" not in spec_of(kubectl, "hello")
    assert run("answer", "hello", "no, it is too late").exit_code == 0
    (given,) = spec_of(kubectl, "hello")["input"]
    assert given["id"] == "q-1"
    assert json.loads(given["text"]) == {
        "digest": CALL.digest, "text": "it is too late", "decision": "deny"
    }  # fmt: skip


def test_who_is_asked_at_a_terminal_sees_the_call(
    kubectl: FakeKubectl, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.has(a_task(phase="InputRequired", inputRequest=WAITS))
    monkeypatch.setattr(answer, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setattr("builtins.input", lambda prompt: "approve")
    assert answer.run_answer(
        Kubectl(Scope()), "hello", None, wait=False, timeout=None, as_json=False
    ) == 0  # fmt: skip
    shown = capsys.readouterr().err
    assert 'refund({"order": 7})' in shown
    assert "Type approve, or deny and a reason." in shown
    (given,) = spec_of(kubectl, "hello")["input"]
    assert json.loads(given["text"])["digest"] == CALL.digest


def test_a_request_that_is_none_is_answered_in_words(kubectl: FakeKubectl) -> None:
    broken = WAITS | {"calls": [CALL.model_dump() | {"arguments": {"order": 8}}]}
    kubectl.has(a_task(phase="InputRequired", inputRequest=broken))
    assert run("answer", "hello", "approve").exit_code == 0
    assert spec_of(kubectl, "hello")["input"] == [{"id": "q-1", "text": "approve", "by": ALICE}]


def test_a_question_is_answered_once(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="InputRequired", inputRequest=ASKED))
    run("answer", "hello", "blue")
    again = run("answer", "hello", "green")
    assert again.exit_code == 1
    assert "answered already" in again.stderr
    kubectl.has(a_task("busy", phase="Running"))
    assert "is Running and asks nothing" in run("answer", "busy", "blue").stderr


def test_answer_with_wait_follows_the_task_over_the_answered_question(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="InputRequired", inputRequest=ASKED))
    kubectl.once_told(lambda: kubectl.status("AgentTask", "hello", phase="Completed"))
    result = run("answer", "hello", "blue", "--wait")
    assert result.exit_code == 0
    assert "answered; a new Job goes on with it" in result.stdout
    assert "Completed" in result.stdout


def test_cancel_asks_for_the_state_and_can_wait_for_it(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="Running"))
    assert run("cancel", "hello").stdout == "agenttask/hello cancelling\n"
    assert spec_of(kubectl, "hello")["desiredState"] == "Cancelled"
    assert spec_of(kubectl, "hello")["cancelledBy"] == ALICE
    kubectl.once_told(lambda: kubectl.status("AgentTask", "hello", phase="Cancelled"))
    assert run("cancel", "hello", "--wait").exit_code == 0
    assert run("cancel", "hello").exit_code == 0


def test_where_the_api_server_does_not_say_who_one_is_nobody_is_named(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="InputRequired", inputRequest=ASKED), a_task("other", phase="Running"))
    (kubectl.home / "nobody").touch()
    assert run("answer", "hello", "blue").exit_code == 0
    assert spec_of(kubectl, "hello")["input"] == [{"id": "q-1", "text": "blue"}]
    assert run("cancel", "other").exit_code == 0
    assert "cancelledBy" not in spec_of(kubectl, "other")


def test_describe_names_who_has_answered_and_who_has_cancelled(kubectl: FakeKubectl) -> None:
    task = a_task(phase="Cancelled")
    said = [{"id": "1", "text": "blue", "by": "\x1b[2Jbob"}, {"id": "2", "text": "yes"}]
    task["spec"] |= {"input": said, "desiredState": "Cancelled", "cancelledBy": ALICE}
    kubectl.has(task)
    shown = run("describe", "hello").stdout
    assert f"cancelled by  {ALICE}\n" in shown
    assert "answers       bob: blue\n              yes\n" in shown


def test_what_has_ended_cannot_be_cancelled(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="Completed"))
    result = run("cancel", "hello")
    assert (result.exit_code, "desiredState" in spec_of(kubectl, "hello")) == (1, False)
    assert "Completed already" in result.stderr


def test_retry_makes_a_new_task_of_the_same_spec(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="Failed"))
    answers = [{"id": "x", "text": "y"}]
    old = {"desiredState": "Running", "input": answers, "resumeFrom": "z"}
    kubectl.change("AgentTask", "hello", lambda found: found["spec"].update(old))
    assert run("retry", "hello", "--name", "again", "--max-cost", "2.5").exit_code == 0
    spec = spec_of(kubectl, "again")
    assert spec == {
        "prompt": "say hello",
        "agent": {"type": "claude", "maxCostUSD": 2.5},
        "timeoutSeconds": 1800,
    }


def test_a_retry_that_resumes_names_the_old_task_and_has_a_name_of_its_own(
    kubectl: FakeKubectl,
) -> None:
    kubectl.has(a_task(phase="Failed", checkpoint={"turns": 3}))
    assert run("retry", "hello", "--resume").stdout == "agenttask/hello-x7k2p created\n"
    assert spec_of(kubectl, "hello-x7k2p")["resumeFrom"] == "hello"


def test_a_retry_can_be_followed_and_shown_without_being_made(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="Failed"))
    assert json.loads(run("retry", "hello", "--dry-run").stdout)["spec"]["prompt"] == "say hello"
    kubectl.once_told(lambda: kubectl.status("AgentTask", "again", phase="Completed"))
    assert run("retry", "hello", "--name", "again", "--wait").exit_code == 0


def test_help_says_which_tasks_can_be_gone_on_with() -> None:
    said = " ".join(run("retry", "--help").stdout.split())
    assert "that failed or were cancelled; one that is Completed can only be done once more" in said


@pytest.mark.parametrize(
    ("status", "words", "why"),
    [
        ({"phase": "Running"}, (), "is Running: only one that has ended"),
        ({"phase": "Failed"}, ("--resume",), "no checkpoint to go on from"),
        ({"phase": "Completed", "checkpoint": {"turns": 3}}, ("--resume",), "is Completed: only"),
    ],
)
def test_what_cannot_be_tried_again_says_why(
    kubectl: FakeKubectl, status: dict[str, object], words: tuple[str, ...], why: str
) -> None:
    kubectl.has(a_task(**status))
    result = run("retry", "hello", *words)
    assert result.exit_code == 1
    assert why in result.stderr
