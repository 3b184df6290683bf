"""`kubectl orbiter` over objects of strangers: what they wrote is text, never a command."""

import json
import unicodedata
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.fake_kubectl import FakeKubectl, a_session, a_task, an_object, kubectl
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl.describe import render
from orbiter.cli.kubectl.logs import newest
from orbiter.cli.kubectl.main import app
from orbiter.cli.kubectl.references import Found
from orbiter.cli.kubectl.scope import complain
from orbiter.cli.kubectl.watch import summary
from orbiter.cli.ui.outcome import CommandError
from orbiter.cli.ui.text import ago, facts_table, moment, one_line, plain

__all__ = ["kubectl"]
TITLE = "\x1b]0;pwned\a"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
hostile = st.text() | st.sampled_from(
    [TITLE, "\x9b31m", "\u202eevil", "\u2066x\u2069", "\ud800", "\r", "\x1b\x1b[0m[31m", "\u2028"]
)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def obeyed(text: str) -> list[str]:
    """What of a text a terminal or the order of the letters would obey."""
    bad = {"Cc", "Cs", "Zl", "Zp"}
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return [
        each
        for each in text.replace("\n", "").replace("\t", "")
        if unicodedata.category(each) in bad or unicodedata.bidirectional(each) in bidi
    ]


@given(hostile)
def test_plain_text_commands_nothing_and_can_be_written(text: str) -> None:
    assert not obeyed(plain(text))
    plain(text).encode()


def test_what_people_write_stays_as_it_is() -> None:
    text = "Grüße, 修理 👩\u200d💻 שלום\n\tx"
    assert plain(text) == text


@given(hostile, hostile)
def test_a_table_is_plain_in_labels_and_facts(label: str, fact: str) -> None:
    assert not obeyed(facts_table({label: fact}))


@given(hostile | st.none() | st.integers() | st.sampled_from(["0000-01-01T00:00:00Z", "9999"]))
def test_what_is_no_time_was_never(text: Any) -> None:
    moment(text)
    assert ago("0000-01-01T00:00:00Z", NOW) == "-"
    assert not obeyed(ago(text, NOW))


def event(**fields: Any) -> dict[str, Any]:
    return an_object("Event", "e", involvedObject={"kind": "AgentTask", "name": "hello"}, **fields)


def test_describe_prints_no_events_reason_as_a_command(kubectl: FakeKubectl) -> None:
    task = a_task()
    kubectl.has(task)
    kubectl.has(
        event(
            reason=TITLE + "Odd",
            type="\x9b1mWarning",
            message="x" + TITLE,
            lastTimestamp="0000-01-01T00:00:00Z",
        )
    )
    result = run("describe", f"at/{task['metadata']['name']}")
    assert result.exit_code == 0
    assert not obeyed(result.stdout)


texts = st.dictionaries(
    st.sampled_from(["reason", "type", "message", "note", "lastTimestamp", "eventTime"]),
    hostile | st.none(),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(words=st.lists(hostile, min_size=8, max_size=8), events=st.lists(texts, max_size=4))
def test_no_object_makes_describe_or_watch_obey(
    words: list[str], events: list[dict[str, Any]]
) -> None:
    phase, reason, message, name, question, summed, data, when = words
    status = {
        "phase": phase,
        "reason": reason,
        "message": message,
        "startTime": when,
        "lastActivityTime": when,
        "inputRequest": {"id": "1", "question": question},
        "result": {"summary": summed, "data": {data: [data]}, "commitSHA": data},
        "jobName": name,
        "conditions": [
            {"type": name, "status": phase, "reason": reason, "message": message}
            | {"lastTransitionTime": when}
        ],
    }
    task, session = a_task(), a_session()
    for kind, found in (("AgentTask", task), ("POSession", session)):
        found["status"] = status
        found["metadata"]["creationTimestamp"] = when
        assert not obeyed(render(Found(kind, found), events, NOW))  # type: ignore[arg-type]
    assert not obeyed(summary(task))


@given(hostile)
def test_an_error_of_the_api_server_is_plain(text: str) -> None:
    assert not obeyed(complain(CommandError(text)))


@pytest.mark.parametrize("attempt", ["²", "x", "", "9" * 5000])
def test_a_pod_whose_attempt_is_no_number_is_no_attempt(attempt: str) -> None:
    meta = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    odd = {"metadata": meta | {"labels": {"orbiter.dev/attempt": attempt}}}
    good = {"metadata": meta | {"labels": {"orbiter.dev/attempt": "1"}}}
    assert newest([odd, good]) is good


def test_json_is_ascii_and_says_everything(kubectl: FakeKubectl) -> None:
    task = a_task()
    task["status"] = {"phase": "Completed", "message": "\x9b\u202e" + TITLE}
    kubectl.has(task)
    result = run("watch", task["metadata"]["name"], "--json")
    assert not obeyed(result.stdout)
    assert json.loads(result.stdout)["status"]["message"] == "\x9b\u202e" + TITLE


def test_one_line_takes_anything() -> None:
    assert one_line("a\n\x1b[31mb") == "a b"
