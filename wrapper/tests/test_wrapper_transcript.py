"""What becomes of an agent's lines: merged, redacted, bounded, and never waited for."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from redis.exceptions import ResponseError

from orbiter_contracts import AgentVerdict, Usage
from orbiter_contracts.transcript import MAX_ENTRY_BYTES, MAX_EVENT_BYTES, AnyEvent
from orbiter_contracts.transcript_reading import entry_data
from worker_wrapper.agents import claude, opencode
from worker_wrapper.agents.base import Agent
from worker_wrapper.queue.connection import RedisUnavailableError
from worker_wrapper.redact import Redactor
from worker_wrapper.transcript import writing
from worker_wrapper.transcript.scribe import WAITING_BYTES, Scribe
from worker_wrapper.transcript.writing import Transcript
from worker_wrapper.turn.turn import TurnReport

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
SECRET = "sk-ant-very-secret"


def scribe(agent: Agent = claude.AGENT, **given: Any) -> Scribe:
    return Scribe(agent, Redactor([SECRET]), **{"attempt": 2, "clock": lambda: NOW} | given)


def report(**fields: Any) -> TurnReport:
    usual: dict[str, Any] = {
        "status": "success", "reason": None, "error": None, "text": "", "usage": None,
        "verdict": AgentVerdict(summary="made it"), "session": None, "warnings": [],
        "started_at": NOW, "finished_at": NOW, "duration_ms": 0,
    }  # fmt: skip
    return TurnReport(**usual | fields)


def says(text: str, parent: str | None = None) -> dict[str, Any]:
    inner = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return {"type": "stream_event", "event": inner, "parent_tool_use_id": parent}


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "t1", "name": name, "input": arguments}
    return {"type": "assistant", "message": {"content": [block]}}


def answers(text: str, *, failed: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": text, "is_error": failed}
    return {"type": "user", "message": {"content": [block]}}


def told(events: Sequence[AnyEvent]) -> list[tuple[str, str]]:
    """Each event with the one of its texts that matters."""
    names = ("text", "error", "arguments", "content", "question", "events")
    found = ((event.type, [getattr(event, name, None) for name in names]) for event in events)
    return [(kind, str(next((value for value in texts if value), ""))) for kind, texts in found]


def test_deltas_become_one_text_up_to_what_comes_next() -> None:
    one = scribe()
    for line in (says("I "), says("look."), calls("Bash", command="ls"), answers("a"), says("So.")):
        one.hear(line)
    one.close()
    assert told(one.take()) == [
        ("text", "I look."),
        ("tool_call", '{"command": "ls"}'),
        ("tool_result", "a"),
        ("text", "So."),
    ]
    assert not one.pending


def test_a_result_has_its_calls_name_and_how_long_it_took() -> None:
    one = scribe()
    one.hear(calls("Bash", command="ls"))
    one.hear(answers("denied", failed=True))
    result = one.take()[1]
    assert (result.type, result.tool_name, result.error) == ("tool_result", "Bash", "denied")
    assert result.seconds is not None


def test_a_cli_that_tells_of_a_call_when_it_has_ended_is_heard_to_have_called() -> None:
    one = scribe(opencode.AGENT)
    state = {"status": "completed", "input": {"path": "a"}, "output": "x"}
    one.hear({"type": "tool_use", "part": {"tool": "read", "callID": "c", "state": state}})
    assert told(one.take()) == [("tool_call", '{"path": "a"}'), ("tool_result", "x")]


def test_what_subagents_say_among_themselves_is_told_apart() -> None:
    one = scribe()
    for line in (says("We"), says("they", "toolu_9"), says(" go"), says("!", "toolu_9")):
        one.hear(line)
    one.close()
    texts = {event.agent_name: event.text for event in one.take() if event.type == "text"}
    assert texts == {"": "We go", "toolu_9": "they!"}


def test_a_secret_is_taken_out_wherever_it_is_and_however_it_comes() -> None:
    one = scribe()
    one.hear(says("it is sk-ant-"))
    shown = one.take()
    one.hear(says("very-secret, I think"))
    one.hear(calls("Bash", command=f"curl -H {SECRET}", list=[{SECRET: 1}]))
    one.hear(answers(f"{SECRET} is wrong"))
    one.end(report(verdict=AgentVerdict(summary=SECRET)), None)
    text = entry_data([*shown, *one.take()])
    assert "sk-ant" not in text
    assert text.count("[redacted]") == 5


def test_a_long_message_is_shortened_and_a_secret_in_it_taken_out() -> None:
    heard = scribe()
    heard.ask(f"my key is {SECRET}\x00 " + "x" * 50_000)
    [event] = heard.take()
    assert event.type == "message"
    assert event.text.startswith("my key is [redacted]")
    assert len(event.model_dump_json()) <= MAX_EVENT_BYTES


def test_the_verdicts_block_is_no_part_of_the_text() -> None:
    one = scribe()
    one.hear(says('Done. <result>{"status": "success"}</result>'))
    one.end(report(), Usage(cost_usd=0.5, output_tokens=7))
    events = one.take()
    assert told(events)[0] == ("text", "Done.")
    assert [event.type for event in events] == ["text", "usage", "verdict"]
    assert (events[-1].cost_usd, events[-1].attempt) == (0.5, 2)


def test_nothing_comes_behind_the_verdict() -> None:
    one = scribe()
    inner = {"type": "message_start", "message": {"usage": {"input_tokens": 9}}}
    one.hear({"type": "stream_event", "event": inner})
    one.hear(calls("Bash"))
    one.end(report(), Usage(input_tokens=9, turns=1))
    assert [event.type for event in one.take()] == ["tool_call", "usage", "verdict"]


def test_a_question_stands_before_the_verdict() -> None:
    one = scribe()
    asks = AgentVerdict(status="input_required", question="Which one?")
    one.end(report(status="input_required", verdict=asks), None)
    assert told(one.take()) == [("input_request", "Which one?"), ("verdict", "")]


def test_a_question_that_is_not_in_its_own_field_is_told_all_the_same() -> None:
    one = scribe()
    asks = AgentVerdict(status="input_required")
    one.end(report(status="input_required", verdict=asks, text="Which one?"), None)
    assert told(one.take()) == [("input_request", "Which one?"), ("verdict", "")]


def test_costs_go_on_over_the_pods_of_an_attempt() -> None:
    one = scribe(opencode.AGENT, before=Usage(input_tokens=5, cost_usd=1.0))
    tokens = {"tokens": {"input": 10, "output": 1}, "cost": 0.25}
    one.hear({"type": "step_finish", "part": tokens})
    one.hear({"type": "text", "part": {"text": "x"}})
    one.close()
    text, usage = one.take()
    assert text.cost_usd == 1.25
    assert usage.type == "usage"
    assert (usage.usage.input_tokens, usage.usage.cost_usd) == (15, 1.25)


def test_a_long_text_is_several_events_and_a_long_answer_is_shortened() -> None:
    one = scribe()
    one.hear(says("ä" * 5_000))
    one.hear(calls("Bash"))
    one.hear(answers("…" * 30_000))
    events = one.take()
    texts = [event.text for event in events if event.type == "text"]
    assert "".join(texts) == "ä" * 5_000
    assert [event.opens for event in events if event.type == "text"] == [True, False, False]
    assert "[30000 characters, cut]" in told(events)[-1][1]
    sizes = [len(event.model_dump_json(exclude_none=True).encode()) for event in events]
    assert max(sizes) <= MAX_EVENT_BYTES


def test_what_waits_too_long_is_dropped_from_the_front_and_said() -> None:
    one = scribe()
    for count in range(200):
        one.hear(calls("Bash", command=f"{count} " + "x" * 2_000))
    entries = []
    while one.pending:
        entries.append(one.take())
        assert len(entry_data(entries[-1]).encode()) <= MAX_ENTRY_BYTES
    assert entries[0][0].type == "cut"
    kept = [event for entry in entries for event in entry if event.type == "tool_call"]
    assert entries[0][0].events == 200 - len(kept)
    assert kept[-1].arguments.startswith('{"command": "199')
    assert len(entry_data(kept)) < WAITING_BYTES


def test_lines_that_are_too_long_or_make_trouble_are_counted() -> None:
    one = scribe()
    one.miss(300_000)
    one.hear(None)  # type: ignore[arg-type]
    (cut,) = one.take()
    assert (cut.type, cut.events, cut.bytes) == ("cut", 2, 300_000)


def test_arguments_nested_too_deep_cost_themselves() -> None:
    one, deep = scribe(), json.loads("[" * 900 + "]" * 900)
    for _ in range(10):
        deep = [[deep] * 1]
    one.hear(calls("Bash", deep=deep))
    assert [event.type for event in one.take()] == ["tool_call"]


class Redis:
    """Takes what is appended, or refuses it."""

    def __init__(self) -> None:
        self.entries: list[list[AnyEvent]] = []
        self.tries = 0
        self.error: Exception | None = None
        self.hangs = False

    async def append(self, events: Sequence[AnyEvent]) -> None:
        self.tries += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error:
            raise self.error
        self.entries.append([*events])


@pytest.fixture
def redis() -> Redis:
    return Redis()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_comes_between_two_writes_travels_together(redis: Redis) -> None:
    async with Transcript(scribe(), redis.append) as transcript:
        for line in (says("a"), calls("Bash"), answers("b")):
            transcript.hear(line)
        await settle()
        assert [told(entry) for entry in redis.entries] == [
            [("text", "a"), ("tool_call", "{}"), ("tool_result", "b")]
        ]
        transcript.hear(says("c"))
        await settle()
        assert redis.tries == 1
        await transcript.finish(report())
    assert told(redis.entries[1]) == [("text", "c"), ("verdict", "made it")]


@pytest.mark.parametrize("error", [RedisUnavailableError("full"), ResponseError("WRONGTYPE")])
async def test_a_redis_that_refuses_costs_nobody_a_wait_and_what_is_lost_is_said(
    redis: Redis, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "SECONDS_BETWEEN", 0)
    redis.error = error
    async with Transcript(scribe(), redis.append) as transcript:
        for count in range(300):
            transcript.hear(calls("Bash", command=f"{count} " + "x" * 2_000))
            await asyncio.sleep(0)
        assert redis.tries > 1
        redis.error = None
        await transcript.finish(report())
    events = [event for entry in redis.entries for event in entry]
    kinds = [event.type for event in events]
    assert kinds[-1] == "verdict"
    lost = sum(event.events for event in events if event.type == "cut")
    assert lost + kinds.count("tool_call") == 300
    assert lost > 0


async def test_the_end_of_a_turn_waits_half_a_second_for_a_redis_that_hangs(redis: Redis) -> None:
    redis.hangs = True
    began = asyncio.get_running_loop().time()
    async with Transcript(scribe(), redis.append) as transcript:
        transcript.hear(says("a"))
        await settle()
        await transcript.finish(report())
    assert asyncio.get_running_loop().time() - began < 5
    assert redis.tries == 1


async def test_a_turn_that_goes_on_in_another_pod_has_no_verdict_yet(redis: Redis) -> None:
    async with Transcript(scribe(), redis.append) as transcript:
        transcript.hear(says("half"))
        await transcript.finish()
    assert [told(entry) for entry in redis.entries] == [[("text", "half")]]


async def test_what_could_not_be_written_is_known_to_who_comes_next(redis: Redis) -> None:
    redis.error = RedisUnavailableError("away")
    async with Transcript(scribe(), redis.append) as transcript:
        transcript.hear(calls("Bash"))
        await settle()
        transcript.hear(answers("a"))
        await transcript.finish(report())
    assert transcript.left == 3
    later = scribe()
    later.miss(0, transcript.left)
    assert told(later.take()) == [("cut", "3")]
