"""The gemini CLI: command lines and output. Samples are from the real CLI."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strange_values import VALUES, written

from orbiter_contracts import Usage
from worker_wrapper.agents.base import AgentOptions, Piece, Session, Turn
from worker_wrapper.agents.gemini import AGENT
from worker_wrapper.process.command import Outcome
from worker_wrapper.process.output_buffer import OutputBuffer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ID = "22222222-2222-4222-8222-222222222222"
Outcomes = Callable[..., Outcome]
INIT: dict[str, Any] = {"type": "init", "session_id": ID, "model": "gemini-2.5-pro"}
USER: dict[str, Any] = {"type": "message", "role": "user", "content": "do it"}
TOOL: dict[str, Any] = {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "1"}
DONE: dict[str, Any] = {"type": "tool_result", "tool_id": "1", "status": "success", "output": "hi"}
STATS = {"total_tokens": 130, "input_tokens": 100, "output_tokens": 20, "cached": 7, "input": 93}
END: dict[str, Any] = {"type": "result", "status": "success", "stats": STATS}


def says(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


def failed(message: str, kind: str = "unknown") -> dict[str, Any]:
    return {**END, "status": "error", "error": {"type": kind, "message": message}}


def outcome_of(printed: bytes, exit_code: int = 0, stderr: str = "") -> Outcome:
    output = OutputBuffer(Path("/nonexistent"), memory_bytes=64 * 1024 * 1024)
    output.write(printed)
    return Outcome(exit_code, None, output, stderr.encode(), False, None, False, NOW, NOW)


@pytest.fixture
def outcome() -> Outcomes:
    def make(*events: dict[str, Any], exit_code: int = 0, stderr: str = "") -> Outcome:
        lines = "".join(f"{json.dumps(event)}\n" for event in events)
        return outcome_of(lines.encode(), exit_code, stderr)

    return make


def turn(prompt: str = "do it", session: Session | None = None, **options: object) -> Turn:
    return Turn(
        prompt,
        60,
        session,
        Path("/workspace"),
        AgentOptions(**options),  # type: ignore[arg-type]
    )


def test_it_runs_headless_and_may_do_everything_in_its_workspace() -> None:
    command = AGENT.build(turn(system_prompt="Be brief.", model="gemini-2.5-pro"))
    assert command.argv[:2] == ("sh", "-c")
    assert command.argv[3] == "gemini"
    assert command.argv[5:] == (
        *("-o", "stream-json", "--approval-mode", "yolo", "--skip-trust"),
        *("-m", "gemini-2.5-pro"),
    )
    assert command.stdin == b"Be brief.\n\ndo it"


def test_it_reports_to_nobody_and_keeps_the_limit_of_turns() -> None:
    told = json.loads(AGENT.build(turn(max_turns=3)).argv[4])
    assert told["privacy"] == {"usageStatisticsEnabled": False}
    assert told["telemetry"] == {"enabled": False}
    assert told["general"]["enableAutoUpdate"] is False
    assert told["model"] == {"maxSessionTurns": 3}
    assert "model" not in json.loads(AGENT.build(turn()).argv[4])


def test_a_conversation_has_an_id_of_ours_and_is_resumed_by_it() -> None:
    assert AGENT.build(turn(session=Session(ID))).argv[5:7] == ("--session-id", ID)
    again = Session("chat", resumed=True, agent_session_id=ID)
    assert AGENT.build(turn(session=again)).argv[5:7] == ("--resume", ID)
    named = AGENT.build(turn(session=Session("chat"))).argv[6]
    assert AGENT.build(turn(session=Session("chat", resumed=True))).argv[6] == named
    assert AGENT.conversation_id(Session("chat")) == named[:8]


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        ("see @secret.txt", r"see \@secret.txt"),
        ("mail a@b.example", r"mail a\@b.example"),
        (r"see \@this", r"see \@this"),
        ("5 @ 3", "5 @ 3"),
    ],
)
def test_a_file_that_is_named_is_not_pulled_in(prompt: str, sent: str) -> None:
    stdin = AGENT.build(turn(prompt)).stdin.decode()
    assert stdin.endswith(sent)
    assert ("stands for a plain @" in stdin) == (sent != prompt)


def test_its_answer_is_what_it_said_after_the_last_tool(outcome: Outcomes) -> None:
    before = (INIT, USER, says("I look."), TOOL, TOOL, DONE, DONE)
    result = AGENT.parse(outcome(*before, says("It is "), says("hi."), END))
    assert (result.text, result.agent_session_id, result.is_error) == ("It is hi.", ID, False)
    assert (result.turns, result.requests) == (1, 2)
    # Its thoughts are in the total alone.
    assert result.usage == Usage(input_tokens=93, output_tokens=30, cache_read_tokens=7)
    assert result.totals is None


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (failed("[API Error: 400]"), "[API Error: 400]"),
        (failed("Reached max session turns", "FatalTurnLimitedError"), "Reached max session turns"),
        ({**END, "status": "error"}, None),
        ({**END, "status": "error", "error": 7}, None),
    ],
)
def test_its_failure_is_one_in_its_words(
    outcome: Outcomes, event: dict[str, Any], error: str | None
) -> None:
    result = AGENT.parse(outcome(INIT, event, exit_code=144))
    assert (result.is_error, result.error) == (True, error or None)


def test_a_warning_on_the_way_is_no_failure(outcome: Outcomes) -> None:
    trouble = {"type": "error", "severity": "warning", "message": "Loop detected"}
    result = AGENT.parse(outcome(INIT, trouble, says("done"), END))
    assert (result.is_error, result.error, result.text) == (False, None, "done")
    cut_off = AGENT.parse(outcome(INIT, trouble))
    assert (cut_off.is_error, cut_off.error, cut_off.turns) == (True, "Loop detected", 0)


@pytest.mark.parametrize(
    ("stderr", "conflict"),
    [
        (f'Error starting session: Session ID "{ID}" already exists. Use --resume to', "in_use"),
        (f'Error resuming session: Invalid session identifier "{ID}".', "unknown"),
        ("Error resuming session: No previous sessions found for this project.", "unknown"),
        ("Error: no memory", None),
    ],
)
def test_a_session_it_refuses_is_told_from_other_trouble(
    outcome: Outcomes, stderr: str, conflict: str | None
) -> None:
    assert AGENT.parse(outcome(exit_code=42, stderr=stderr)).session_conflict == conflict


def test_it_is_heard_while_it_speaks_and_a_tool_opens_a_new_part() -> None:
    assert AGENT.piece(says("It is ")) == Piece("It is ")
    assert AGENT.piece(TOOL) == Piece("", opens=True)
    assert AGENT.piece(USER) is None
    assert AGENT.piece(END) is None


def test_of_an_endless_answer_the_end_is_kept(outcome: Outcomes) -> None:
    pieces = [says("x" * 100_000) for _ in range(40)]
    result = AGENT.parse(outcome(INIT, *pieces, says("the end"), END))
    assert result.text.endswith("xthe end")
    assert len(result.text) == 1024 * 1024


FIELDS = ("session_id", "role", "content", "stats", "status", "error", "message", "delta")
LINE = st.fixed_dictionaries(
    {"type": st.sampled_from(["init", "message", "tool_use", "error", "result"]) | VALUES},
    optional={
        **dict.fromkeys(FIELDS, VALUES),
        "role": st.sampled_from(["user", "assistant"]) | VALUES,
        "stats": st.dictionaries(st.sampled_from(sorted(STATS)), VALUES) | VALUES,
    },
)


@settings(max_examples=100, deadline=None)
@given(lines=st.lists(LINE, max_size=6), noise=st.binary(max_size=20))
def test_whatever_it_prints_is_read_without_trouble(
    lines: list[dict[str, Any]], noise: bytes
) -> None:
    printed = b"\n".join([noise, *(written(line).encode() for line in lines)])
    result = AGENT.parse(outcome_of(printed))
    assert isinstance(result.text, str)
    assert result.turns in (0, 1)
    for line in lines:
        AGENT.piece(line)
        assert AGENT.spent(line) is None
