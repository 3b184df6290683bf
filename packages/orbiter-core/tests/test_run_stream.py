import asyncio
import gc

import pytest

from orbiter import Agent, Swarm, run, tool
from orbiter.hooks import Hook, HookPoint
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ModelError,
    ModelResponse,
    ScriptedModel,
    StreamChunk,
    call,
)
from orbiter.types import (
    ErrorEvent,
    HandoffEvent,
    ResultEvent,
    StepEvent,
    TextEvent,
    ToolCallEvent,
    ToolResultEvent,
    Usage,
    UsageEvent,
)

USAGE = Usage(input_tokens=10, output_tokens=5, total_tokens=15)


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def calc() -> Agent:
    return Agent(name="calc", tools=[add])


async def collect(stream) -> list:
    return [event async for event in stream]


async def test_a_stream_tells_everything_a_user_interface_needs(calc):
    model = ScriptedModel(call("add", a=2, b=3), "It is 5")
    events = await collect(run.stream(calc, "2 + 3", provider=model))
    assert events[:-1] == [
        StepEvent(step=1, agent_name="calc"),
        UsageEvent(usage=USAGE, model="scripted", agent_name="calc"),
        ToolCallEvent(
            tool_name="add", tool_call_id="call_1", arguments='{"a": 2, "b": 3}', agent_name="calc"
        ),
        ToolResultEvent(tool_name="add", tool_call_id="call_1", content="5", agent_name="calc"),
        StepEvent(step=2, agent_name="calc"),
        TextEvent(text="It ", agent_name="calc"),
        TextEvent(text="is ", agent_name="calc"),
        TextEvent(text="5", agent_name="calc"),
        UsageEvent(usage=USAGE, model="scripted", agent_name="calc"),
    ]
    assert isinstance(events[-1], ResultEvent)


async def test_a_stream_and_a_plain_run_have_the_same_result(calc):
    script = [call("add", a=2, b=3), "It is 5"]
    plain = await run(calc, "2 + 3", provider=ScriptedModel(*script))
    stream = run.stream(calc, "2 + 3", provider=ScriptedModel(*script))
    events = await collect(stream)
    assert events[-1].result == plain
    assert stream.result == plain


async def test_a_provider_without_streaming_gives_its_text_in_one_piece(calc):
    class Bare:
        async def complete(self, messages, **options):
            return ModelResponse(content="hello there")

    events = await collect(run.stream(calc, "hi", provider=Bare()))
    assert [e.text for e in events if e.type == "text"] == ["hello there"]


async def test_a_provider_may_hand_out_its_stream_asynchronously(calc):
    class Late:
        async def stream(self, messages, **options):
            async def chunks():
                yield StreamChunk(delta="hello")

            return chunks()

    assert (await collect(run.stream(calc, "hi", provider=Late())))[-1].result.output == "hello"


async def test_a_handoff_is_an_event():
    target = Agent(name="billing")
    agent = Agent(name="triage", handoffs=[target])
    model = ScriptedModel(call("transfer_to_billing"), "done")
    events = await collect(run.stream(agent, "refund", provider=model))
    kinds = [event.type for event in events]
    assert kinds[2:6] == ["tool_call", "tool_result", "handoff", "step"]
    assert HandoffEvent(target="billing", agent_name="triage") in events
    assert [e.agent_name for e in events if e.type == "step"] == ["triage", "billing"]


async def test_events_of_branches_name_their_agent():
    agents = [Agent(name="a"), Agent(name="b")]
    model = ScriptedModel("x", "y")
    events = await collect(run.stream(Swarm(agents=agents, flow="(a | b)"), "go", provider=model))
    assert {e.agent_name for e in events if e.type == "text"} == {"a", "b"}


