"""Whatever an agent prints, what is published can be read by everybody: bounded, valid JSON."""

import json
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strange_values import VALUES, written

from orbiter_contracts import (
    AGENT_TYPES,
    AgentVerdict,
    DeveloperWorkerInput,
    DeveloperWorkerOutput,
    POWorkerInput,
    POWorkerOutput,
    WorkerOutput,
    WorkspaceReport,
    decode_json,
)
from orbiter_contracts.bounds import (
    MAX_COUNT,
    MAX_LINE_CHARACTERS,
    MAX_OUTPUT_BYTES,
    MAX_WARNING_CHARACTERS,
    MAX_WARNINGS,
)
from orbiter_contracts.messages import Message
from worker_wrapper.agents import load_agent
from worker_wrapper.agents.base import AgentOptions, Session, Turn
from worker_wrapper.process.command import Outcome
from worker_wrapper.process.output_buffer import OutputBuffer
from worker_wrapper.redact import Redactor
from worker_wrapper.turn.classify import TEXT_CHARACTERS
from worker_wrapper.turn.outputs import developer_output, po_output
from worker_wrapper.turn.publishing import publishable
from worker_wrapper.turn.turn import TurnReport, conclude

NOW = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
TASK = DeveloperWorkerInput(request_id="r-1", task_id="t-1", prompt="do it")
MESSAGE = POWorkerInput(request_id="r-1", user_id=7, prompt="do it")
SUCCESS = '<result>{"status":"success"}</result>'
Output = DeveloperWorkerOutput | POWorkerOutput


def report(agent: str, printed: bytes, *, developer: bool) -> TurnReport:
    """What a turn comes to whose agent has printed that."""
    spill = OutputBuffer(Path("/nonexistent"), memory_bytes=64 * 1024 * 1024)
    spill.write(printed)
    outcome = Outcome(
        **{"exit_code": 0, "signal": None, "stderr_tail": b"\xff", "stdout": spill},  # type: ignore[arg-type]
        **{"timed_out": False, "interrupted": None, "oom_killed": False},  # type: ignore[arg-type]
        **{"started_at": NOW, "finished_at": NOW},  # type: ignore[arg-type]
    )
    adapter = load_agent(agent)
    turn = Turn("do it", 60, Session("s"), Path("/nonexistent"), AgentOptions())
    result = adapter.parse(outcome)
    return conclude(adapter, turn, outcome, result, developer=developer, started_at=NOW)


def published(
    printed: bytes, *, agent: str = "claude", developer: bool = True, secrets: tuple[str, ...] = ()
) -> Output:
    """What everybody reads then. It is JSON without NaN, and not too large."""
    came = report(agent, printed, developer=developer)
    output: WorkerOutput
    if developer:
        output = developer_output(TASK, came, worker_id="w-1")
    else:
        output = po_output(MESSAGE, came, session_id="s-1")
    text = publishable(output, Redactor(secrets)).model_dump_json()
    assert len(text.encode()) <= MAX_OUTPUT_BYTES
    json.loads(text, parse_constant=pytest.fail)
    return decode_json(DeveloperWorkerOutput if developer else POWorkerOutput, text)


def said(text: str = SUCCESS, **fields: Any) -> bytes:
    """What Claude prints at its end."""
    return json.dumps({"type": "result", "num_turns": 1, "result": text, **fields}).encode()


def block(**fields: Any) -> str:
    return f"<result>{json.dumps({'status': 'success', **fields})}</result>"


FIELDS = (
    *("type", "result", "num_turns", "usage", "total_cost_usd", "modelUsage", "session_id"),
    *("permission_denials", "errors", "subtype", "is_error", "cost_usd", "finalText", "numTurns"),
    *("item", "thread_id", "error", "message", "parent_tool_use_id", "event"),
)
COUNTS = st.dictionaries(
    st.sampled_from(["input_tokens", "output_tokens", "inputTokens", "cached_input_tokens"]),
    VALUES,
)
BLOCK = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("status", "summary", "data", "commit_sha", "pr_url", "text", "question"), VALUES
    ),
)


