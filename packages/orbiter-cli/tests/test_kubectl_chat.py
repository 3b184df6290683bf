"""`kubectl orbiter chat` and `rotate` on a real Redis, reached as from a person's terminal."""

import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.fake_kubectl import FakeKubectl, a_session, kubectl
from support.front_end import StubWorker, echo, server, session, worker
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl.conversation import Answer
from orbiter.cli.kubectl.main import app
from orbiter.cli.ui.progress import Progress
from orbiter_contracts import POWorkerInput, POWorkerOutput, decode
from orbiter_contracts.queues import BARE, Keys

__all__ = ["kubectl", "server", "session", "worker"]


TEAM = Keys.of_namespace("default")


QUIET = "orbiter.cli.ui.progress._QUIET_SECONDS"


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no wait that has to be told."""
    monkeypatch.setattr(QUIET, 600.0)


def run(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, list(words), input=stdin, catch_exceptions=False)


def piece(text: str, sequence: int, **fields: Any) -> POWorkerOutput:
    fields = {"is_final": False, **fields}
    return POWorkerOutput(request_id="r", user_id=7, text=text, sequence=sequence, **fields)


def final(text: str, sequence: int = 0) -> POWorkerOutput:
    return piece(text, sequence, is_final=True)


@pytest.mark.parametrize(
    ("outputs", "printed"),
    [
        ([final("whole")], ["whole"]),
        ([piece("Hel", 0), piece("lo", 1), final("Hello", 2)], ["Hel", "lo", ""]),
        ([piece("a", 0), piece("a", 0), piece("b", 1), final("ab", 2)], ["a", "", "b", ""]),
        (
            [piece("I look.", 0), piece("\n\nDone", 1, part=1), final("Done: 3", 2)],
            ["I look.", "\n\nDone", ": 3"],
        ),
        ([piece("hal", 0), piece("f", 1), piece("new", 0), final("new", 1)],
         ["hal", "f", "\n\nnew", ""]),
        ([piece("hal", 0), piece("hal", 0), piece("new", 0), final("new", 1)],
         ["hal", "", "\n\nnew", ""]),
        ([piece("half", 0), final("another one", 1)], ["half", "\n\nanother one"]),
        ([piece("text <re", 0), final("text ", 1)], ["text <re", ""]),
    ],
)  # fmt: skip
def test_the_pieces_of_an_answer_are_printed_once_each(
    outputs: list[POWorkerOutput], printed: list[str]
) -> None:
    answer = Answer()
    assert [answer.add(output) for output in outputs] == printed


integration = pytest.mark.integration


@integration
@pytest.mark.parametrize(("words", "stdin"), [(("--once", "hi"), ""), ((), "hi\n"),
                                              (("--once", "-"), "hi\n")])  # fmt: skip
def test_one_message_is_answered_on_stdout(
    session: FakeKubectl, worker: StubWorker, words: tuple[str, ...], stdin: str
) -> None:
    worker.answers(echo)
    result = run("chat", "alice", *words, stdin=stdin)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "you said hi\n", "")
    assert (worker.heard[0].user_id, worker.heard[0].timeout) == (7, 1800)


@integration
def test_pieces_appear_as_they_come(session: FakeKubectl, worker: StubWorker) -> None:
    def reply(worker: StubWorker, message: POWorkerInput) -> None:
        worker.says(message.model_copy(update={"request_id": "another"}), "not for us")
        worker.redis.xadd(BARE.po_output("po-1"), {"data": "no message at all"})
        worker.says(message, "Let me", is_final=False, sequence=0)
        worker.says(message, " see.", is_final=False, sequence=1)
        worker.says(message, "\n\nIt is 4", is_final=False, sequence=2, part=1)
        worker.says(message, "It is 42.", sequence=3, part=1)

    worker.answers(reply)
    assert run("chat", "alice", "--once", "?").stdout == "Let me see.\n\nIt is 42.\n"


@integration
def test_json_is_the_final_output(session: FakeKubectl, worker: StubWorker) -> None:
    worker.answers(echo)
    [line] = run("chat", "alice", "--once", "hi", "--json").stdout.splitlines()
    output = json.loads(line)
    assert (output["text"], output["session_id"]) == ("you said hi", "s-1")


@integration
def test_a_question_is_no_error_and_says_what_to_do(
    session: FakeKubectl, worker: StubWorker
) -> None:
    worker.answers(lambda worker, message: worker.says(message, "Which?", status="input_required"))
    result = run("chat", "alice", "--once", "hi")
    assert (result.exit_code, result.stdout) == (4, "Which?\n")
    assert result.stderr == "it asks: your next message is the answer\n"


@integration
@pytest.mark.parametrize(
    ("status", "code"), [("error", 1), ("failed", 1), ("timeout", 124), ("cancelled", 5)]
)
def test_the_exit_code_says_how_it_was_answered(
    session: FakeKubectl, worker: StubWorker, status: str, code: int
) -> None:
    fields = {"status": status, "reason": "WorkerCrashed", "error": "it crashed three times"}
    worker.answers(lambda worker, message: worker.says(message, "", **fields))
    result = run("chat", "alice", "--once", "hi")
    assert (result.exit_code, result.stdout) == (code, "")
    assert "WorkerCrashed: it crashed three times" in result.stderr


@integration
def test_an_answer_that_does_not_come_in_time_is_given_up_with_what_is_known(
    session: FakeKubectl, worker: StubWorker
) -> None:
    missing = {"type": "Available", "status": "False", "reason": "SecretMissing"}
    session.has(a_session(phase="Waking", conditions=[missing | {"message": "no Secret x."}]))
    result = run("chat", "alice", "--once", "hi", "--timeout", "1")
    assert result.exit_code == 124
    assert "no answer of session alice within 1 s" in result.stderr
    assert "(waking… (SecretMissing: no Secret x));" in result.stderr
    [(_, fields)] = worker.redis.xrange(BARE.po_input("po-1"))
    assert decode(POWorkerInput, fields).timeout == 1


def in_a_namespace() -> dict[str, Any]:
    """A session that is under the keys of its namespace."""
    streams = {"inputStream": TEAM.po_input("po-1"), "outputStream": TEAM.po_output("po-1")}
    return a_session(phase="Ready", **streams)


@integration
def test_the_streams_and_the_state_are_where_the_status_says(
    session: FakeKubectl, worker: StubWorker
) -> None:
    session.has(in_a_namespace())
    worker.under = TEAM
    worker.stands(state="busy", request_id="another")
    result = run("chat", "alice", "--once", "hi", "--timeout", "1")
    assert "busy with another message" in result.stderr
    worker.answers(echo)
    assert run("chat", "alice", "--once", "hi").stdout == "you said hi\n"


@integration
def test_a_session_that_moves_meanwhile_is_followed(
    session: FakeKubectl, worker: StubWorker
) -> None:
    def move(worker: StubWorker, message: POWorkerInput) -> None:
        worker.says(message, "Hel", is_final=False, sequence=0)
        worker.redis.rename(worker.under.po_output("po-1"), TEAM.po_output("po-1"))
        worker.under = TEAM
        session.has(in_a_namespace())
        worker.says(message, "Hello", sequence=1)

    worker.answers(move)
    assert run("chat", "alice", "--once", "hi").stdout == "Hello\n"


@integration
def test_a_broken_off_answer_ends_its_line(session: FakeKubectl, worker: StubWorker) -> None:
    def reply(worker: StubWorker, message: POWorkerInput) -> None:
        worker.says(message, "I beg", is_final=False, sequence=0)
        worker.says(message, "", status="error", error="it crashed", sequence=1)

    worker.answers(reply)
    assert run("chat", "alice", "--once", "hi").stdout == "I beg\n"


@integration
def test_a_session_that_was_just_applied_is_waited_for(
    kubectl: FakeKubectl, session: FakeKubectl, worker: StubWorker
) -> None:
    worker.answers(echo)
    session.has(a_session(phase="", inputStream=""))

    def take_up() -> None:
        while len(session.calls) < 2:
            time.sleep(0.001)
        session.has(a_session())

    threading.Thread(target=take_up, daemon=True).start()
    assert run("chat", "alice", "--once", "hi").stdout == "you said hi\n"


TWIN = {
    "type": "Available",
    "status": "False",
    "reason": "DuplicateUser",
    "message": "bob has 7 too.",
}


IMAGE = {"type": "Available", "status": "False", "reason": "ImagePullFailed", "message": "no image"}


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"spec": {"operatingMode": "Suspended"}}, 4, '"operatingMode":"Running"'),
        ({"phase": "Failed", "conditions": [IMAGE]}, 1, "no image (ImagePullFailed)"),
        ({"conditions": [TWIN]}, 1, "bob has 7 too (DuplicateUser)"),
    ],
)
def test_a_session_that_cannot_answer_is_sent_nothing(
    kubectl: FakeKubectl, changes: dict[str, Any], code: int, said: str
) -> None:
    kubectl.has(a_session(**changes))
    result = run("chat", "alice", "--once", "hi")
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
    assert len(kubectl.calls) == 1


@integration
def test_a_session_that_no_operator_takes_up_is_given_up(
    kubectl: FakeKubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbiter.cli.kubectl.session._NEW_SECONDS", 0.5)
    kubectl.has(a_session(phase="", inputStream=""))
    result = run("chat", "alice", "--once", "hi")
    assert result.exit_code == 6
    assert "has no status yet: is the operator running?" in result.stderr


def test_a_missing_session_is_named(kubectl: FakeKubectl) -> None:
    result = run("chat", "pos/nobody", "--once", "hi")
    assert result.exit_code == 3
    assert "no POSession 'nobody' in namespace 'default'" in result.stderr


def test_an_empty_message_is_not_sent(kubectl: FakeKubectl) -> None:
    result = run("chat", "alice", "--once", "  ")
    assert (result.exit_code, kubectl.calls) == (2, [])


@integration
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda k: k.change("POSession", "alice",
                            lambda o: o["spec"].update(operatingMode="Suspended")), 4),
        (lambda k: k.status("POSession", "alice", phase="Failed"), 1),
        (lambda k: k.delete("POSession", "alice"), 3),
    ],
)  # fmt: skip
def test_the_wait_ends_when_no_answer_can_come(
    session: FakeKubectl, worker: StubWorker, change: Callable[[FakeKubectl], None], code: int
) -> None:
    worker.answers(lambda worker, message: change(session))
    assert run("chat", "alice", "--once", "hi").exit_code == code


@integration
def test_an_api_server_that_is_away_does_not_end_the_wait(
    session: FakeKubectl, worker: StubWorker
) -> None:
    def reply(worker: StubWorker, message: POWorkerInput) -> None:
        session.fails("Unable to connect to the server: connection refused")
        before = len(session.calls)
        while len(session.calls) == before:
            time.sleep(0.001)
        echo(worker, message)

    worker.answers(reply)
    assert run("chat", "alice", "--once", "hi").stdout == "you said hi\n"


@integration
def test_rotate_sends_the_sessions_own_word(session: FakeKubectl, worker: StubWorker) -> None:
    session.status("POSession", "alice", sessionId="s-0")
    worker.answers(echo)
    result = run("rotate", "alice")
    assert result.stdout == "session alice begins anew as s-1 (it was s-0)\n"
    assert [message.prompt for message in worker.heard] == ["/new"]


@integration
def test_rotate_says_when_no_word_does_it(session: FakeKubectl) -> None:
    session.has(a_session(spec={"rotation": {"commands": []}}))
    result = run("rotate", "alice")
    assert result.exit_code == 1
    assert '{"spec":{"rotation":{"commands":["/new"]}}}' in result.stderr


def test_usage_counts_what_a_session_has_cost(kubectl: FakeKubectl) -> None:
    usage = {"inputTokens": 41200, "outputTokens": 300, "costUSD": 0.21, "turns": 4}
    kubectl.has(a_session(turns=3, usage=usage))
    assert run("usage", "alice").stdout.splitlines() == [
        "session            alice",
        "messages answered  3",
        "model calls        4",
        "input tokens       41,200",
        "output tokens      300",
        "cost               0.2100 USD",
    ]
    assert json.loads(run("usage", "alice", "--json").stdout)["usage"] == usage


def test_describe_tells_a_session(kubectl: FakeKubectl) -> None:
    kubectl.has(a_session(conditions=[IMAGE]))
    shown = run("describe", "alice").stdout
    for text in ("Asleep", "worker:po:po-1:input", "15m", "/new", "no image", "Snapshot"):
        assert text in shown


NOT_SERVED = {
    "type": "Available",
    "status": "False",
    "reason": "NamespaceNotServed",
    "message": "no worker may run in namespace default; give it the label",
}


@integration
def test_what_keeps_a_session_from_beginning_is_said_at_once(
    session: FakeKubectl, worker: StubWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QUIET, 600.0)
    session.has(a_session(phase="Asleep", conditions=[NOT_SERVED]))
    result = run("chat", "alice", "--once", "hi", "--timeout", "1")
    first = result.stderr.splitlines()[0].split(maxsplit=2)
    assert first == ["0.0", "s", f"Asleep   NamespaceNotServed: {NOT_SERVED['message']}"]


def test_without_a_way_to_redis_it_is_said_too(kubectl: FakeKubectl) -> None:
    kubectl.has(a_session(phase="Asleep", conditions=[NOT_SERVED]))
    result = run("chat", "alice", "--once", "hi")
    assert result.exit_code == 6
    assert f"session alice is Asleep, NamespaceNotServed: {NOT_SERVED['message']}; " in (
        result.stderr
    )
    assert "there is no Secret orbiter-chat" in result.stderr


BUDGET = {"type": "Available", "status": "False", "reason": "BudgetExceeded"}
USED_UP = (
    "the budget shop has no room for a turn of 0.50 USD: 5.00 of 5.00 USD are used, "
    "until 1 December"
)


@integration
@pytest.mark.parametrize(
    ("stands", "shown"),
    [
        ({"phase": "Waiting", "conditions": [BUDGET | {"message": f"{USED_UP}."}]},
         rf"[\d.]+ s  Waiting  BudgetExceeded: {USED_UP}"),
        ({"phase": "Waking"}, r"[\d.]+ s  Waking   waking…"),
        ({"phase": "Asleep"}, r"[\d.]+ s  Asleep   nobody has taken up .* operator running\? .*"),
    ],
)  # fmt: skip
def test_what_is_waited_for_is_said_where_no_line_can_be_shown_and_how_long(
    session: FakeKubectl,
    worker: StubWorker,
    monkeypatch: pytest.MonkeyPatch,
    stands: dict[str, Any],
    shown: str,
) -> None:
    monkeypatch.setattr(QUIET, 0.3)
    monkeypatch.setattr("orbiter.cli.kubectl.turns._CHECK_SECONDS", 0.2)
    monkeypatch.setattr("orbiter.cli.kubectl.turns._STILL_ASLEEP_SECONDS", 0.3)
    session.has(a_session(**stands))
    result = run("chat", "alice", "--once", "hi", "--timeout", "1")
    assert (result.exit_code, result.stdout) == (124, "")
    lines = [line.strip() for line in result.stderr.splitlines()]
    assert [line for line in lines if re.fullmatch(shown, line)], result.stderr


def test_a_line_is_said_when_it_is_another_one_and_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QUIET, 2.0)
    clock = [0.0]
    progress = Progress(lambda: clock[-1])
    for now, what in ((1.0, "waking…"), (2.5, "waking…"), (20.0, "waking…"), (21.0, "thinking…"),
                      (50.0, "thinking…"), (51.5, "thinking…")):  # fmt: skip
        clock.append(now)
        progress.waiting(what)
    told = [line.split() for line in capsys.readouterr().err.splitlines()]
    assert told == [
        ["2.5", "s", "waking…"],
        ["21.0", "s", "thinking…"],
        ["51.5", "s", "thinking…"],
    ]