async def test_an_error_is_an_event_and_then_raised(calc):
    model = ScriptedModel(call("add", a=1, b=1), ModelError("overloaded"))
    stream = run.stream(calc, "go", provider=model)
    events = []

    async def read() -> None:
        async for event in stream:
            events.append(event)  # noqa: PERF401

    with pytest.raises(ModelError, match="overloaded"):
        await read()
    assert events[-1] == ErrorEvent(error="overloaded", agent_name="calc")
    assert stream.result.stop_reason == "error"
    assert [m.role for m in stream.result.messages] == ["user", "assistant", "tool"]


async def test_the_run_waits_for_its_reader(calc):
    ran = []

    @tool
    async def note() -> str:
        """Note that it ran."""
        ran.append("note")
        return ""

    calc.tools = [note]
    stream = run.stream(calc, "go", provider=ScriptedModel(call("note"), "done"))
    async for event in stream:
        if event.type == "tool_call":
            await asyncio.sleep(0.01)
            assert ran == []
            break
    await stream.aclose()
    assert ran == []
    assert stream.result.stop_reason == "cancelled"
    assert [m.role for m in stream.result.messages] == ["user", "assistant", "tool"]


async def test_leaving_the_loop_cancels_the_run(calc):
    gone = asyncio.Event()

    @tool
    async def never() -> str:
        """Never come back."""
        await asyncio.Event().wait()
        return ""

    calc.tools = [never]
    calc.hooks.add(Hook(HookPoint.ERROR, lambda event: gone.set()))
    async for event in run.stream(calc, "go", provider=ScriptedModel(call("never"))):
        if event.type == "tool_call":
            break
    gc.collect()
    await asyncio.wait_for(gone.wait(), 5)


async def test_leaving_an_async_with_block_cancels_the_run_before_going_on(calc):
    cancelled = []

    class Endless:
        async def stream(self, messages, **options):
            try:
                while True:
                    yield StreamChunk(delta="and ")
            finally:
                cancelled.append(True)

    async with run.stream(calc, "go", provider=Endless()) as stream:
        async for event in stream:
            if event.type == "text":
                break
    assert cancelled == [True]
    assert stream.result.stop_reason == "cancelled"


async def test_a_reader_that_is_cancelled_cancels_the_run(calc):
    gone = asyncio.Event()
    started = asyncio.Event()

    class Hanging:
        async def stream(self, messages, **options):
            started.set()
            try:
                await asyncio.Event().wait()
                yield StreamChunk()
            finally:
                gone.set()

    async def read() -> None:
        async for _ in run.stream(calc, "go", provider=Hanging()):
            pass

    reader = asyncio.create_task(read())
    await started.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await asyncio.wait_for(gone.wait(), 5)


async def test_a_stream_that_is_over_stays_over(calc):
    stream = run.stream(calc, "hi", provider=ScriptedModel("hello"))
    await collect(stream)
    assert await collect(stream) == []
    await stream.aclose()


async def test_a_closed_stream_gives_no_more_events(calc):
    stream = run.stream(calc, "hi", provider=ScriptedModel("hello"))
    await anext(stream)
    await stream.aclose()
    assert await collect(stream) == []


async def test_a_stream_nobody_reads_runs_nothing(calc):
    model = ScriptedModel("hello")
    stream = run.stream(calc, "hi", provider=model)
    await stream.aclose()
    assert model.requests == []
    assert stream.result is None


async def test_a_stream_that_is_left_ends_although_its_run_fails_on_the_way_out():
    @tool
    async def stubborn() -> str:
        """Fail instead of being cancelled."""
        await asyncio.Event().wait()
        return ""

    def refuse(event):
        raise PermissionError("refused")

    agent = Agent(name="a", tools=[stubborn], hooks=[Hook(HookPoint.ERROR, refuse)])
    stream = run.stream(agent, "go", provider=ScriptedModel(call("stubborn")))
    async for event in stream:
        if event.type == "tool_call":
            break
    await asyncio.wait_for(stream.aclose(), 5)
    assert stream.result.stop_reason == "error"
