"""What an attempt has cost over its pods, and what is left of its limits: sums and tables."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strange_values import VALUES

from orbiter_contracts import Checkpoint, Usage
from worker_wrapper.agents import known_agents, load_agent
from worker_wrapper.agents.base import AgentOptions
from worker_wrapper.checkpoint.limits import Left, UsedUp, left
from worker_wrapper.checkpoint.meter import Meter
from worker_wrapper.checkpoint.resume import Earlier, prompts
from worker_wrapper.queue.checkpoints import Stored
from worker_wrapper.turn.usage import priced, together

AT = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)


def begins(tokens: int, thread: str | None = None, **more: int) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "output_tokens": 1, **more}
    event = {"type": "message_start", "message": {"usage": usage}}
    return {"type": "stream_event", "event": event, "parent_tool_use_id": thread}


def ends(tokens: int, thread: str | None = None) -> dict[str, Any]:
    event = {"type": "message_delta", "usage": {"output_tokens": tokens}}
    return {"type": "stream_event", "event": event, "parent_tool_use_id": thread}


def heard(agent: str, *events: dict[str, Any]) -> Meter:
    meter = Meter(load_agent(agent))
    for event in events:
        meter.hear(event)
    return meter


def test_answers_of_claude_are_summed_each_once() -> None:
    meter = heard(
        "claude",
        begins(100, cache_read_input_tokens=7),
        ends(10),
        ends(20),
        {"type": "assistant", "message": {"usage": {"input_tokens": 100, "output_tokens": 1}}},
        begins(200),
        ends(30),
    )
    assert meter.spent == Usage(input_tokens=300, output_tokens=50, cache_read_tokens=7, turns=2)
    assert meter.events == 6


@pytest.mark.parametrize(
    ("agent", "first", "answer"),
    [
        ("claude", {"type": "system", "subtype": "init"}, begins(1)),
        (
            "codex",
            {"type": "turn.started"},
            {"type": "item.completed", "item": {"type": "reasoning", "id": "1", "text": "so"}},
        ),
        ("gemini", {"type": "message", "role": "user"}, {"type": "message", "role": "assistant"}),
        ("orbiter", {"type": "start"}, {"type": "step"}),
    ],
)
def test_nothing_has_happened_until_the_model_is_heard(
    agent: str, first: dict[str, Any], answer: dict[str, Any]
) -> None:
    assert heard(agent, first).events == 0
    assert heard(agent, first, answer, {"type": "whatever"}).events == 2


def test_answers_of_subagents_that_come_in_between_are_told_apart() -> None:
    meter = heard("claude", begins(100), begins(50, "t-1"), ends(20), ends(5, "t-1"), begins(1))
    assert meter.spent == Usage(input_tokens=151, output_tokens=26, turns=3)


def test_our_own_agent_tells_sums() -> None:
    def told(steps: int, cost: float | None) -> dict[str, Any]:
        usage = {"input_tokens": 10 * steps, "output_tokens": steps}
        return {"type": "spent", "num_turns": steps, "cost_usd": cost, "usage": usage}

    assert heard("orbiter", told(1, 0.1), told(2, 0.2)).spent == Usage(
        input_tokens=20, output_tokens=2, turns=2, cost_usd=0.2
    )


def test_codex_names_its_thread_while_it_works() -> None:
    thread = "01a20a1f-c11c-7561-a476-0b3666741929"
    meter = heard("codex", {"type": "thread.started", "thread_id": thread}, {"thread_id": "x"})
    assert (meter.conversation, meter.spent) == (thread, None)


@given(st.sampled_from(known_agents()), st.lists(st.dictionaries(st.text(max_size=8), VALUES)))
def test_whatever_an_agent_prints_is_counted_or_not(
    agent: str, events: list[dict[str, Any]]
) -> None:
    meter = heard(agent, *events)
    assert 0 <= meter.events <= len(events)
    assert meter.spent is None or meter.spent.turns >= 0


@given(st.integers(), st.integers(), VALUES)
def test_giant_counts_of_an_agent_stay_in_bounds(one: int, other: int, odd: Any) -> None:
    meter = heard("claude", begins(one), ends(other), begins(other), ends(one), begins(odd))
    assert meter.spent is not None


def test_a_conversation_of_claude_says_what_it_has_cost_as_it_was_ended() -> None:
    lines = [
        b'{"type":"cost-state","totalCostUSD":0.1,"modelUsage":{"m":{"inputTokens":1}}}',
        b'{"type":"cost-state","totalCostUSD":0.5,"modelUsage":{"m":{"inputTokens":9}}}',
        b'{"type":"user"}',
        b'{"type":"cost-sta',
    ]
    recorded = load_agent("claude").recorded(b"\n".join(lines))
    assert recorded == Usage(input_tokens=9, cost_usd=0.5)
    assert load_agent("claude").recorded(b'{"type":"user"}\n"cost-state"\n{"cost-state":1}') is None


def test_a_conversation_of_codex_says_what_it_has_cost_after_each_answer() -> None:
    line = (
        b'{"type":"event_msg","payload":{"type":"token_count","info":'
        b'{"total_token_usage":{"input_tokens":30,"cached_input_tokens":10,"output_tokens":5}}}}'
    )
    recorded = load_agent("codex").recorded(line + b"\n" + line[:90])
    assert recorded is None or recorded.input_tokens == 20
    assert load_agent("codex").recorded(line) == Usage(
        input_tokens=20, cache_read_tokens=10, output_tokens=5
    )


@pytest.mark.parametrize(
    "line",
    [
        b'{"x":"total_token_usage"}',
        b'["total_token_usage"]',
        b'{"payload":null,"total_token_usage":1}',
        b'{"payload":{"info":null},"total_token_usage":1}',
        b'{"payload":{"info":{"total_token_usage":7}}}',
        b'{"payload":{"info":{"total_token_usage":null}}}',
    ],
)
def test_a_conversation_that_says_something_else_tells_no_cost(line: bytes) -> None:
    """An agent may write into its conversation's file: that costs the figure, not the worker."""
    assert load_agent("codex").recorded(line) is None


