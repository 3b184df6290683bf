"""opencode: command lines and output. Samples are from the real CLI."""

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
from worker_wrapper.agents.base import AgentOptions, Piece, Session, Spent, Turn
from worker_wrapper.agents.opencode import AGENT
from worker_wrapper.process.command import Outcome
from worker_wrapper.process.output_buffer import OutputBuffer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ID = "ses_df51f3e1affejTiBnvWNE08xZP"
Outcomes = Callable[..., Outcome]
ANTHROPIC = {"ANTHROPIC_API_KEY": "sk-a"}
OPENAI = {"OPENAI_API_KEY": "sk-o", "OPENAI_BASE_URL": "http://models/v1"}


def event(kind: str, **part: object) -> dict[str, Any]:
    return {"type": kind, "timestamp": 1, "sessionID": ID, "part": {"sessionID": ID, **part}}


def says(text: str, message: str = "msg_1") -> dict[str, Any]:
    return event("text", type="text", text=text, messageID=message)


def finish(reason: str = "stop", cost: object = 0.02) -> dict[str, Any]:
    tokens = {"total": 36, "input": 10, "output": 4, "reasoning": 1}
    cache = {"write": 1, "read": 20}
    return event("step_finish", reason=reason, tokens={**tokens, "cache": cache}, cost=cost)


def failure(error: object) -> dict[str, Any]:
    return {"type": "error", "timestamp": 1, "sessionID": ID, "error": error}


def outcome_of(printed: bytes, exit_code: int = 0, stderr: str = "") -> Outcome:
    output = OutputBuffer(Path("/nonexistent"), memory_bytes=64 * 1024 * 1024)
    output.write(printed)
    return Outcome(exit_code, None, output, stderr.encode(), False, None, False, NOW, NOW)


@pytest.fixture
def outcome() -> Outcomes:
    def make(*events: dict[str, Any], exit_code: int = 0, stderr: str = "") -> Outcome:
        lines = "".join(f"{json.dumps(each)}\n" for each in events)
        return outcome_of(lines.encode(), exit_code, stderr)

    return make


def turn(
    session: Session | None = None, environ: dict[str, str] | None = None, **options: object
) -> Turn:
    return Turn(
        "do it",
        60,
        session,
        Path("/workspace"),
        AgentOptions(**options),  # type: ignore[arg-type]
        ANTHROPIC if environ is None else environ,
    )


def config(**more: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(AGENT.build(turn(**more)).env["OPENCODE_CONFIG_CONTENT"])
    return found


def test_it_runs_headless_and_may_do_everything_in_its_workspace() -> None:
    command = AGENT.build(turn(system_prompt="Be brief.", model="openai/gpt-5"))
    assert command.argv[:2] == ("sh", "-c")
    assert command.argv[3] == "opencode"
    assert command.argv[5:] == (
        *("run", "--format", "json", "--title", "task", "--auto"),
        *("-m", "openai/gpt-5"),
    )
    assert command.stdin == b"Be brief.\n\ndo it"


def test_nothing_is_shared_renewed_or_asked_of_a_provider_without_a_key() -> None:
    command = AGENT.build(turn())
    told = config()
    assert (told["share"], told["autoupdate"]) == ("disabled", False)
    assert told["enabled_providers"] == ["anthropic"]
    assert {name for name, value in command.env.items() if value == "1"} == {
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "OPENCODE_DISABLE_MODELS_FETCH",
    }


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://models", "http://models/v1"),
        ("http://models/", "http://models/v1"),
        ("http://models/v1", "http://models/v1"),
    ],
)
def test_an_address_is_written_as_claude_code_takes_it(url: str, base: str) -> None:
    told = config(environ={**ANTHROPIC, "ANTHROPIC_BASE_URL": url})
    assert told["provider"]["anthropic"]["options"]["baseURL"] == base


@pytest.mark.parametrize(
    ("wanted", "environ", "model"),
    [
        (None, ANTHROPIC, None),
        ("mine", ANTHROPIC, "anthropic/mine"),
        ("mine", OPENAI, "openai/mine"),
        ("mine", {}, "anthropic/mine"),
        ("openrouter/a/b", ANTHROPIC, "openrouter/a/b"),
    ],
)
def test_a_model_has_its_provider_before_it(
    wanted: str | None, environ: dict[str, str], model: str | None
) -> None:
    argv = AGENT.build(turn(environ=environ, model=wanted)).argv
    assert (argv[argv.index("-m") + 1] if "-m" in argv else None) == model
    told = config(environ=environ, model=wanted)
    assert told.get("model") == model
    if model:
        provider, _, own = model.partition("/")
        assert told["provider"][provider]["models"] == {own: {}}
        assert provider in told["enabled_providers"]