LINE = st.fixed_dictionaries(
    {"type": st.sampled_from(["result", "completion", "turn.completed", "item.completed"])},
    optional={name: VALUES | COUNTS for name in FIELDS if name not in ("type", "result")}
    | {"result": VALUES | BLOCK.map(lambda b: f"So. <result>{written(b)}</result>")},
)


@pytest.mark.parametrize("developer", [True, False])
@pytest.mark.parametrize("agent", AGENT_TYPES)
@settings(max_examples=25, deadline=None)
@given(lines=st.lists(LINE, min_size=1, max_size=3), noise=st.binary(max_size=20))
def test_whatever_an_agent_prints_everybody_can_read_what_is_published(
    agent: str, developer: bool, lines: list[dict[str, Any]], noise: bytes
) -> None:
    printed = b"\n".join([noise, *(written(line).encode() for line in lines)])

    output = published(printed, agent=agent, developer=developer, secrets=("success", "status"))

    assert output.request_id == "r-1"
    assert len(output.warnings) <= MAX_WARNINGS


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        ('{"id": 18446744073709551616}', {"id": "18446744073709551616"}),
        ('{"id": 9223372036854775807}', {"id": 9223372036854775807}),
        ('{"a": NaN, "b": 1e309, "c": -Infinity}', {"a": None, "b": None, "c": None}),
        ('{"half": "\\ud800"}', {"half": "?"}),
    ],
)
def test_a_number_that_nobody_else_can_read_costs_itself_and_not_the_task(
    data: str, kept: dict[str, Any]
) -> None:
    output = published(said(f'<result>{{"status":"success","data":{data}}}</result>'))

    assert isinstance(output, DeveloperWorkerOutput)
    assert output.status == "success"
    assert output.verdict is not None
    assert output.verdict.data == kept


def test_an_integer_of_thousands_of_digits_costs_the_data_alone() -> None:
    data = '{"n": 1' + "0" * 5000 + "}"

    output = published(said(f'<result>{{"status":"success","data":{data}}}</result>'))

    assert output.status == "success"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (json.loads('{"a":' * 260 + "1" + "}" * 260), "nested more than 64 deep"),
        ({str(number): 0 for number in range(20_000)}, "more than 10000 values"),
        ({"k" * 300_000: 1}, "longer than 262144 bytes"),
    ],
)
def test_data_that_nobody_can_take_is_left_out_and_the_verdict_stays(
    data: dict[str, Any], why: str
) -> None:
    output = published(said(block(data=data, summary="did it")))

    assert isinstance(output, DeveloperWorkerOutput)
    assert output.status == "success"
    assert output.verdict is not None
    assert (output.verdict.summary, output.verdict.data) == ("did it", {})
    assert why in output.warnings[0]


def test_an_endless_url_is_left_out_and_the_verdict_stays() -> None:
    output = published(said(block(pr_url="https://h/" + "x" * 5000)))

    assert isinstance(output, DeveloperWorkerOutput)
    assert (output.status, output.pr_url) == ("success", None)
    assert "pr_url was left out" in output.warnings[0]


@pytest.mark.parametrize("turns", ["1e309", "NaN", '"many"', "null", "1" + "0" * 5000])
def test_a_count_of_turns_that_is_none_costs_no_answer(turns: str) -> None:
    printed = said(num_turns="HERE").replace(b'"HERE"', turns.encode())

    assert published(printed).status == "success"


@pytest.mark.parametrize(
    ("cost", "charged"), [("NaN", None), ("Infinity", None), ("-3", None), ("0.25", 0.25)]
)
def test_a_cost_that_is_none_is_not_known(cost: str, charged: float | None) -> None:
    usage = {"m": {"inputTokens": 1e308, "outputTokens": -4}}
    printed = said(modelUsage=usage, total_cost_usd="HERE").replace(b'"HERE"', cost.encode())

    output = published(printed)

    assert output.usage is not None
    assert output.usage.cost_usd == charged
    assert (output.usage.input_tokens, output.usage.output_tokens) == (MAX_COUNT, 0)