@given(st.sampled_from(known_agents()), st.binary())
def test_whatever_is_in_a_conversation_it_says_a_cost_or_none(agent: str, data: bytes) -> None:
    for text in (data, b'"cost-state"' + data, b'{"total_token_usage":' + data):
        assert isinstance(load_agent(agent).recorded(text), Usage | None)


SPENT = Checkpoint(time=AT, generation=2, turns=4, cost_usd=0.5, agent_seconds=100)


@pytest.mark.parametrize(
    ("seconds", "turns", "cost", "expected"),
    [
        (300, None, None, Left(200, AgentOptions())),
        (300, 10, 2.0, Left(200, AgentOptions(max_turns=6, max_cost_usd=1.5))),
        (100, None, None, "AgentTimeout"),
        (99, 10, 2.0, "AgentTimeout"),
        (300, 4, None, "AgentError"),
        (300, None, 0.5, "AgentError"),
    ],
)
def test_a_pod_has_what_the_ones_before_have_left(
    seconds: float, turns: int | None, cost: float | None, expected: Left | str
) -> None:
    found = left(seconds, AgentOptions(max_turns=turns, max_cost_usd=cost), SPENT)
    if isinstance(expected, Left):
        assert found == expected
    else:
        assert isinstance(found, UsedUp)
        assert found.reason == expected


def test_the_first_pod_has_all_of_it() -> None:
    options = AgentOptions(max_turns=1, max_cost_usd=0.1)
    assert left(60, options, None) == Left(60, options)


def test_sums_take_what_is_known() -> None:
    assert together(None, None) is None
    assert together(Usage(turns=1), None) == Usage(turns=1)
    assert together(Usage(input_tokens=1, cost_usd=0.5), Usage(input_tokens=2)) == Usage(
        input_tokens=3, cost_usd=0.5
    )


def test_tokens_of_a_killed_agent_cost_what_the_others_did() -> None:
    known = Usage(input_tokens=100, output_tokens=20, cost_usd=0.2)
    found = priced(Usage(input_tokens=50, output_tokens=10), known)
    assert found is not None
    assert (found.input_tokens, found.output_tokens) == (50, 10)
    assert found.cost_usd == pytest.approx(0.1)
    assert priced(Usage(input_tokens=50, cost_usd=3.0), known) == Usage(
        input_tokens=50, cost_usd=3.0
    )
    assert priced(Usage(input_tokens=50), Usage(input_tokens=1)) == Usage(input_tokens=50)
    assert priced(None, known) is None


def test_an_agent_that_goes_on_is_told_what_has_happened_and_one_that_begins_is_not() -> None:
    resumed = Earlier(SPENT, Stored(SPENT, b"s", b""))
    line, anew = prompts("paint it", resumed, "Evicted")
    assert "(Evicted)" in line
    assert "12:00:00 UTC" in line
    assert "\n" not in line
    assert anew == f"{line}\n\npaint it"
    assert prompts("paint it", Earlier(SPENT), "Evicted") == ("paint it", None)