def test_a_key_is_in_no_argument_and_in_no_setting() -> None:
    command = AGENT.build(turn(environ={**ANTHROPIC, **OPENAI}, model="m"))
    assert not [text for text in (*command.argv, *command.env.values()) if "sk-" in text]
    told = config(environ={**ANTHROPIC, **OPENAI})
    assert told["provider"]["openai"]["options"] == {"baseURL": "http://models/v1"}


def test_it_continues_a_conversation_under_the_id_it_gave() -> None:
    assert "-s" not in AGENT.build(turn(Session("chat"))).argv
    later = Session("chat", resumed=True, agent_session_id=ID)
    assert AGENT.build(turn(later)).argv[-2:] == ("-s", ID)
    assert AGENT.conversation_id(later) == ID
    assert AGENT.began(says("hi")) == ID
    assert AGENT.began({"sessionID": "--share"}) is None


def test_its_answer_is_its_last_message_and_its_cost_the_sum(outcome: Outcomes) -> None:
    steps = (says("I look."), finish("tool-calls"), says("It is ", "m2"), says("hi.", "m2"))
    result = AGENT.parse(outcome(event("step_start"), *steps, finish()))
    assert (result.text, result.agent_session_id, result.is_error) == ("It is hi.", ID, False)
    assert (result.turns, result.requests) == (2, 2)
    assert result.usage == Usage(
        input_tokens=20,
        output_tokens=10,
        cache_read_tokens=40,
        cache_write_tokens=2,
        cost_usd=0.04,
    )
    assert result.context_tokens == 36


def test_a_model_without_a_price_has_no_cost(outcome: Outcomes) -> None:
    result = AGENT.parse(outcome(says("hi"), finish(cost=0)))
    assert result.usage is not None
    assert result.usage.cost_usd is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ({"name": "APIError", "data": {"message": "no such model", "statusCode": 400}}, "no such"),
        ({"name": "UnknownError", "data": 7}, "UnknownError"),
        ("broken", "opencode failed without a word"),
    ],
)
def test_its_failure_is_one_in_its_words(outcome: Outcomes, error: object, said: str) -> None:
    result = AGENT.parse(outcome(says("half"), failure(error), exit_code=1))
    assert result.is_error
    assert said in (result.error or "")


def test_what_it_got_over_is_no_failure_and_what_was_cut_off_is_one(outcome: Outcomes) -> None:
    assert not AGENT.parse(outcome(failure({"name": "APIError"}), says("ok"), finish())).is_error
    assert AGENT.parse(outcome(says("half"), finish("tool-calls"))).is_error
    assert AGENT.parse(outcome(says("half"))).is_error


def test_a_session_it_does_not_know_is_told_from_other_trouble(outcome: Outcomes) -> None:
    unknown = outcome(exit_code=1, stderr="\x1b[91m\x1b[1mError: \x1b[0mSession not found")
    assert AGENT.parse(unknown).session_conflict == "unknown"
    assert AGENT.parse(outcome(exit_code=1, stderr="Error: no disk")).session_conflict is None


def test_it_is_heard_message_by_message_and_tells_the_cost_of_each() -> None:
    assert AGENT.piece(says("It is hi.")) == Piece("It is hi.", opens=True)
    assert AGENT.piece(finish()) is None
    assert AGENT.spent(finish()) == Spent(
        Usage(
            input_tokens=10,
            output_tokens=5,
            cache_read_tokens=20,
            cache_write_tokens=1,
            cost_usd=0.02,
        ),
        opens=True,
    )
    assert AGENT.spent(says("hi")) is None


KINDS = st.sampled_from(["text", "step_finish", "error", "tool_use"])
PART = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("text", "messageID", "reason", "cost"), VALUES),
        "tokens": st.dictionaries(st.sampled_from(["input", "output", "cache"]), VALUES) | VALUES,
    },
)
LINE = st.fixed_dictionaries(
    {"type": KINDS | VALUES, "part": PART | VALUES},
    optional=dict.fromkeys(("sessionID", "error"), VALUES),
)


@settings(max_examples=100, deadline=None)
@given(lines=st.lists(LINE, max_size=6), noise=st.binary(max_size=20))
def test_whatever_it_prints_is_read_without_trouble(
    lines: list[dict[str, Any]], noise: bytes
) -> None:
    printed = b"\n".join([noise, *(written(line).encode() for line in lines)])
    result = AGENT.parse(outcome_of(printed))
    assert isinstance(result.text, str)
    assert result.turns <= len(lines)
    for line in lines:
        AGENT.piece(line)
        AGENT.spent(line)
        AGENT.began(line)
