"""Orbiter's own agents: the command line, and what is read in the object they print."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from worker_wrapper.agents import orbiter
from worker_wrapper.agents.base import AgentOptions, Piece, Session, Turn
from worker_wrapper.process.command import Outcome
from worker_wrapper.process.output_buffer import OutputBuffer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SAID = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "done",
    "session_id": "s",
    "num_turns": 3,
    "cost_usd": 0.5,
    "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 2},
}


def turn(session: Session | None = None, *, stream: bool = False, **options: object) -> Turn:
    return Turn(
        "-p do it",
        60,
        session,
        Path("/w"),
        AgentOptions(**options),  # type: ignore[arg-type]
        stream=stream,
    )


def outcome(tmp_path: Path, *lines: str, stderr: str = "") -> Outcome:
    spill = OutputBuffer(tmp_path)
    spill.write("".join(f"{line}\n" for line in lines).encode())
    return Outcome(0, None, spill, stderr.encode(), False, None, False, NOW, NOW)


def test_the_prompt_is_text_and_the_options_are_flags() -> None:
    command = orbiter.AGENT.build(turn(model="openai:gpt-4o", max_turns=5, max_cost_usd=1.5))
    assert command.stdin == b"-p do it"
    assert command.argv == (
        *("orbiter", "exec", "--model", "openai:gpt-4o"),
        *("--max-turns", "5", "--max-cost-usd", "1.5"),
    )


def test_a_session_is_begun_and_then_resumed() -> None:
    assert orbiter.AGENT.build(turn(Session("s"))).argv[2:] == ("--session-id", "s")
    resumed = orbiter.AGENT.build(turn(Session("s", resumed=True), stream=True))
    assert resumed.argv[2:] == ("--stream", "--resume", "s")
    again = replace(turn(Session("s", resumed=True)), again=True)
    assert orbiter.AGENT.build(again).argv[2:] == ("--again", "--resume", "s")


def test_the_answer_comes_with_what_it_cost(tmp_path: Path) -> None:
    event = json.dumps({"type": "text", "text": "do"})
    result = orbiter.AGENT.parse(outcome(tmp_path, event, json.dumps(SAID)))
    assert (result.text, result.turns, result.is_error) == ("done", 3, False)
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.cache_read_tokens) == (10, 2)
    assert result.usage.cost_usd == 0.5


def test_an_error_is_told_in_its_words(tmp_path: Path) -> None:
    failed = SAID | {"is_error": True, "subtype": "error_during_execution", "result": "no key"}
    result = orbiter.AGENT.parse(outcome(tmp_path, json.dumps(failed)))
    assert (result.is_error, result.error) == (True, "no key")


def test_a_session_that_is_gone_is_a_conflict(tmp_path: Path) -> None:
    gone = outcome(tmp_path, stderr="error: No conversation found with session ID s")
    assert orbiter.AGENT.parse(gone).session_conflict == "unknown"


def test_its_text_is_streamed_and_a_step_begins_anew() -> None:
    assert orbiter.AGENT.piece({"type": "text", "text": "do"}) == Piece("do")
    assert orbiter.AGENT.piece({"type": "step", "step": 2}) == Piece("", opens=True)
    assert orbiter.AGENT.piece({"type": "usage"}) is None
