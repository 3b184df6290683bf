"""Claude Code: its command line, and how its output is read. Samples are from the real CLI."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from worker_wrapper.agents.base import AgentOptions, Session, Turn
from worker_wrapper.agents.claude import AGENT, session_uuid
from worker_wrapper.process.command import Outcome
from worker_wrapper.process.output_buffer import OutputBuffer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SESSION = "6b9cd19e-69ae-405a-b5a0-d352a4f15301"
SAID = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "num_turns": 2,
    "result": "Hello.",
    "session_id": SESSION,
    "total_cost_usd": 0.25,
    "usage": {
        "input_tokens": 100,
        "output_tokens": 20,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 3,
    },
    "modelUsage": {
        "large": {
            "inputTokens": 100,
            "outputTokens": 20,
            "cacheReadInputTokens": 7,
            "cacheCreationInputTokens": 3,
        },
        "small": {"inputTokens": 11, "outputTokens": 1},
    },
    "permission_denials": [],
}
Outcomes = Callable[..., Outcome]


@pytest.fixture
def outcome(tmp_path: Path) -> Outcomes:
    def make(stdout: str, *, exit_code: int = 0, stderr: str = "") -> Outcome:
        spill = OutputBuffer(tmp_path)
        spill.write(stdout.encode())
        tail = stderr.encode()
        return Outcome(exit_code, None, spill, tail, False, None, False, NOW, NOW)

    return make


def turn(session: Session | None = None, **options: object) -> Turn:
    return Turn("do it", 60, session, Path("/workspace"), AgentOptions(**options))  # type: ignore[arg-type]


def flag(argv: tuple[str, ...], name: str) -> str:
    return argv[argv.index(name) + 1]


def test_it_runs_in_print_mode_and_is_told_the_prompt_on_stdin() -> None:
    command = AGENT.build(turn())

    assert command.argv == (
        *("claude", "-p", "--output-format", "stream-json", "--verbose"),
        "--dangerously-skip-permissions",
        *("--disallowedTools", "Monitor,ScheduleWakeup,CronCreate"),
    )
    assert command.stdin == b"do it"


def test_options_become_flags_and_absent_ones_do_not() -> None:
    argv = AGENT.build(
        turn(model="opus", max_turns=3, max_cost_usd=0.5, system_prompt="-be brief")
    ).argv

    assert flag(argv, "--model") == "opus"
    assert flag(argv, "--max-turns") == "3"
    assert flag(argv, "--max-budget-usd") == "0.5"
    assert flag(argv, "--append-system-prompt") == "-be brief"


def test_it_neither_updates_itself_nor_reads_files_that_a_message_names() -> None:
    assert AGENT.build(turn()).env == {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": "3",
        "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    }


def test_a_first_turn_creates_the_session_and_later_ones_resume_it() -> None:
    first = AGENT.build(turn(Session(SESSION))).argv
    later = AGENT.build(turn(Session(SESSION, resumed=True))).argv

    assert flag(first, "--session-id") == SESSION
    assert "--resume" not in first
    assert flag(later, "--resume") == SESSION
    assert "--session-id" not in later


def test_the_id_that_claude_gave_is_the_one_to_resume() -> None:
    argv = AGENT.build(turn(Session("chat", resumed=True, agent_session_id="given"))).argv

    assert flag(argv, "--resume") == "given"


def test_an_id_that_is_no_uuid_becomes_always_the_same_one() -> None:
    assert session_uuid(SESSION.upper()) == SESSION.upper()
    assert session_uuid("abc123") == session_uuid("abc123") != session_uuid("abc124")
    assert UUID(session_uuid("abc123")).version == 5


def test_text_usage_and_session_are_read_from_its_result(outcome: Outcomes) -> None:
    result = AGENT.parse(outcome(f"a warning\n{json.dumps(SAID)}\n"))

    assert (result.text, result.turns, result.is_error) == ("Hello.", 2, False)
    assert result.agent_session_id == SESSION
    assert result.usage is not None
    assert result.usage.input_tokens == 100
    assert result.usage.cost_usd is None


def test_totals_add_up_all_models(outcome: Outcomes) -> None:
    totals = AGENT.parse(outcome(json.dumps(SAID))).totals

    assert totals is not None
    assert (totals.input_tokens, totals.output_tokens, totals.cost_usd) == (111, 21, 0.25)
    assert (totals.cache_read_tokens, totals.cache_write_tokens) == (7, 3)


def test_an_api_error_is_one_although_its_subtype_says_success(outcome: Outcomes) -> None:
    said = SAID | {"is_error": True, "result": "Invalid API key", "api_error_status": 401}

    result = AGENT.parse(outcome(json.dumps(said), exit_code=1))

    assert result.is_error
    assert result.error == "Invalid API key"


def test_a_limit_is_named_although_there_is_no_text(outcome: Outcomes) -> None:
    said = {k: v for k, v in SAID.items() if k != "result"} | {
        "is_error": True,
        "subtype": "error_max_turns",
        "errors": ["Reached maximum number of turns (1)"],
    }

    result = AGENT.parse(outcome(json.dumps(said), exit_code=1))

    assert result.is_error
    assert result.error == "Reached maximum number of turns (1)"


def test_denied_tools_are_listed(outcome: Outcomes) -> None:
    said = SAID | {"permission_denials": [{"tool_name": "Bash", "tool_input": {}}, "odd"]}

    assert AGENT.parse(outcome(json.dumps(said))).permission_denials == ["Bash", "odd"]


def test_a_command_of_the_cli_counts_as_no_turn(outcome: Outcomes) -> None:
    assert AGENT.parse(outcome(json.dumps(SAID | {"num_turns": 0}))).turns == 0


@pytest.mark.parametrize(
    ("stderr", "conflict"),
    [
        (f"Error: Session ID {SESSION} is already in use.", "in_use"),
        (f"No conversation found with session ID: {SESSION}", "unknown"),
        ("Error: something else", None),
    ],
)
@pytest.mark.parametrize("printed", [{}, SAID | {"is_error": True, "num_turns": 0}], ids=len)
def test_a_refused_session_is_recognised(
    outcome: Outcomes, stderr: str, conflict: str | None, printed: dict[str, object]
) -> None:
    result = AGENT.parse(outcome(json.dumps(printed), exit_code=1, stderr=stderr))

    assert result.is_error
    assert result.session_conflict == conflict


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "not json",
        '{"type":"result"',
        '{"type":"result","result":{},"usage":[],"modelUsage":{"m":1},"total_cost_usd":"x"}',
        '{"type":"result","num_turns":Infinity,"permission_denials":{},"session_id":5}',
        '{"type":"result","usage":{"input_tokens":NaN},"is_error":"maybe","errors":"x"}',
    ],
)
def test_whatever_is_printed_it_is_read_without_an_exception(
    outcome: Outcomes, printed: str
) -> None:
    assert AGENT.parse(outcome(printed)).text == ""
