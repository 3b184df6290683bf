"""What took a worker's time: its phases and its agent's tools, in the output of a traced task."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis
from support.queues import Queues
from support.wrapper import API_KEY, FakeClaude, Wrappers

from orbiter_contracts.tracing import MAX_STEPS, TraceParent, agent_span, trace_of
from worker_wrapper.redact import Redactor
from worker_wrapper.turn.outputs import developer_output, without_turn
from worker_wrapper.turn.publishing import publishable
from worker_wrapper.turn.steps import StepLog

UID = "6a7b1f4e-0000-4000-8000-000000000001"
PARENT = str(TraceParent(trace_of(UID).trace_id, agent_span(UID, 1)))
NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def test_a_phase_is_as_long_as_it_takes_and_fails_with_what_is_in_it() -> None:
    clock = Clock()
    log = StepLog(clock)
    with log.phase("prepare workspace"):
        clock.now += timedelta(seconds=2)
    with pytest.raises(ValueError, match="no"), log.phase("finish workspace"):
        raise ValueError("no")
    told = [(step.name, step.duration_ms, step.failed) for step in log.steps]
    assert told == [("prepare workspace", 2000, False), ("finish workspace", 0, True)]


def test_a_clock_that_is_set_back_gives_no_negative_time() -> None:
    clock = Clock()
    log = StepLog(clock)
    with log.phase("prepare workspace"):
        clock.now -= timedelta(hours=1)
    assert [step.duration_ms for step in log.steps] == [0]


def test_of_too_many_tools_the_slow_ones_stay() -> None:
    log = StepLog(Clock())
    with log.phase("prepare workspace"):
        pass
    for number in range(MAX_STEPS + 100):
        log.tool("Bash", number / 1000, failed=False)
    log.tool("", None, failed=True)
    durations = sorted(step.duration_ms for step in log.steps if step.kind == "tool")
    assert len(log.steps) == MAX_STEPS
    assert durations[0] == 101
    assert durations[-1] == MAX_STEPS + 99
    for name in ("finish workspace", "keep artifacts"):
        with log.phase(name):
            pass
    phases = [step.name for step in log.steps if step.kind == "phase"]
    assert phases == ["prepare workspace", "finish workspace", "keep artifacts"]
    assert len(log.steps) == MAX_STEPS
    assert min(step.duration_ms for step in log.steps if step.kind == "tool") == 103


@pytest.mark.parametrize("seconds", [1e300, -5.0, 0.0])
def test_however_long_a_tool_is_said_to_have_taken_it_is_a_step(seconds: float) -> None:
    log = StepLog(Clock())
    log.tool("Bash", seconds, failed=False)
    assert len(log.steps) == 1


def test_nothing_is_kept_where_nobody_wants_to_know() -> None:
    log = StepLog(Clock(), kept=False)
    with log.phase("prepare workspace"):
        log.tool("Bash", 1.0, failed=False)
    assert log.steps == []


def test_no_secret_is_in_a_steps_name_and_no_word_makes_it_another_kind() -> None:
    log = StepLog(Clock())
    log.tool(f"Bash({API_KEY})", 1.0, failed=False)
    from orbiter_contracts import DeveloperWorkerInput

    task = DeveloperWorkerInput(task_id="t", prompt="do it")
    output = developer_output(task, without_turn(NOW), worker_id="w", steps=log.steps)
    redactor = Redactor.of({"ANTHROPIC_API_KEY": API_KEY, "OTHER_TOKEN": "tooltool"})
    told = publishable(output, redactor).model_dump_json()
    assert API_KEY not in told
    assert "Bash([redacted])" in told


LINES = (
    {"type": "assistant", "message": {"id": "m-1", "content": [
        {"type": "tool_use", "id": "c-1", "name": "Bash", "input": {"command": "ls"}}]}},
    {"type": "user", "message": {"content": [
        {"type": "tool_result", "tool_use_id": "c-1", "content": "no", "is_error": True}]}},
    {"type": "result", "subtype": "success", "num_turns": 1, "total_cost_usd": 0.25,
     "result": "done <result>{}</result>", "usage": {"input_tokens": 10, "output_tokens": 5}},
)  # fmt: skip


@pytest.mark.integration
async def test_a_traced_task_says_what_took_its_time_and_its_agent_where_it_stands(
    wrappers: Wrappers, fake_claude: FakeClaude, redis: Redis
) -> None:
    fake_claude.does("\n".join(f"echo '{json.dumps(line)}'" for line in LINES))
    queues = Queues(redis)
    wrapper = wrappers.start(**await queues.bound_task(), TRACEPARENT=PARENT)
    output = await queues.output()
    assert await wrapper.exit_code() == 0
    told = [(step.name, step.kind, step.failed) for step in output.steps]
    assert told == [
        ("prepare workspace", "phase", False),
        ("Bash", "tool", True),
        ("finish workspace", "phase", False),
    ]
    assert [turn.env["TRACEPARENT"] for turn in fake_claude.turns] == [PARENT]


@pytest.mark.integration
@pytest.mark.parametrize("parent", ["", "garbage"])
async def test_a_task_without_a_trace_says_nothing_of_it(
    wrappers: Wrappers, queues: Queues, redis: Redis, parent: str
) -> None:
    wrappers.start(**await queues.bound_task(), TRACEPARENT=parent)
    assert (await queues.output()).steps == []


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)