def test_millions_of_denied_tools_are_a_few_warnings() -> None:
    printed = said(permission_denials=["Bash", {"tool_name": "x" * 10_000}, *[0] * 2_000_000])
    tracemalloc.start()

    output = published(printed)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert output.status == "success"
    assert len(output.warnings) <= MAX_WARNINGS
    assert max(map(len, output.warnings)) <= MAX_WARNING_CHARACTERS
    assert output.warnings[0] == "permission denied: Bash"
    assert output.warnings[-1] == "permission denied: 1999982 more"
    assert peak < 16 * len(printed)


@pytest.mark.parametrize("developer", [True, False])
def test_an_output_that_is_too_large_says_what_of_it_was_cut(developer: bool) -> None:
    text = block(summary="\x01" * TEXT_CHARACTERS, question="q" * TEXT_CHARACTERS)

    output = published(said("\x02" * TEXT_CHARACTERS + text), developer=developer)

    assert output.status == "success"
    assert "so this was cut: " in output.warnings[0]


def test_a_secret_that_is_an_ordinary_word_leaves_the_output_readable() -> None:
    words = ("success", "status", "verdict", "2026-01-10T12:00:00Z", "request_id", "w-1-w-1")

    output = published(said(block(summary="a success", data={"status": "ok"})), secrets=words)

    assert isinstance(output, DeveloperWorkerOutput)
    assert (output.status, output.finished_at) == ("success", NOW)
    assert output.verdict is not None
    assert output.verdict.summary == "a [redacted]"
    assert output.verdict.data == {"[redacted]": "ok"}


OURS = {"reason", "request_id", "task_id", "project_id", "worker_id", "session_id"}


@pytest.mark.parametrize("developer", [True, False])
def test_no_field_publishes_a_secret_but_those_that_are_ours(developer: bool) -> None:
    kind = DeveloperWorkerOutput if developer else POWorkerOutput
    leaky = _everywhere(kind, "shop-dsn-1")

    told = publishable(leaky, Redactor(["shop-dsn-1"])).model_dump()

    assert set(_holding("shop-dsn-1", told)) == OURS & set(kind.model_fields)
    assert "[redacted]" in str(told)


def test_a_secret_in_the_name_of_a_branch_makes_no_output_that_is_none() -> None:
    workspace = WorkspaceReport(branch="secret" * 341, base_sha="secret")
    output = DeveloperWorkerOutput(request_id="r", task_id="t", workspace=workspace)

    told = publishable(output, Redactor(["secret"])).workspace

    assert told is not None
    assert told.branch is not None
    assert "secret" not in told.branch
    assert (len(told.branch), told.base_sha) == (MAX_LINE_CHARACTERS, "[redacted]")


def _everywhere(kind: type[Message], text: str) -> Any:
    """A message with a text in every field that can hold one."""
    fields: dict[str, Any] = {"warnings": [text], "data": {text: [text]}, "user_id": 7}
    fields |= {"verdict": AgentVerdict, "workspace": WorkspaceReport}
    told: dict[str, Any] = {}
    for name in kind.model_fields:
        value = fields.get(name, text)
        told[name] = _everywhere(value, text) if isinstance(value, type) else value
        try:
            kind.model_validate(_required(kind, text) | {name: told[name]})
        except ValueError:
            del told[name]  # a number, a time or a status
    return kind.model_validate(told)


def _required(kind: type[Message], text: str) -> dict[str, Any]:
    names = [name for name, field in kind.model_fields.items() if field.is_required()]
    return {name: 7 if name == "user_id" else text for name in names}


def _holding(text: str, value: Any, name: str = "") -> list[str]:
    """The names of the fields with that text."""
    if isinstance(value, dict):
        keys = [name for key in value if text in key]
        return keys + [found for key, one in value.items() for found in _holding(text, one, key)]
    if isinstance(value, list):
        return [found for one in value for found in _holding(text, one, name)]
    return [name] if text in str(value) else []


def test_data_that_outgrows_its_bound_without_its_secrets_is_said_to_be_missing() -> None:
    data = {"all": "secret" * 40_000}

    output = published(said(block(data=data)), secrets=("secret",))

    assert isinstance(output, DeveloperWorkerOutput)
    assert output.verdict is not None
    assert output.verdict.data == {}
    assert "verdict.data" in output.warnings[0]
