"""Whatever happens in a run, the conversation it leaves is one that every provider accepts."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from orbiter import Agent, Swarm, run, tool
from orbiter.config import TaskConfig
from orbiter.hooks import Hook, HookPoint
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ModelError,
    ModelProvider,
    ModelResponse,
)
from orbiter.types import AssistantMessage, Message, SystemMessage, ToolCall, ToolResult

CALLS = ["fine", "broken", "sync", "hangs", "unknown", "transfer_to_one", "transfer_to_two"]
STEPS = st.one_of(
    st.just("text"),
    st.just("model error"),
    st.lists(
        st.tuples(
            st.sampled_from(CALLS),
            st.sampled_from(["{}", "", "{", "[1]", '{"x": 1}']),
            st.sampled_from(["", "same", "own"]),
        ),
        min_size=1,
        max_size=3,
    ),
)


def check(messages: list[Message], *, system: bool) -> None:
    """What OpenAI and Anthropic both demand: one result a call, right behind the message."""
    waiting: list[str] = []
    for position, message in enumerate(messages):
        if isinstance(message, ToolResult):
            assert message.tool_call_id in waiting, f"nobody asked for {message}"
            waiting.remove(message.tool_call_id)
            continue
        assert not waiting, f"no result for {waiting} before {message}"
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.tool_calls]
            assert "" not in waiting
            assert len(set(waiting)) == len(waiting)
        if isinstance(message, SystemMessage):
            assert system
            assert position == 0
    assert not waiting, f"no result for {waiting}"


class Player(ModelProvider):
    """Plays the steps and checks whatever it is sent."""

    def __init__(self, steps: list[Any]) -> None:
        self.steps = list(steps)
        self.serial = 0

    async def complete(self, messages, *, tools=None, temperature=None, max_tokens=None):
        check(messages, system=True)
        await asyncio.sleep(0)
        step = self.steps.pop(0) if self.steps else "text"
        if step == "model error":
            raise ModelError("overloaded")
        if step == "text":
            return ModelResponse(content="done")
        return ModelResponse(tool_calls=[self.call(*parts) for parts in step])

    def call(self, name: str, arguments: str, identity: str) -> ToolCall:
        self.serial += 1
        own = f"id_{self.serial}"
        return ToolCall(id=own if identity == "own" else identity, name=name, arguments=arguments)


@tool
async def fine() -> str:
    """Work."""
    await asyncio.sleep(0)
    return "fine"


@tool
async def broken() -> str:
    """Fail."""
    raise ValueError("broken")


@tool
async def hangs() -> str:
    """Take long."""
    await asyncio.sleep(0.004)
    return "at last"


@tool
async def sync() -> str:
    """Cancel itself."""
    raise asyncio.CancelledError


def crew(max_steps: int, hook: str) -> Agent:
    def refuse(event: Any) -> None:
        if event.tool_call.name == "unknown":
            raise PermissionError("refused")

    point = HookPoint.PRE_TOOL_CALL if hook == "before" else HookPoint.POST_TOOL_CALL
    hooks = [Hook(point, refuse)] if hook else []
    tools = [fine, broken, hangs, sync]
    one = Agent(name="one", instructions="One.", tools=tools, hooks=hooks, max_steps=max_steps)
    two = Agent(name="two", tools=tools, handoffs=[one], max_steps=max_steps)
    one.handoffs.append(two)
    return one


@settings(max_examples=150, deadline=None)
@given(
    scripts=st.lists(st.lists(STEPS, max_size=5), min_size=1, max_size=3),
    max_steps=st.integers(1, 4),
    hook=st.sampled_from(["", "before", "after"]),
    ending=st.sampled_from(["none", "timeout", "cancel", "stop reading", "usage"]),
    after=st.integers(0, 12),
)
def test_a_conversation_is_valid_however_its_runs_end(scripts, max_steps, hook, ending, after):
    async def play() -> None:
        messages: list[Message] = []
        for script in scripts:
            messages = await one_run(crew(max_steps, hook), Player(script), messages, ending, after)
            check(messages, system=False)

    asyncio.run(play())


async def one_run(
    agent: Agent, model: Player, messages: list[Message], ending: str, after: int
) -> list[Message]:
    """Run once, end it as asked, and return the conversation there is then."""
    limits = {
        "timeout": TaskConfig(timeout=0.001 * (after + 1)),
        "usage": TaskConfig(model_calls=after + 1),
    }
    stream = run.stream(agent, "go", provider=model, messages=messages, config=limits.get(ending))

    async def read() -> None:
        count = 0
        async for _ in stream:
            count += 1
            if ending == "stop reading" and count > after:
                break

    reader = asyncio.create_task(read())
    if ending == "cancel":
        for _ in range(after):
            await asyncio.sleep(0)
        reader.cancel()
    await asyncio.wait([reader])
    await stream.aclose()
    if not reader.cancelled():
        assert isinstance(reader.exception(), ModelError | PermissionError | None)
    return messages if stream.result is None else stream.result.messages


@settings(max_examples=40, deadline=None)
@given(
    script=st.lists(STEPS, max_size=6),
    flow=st.sampled_from(["a >> b", "(a | b)", "(a | b) >> c", "a >> (b | c)"]),
)
def test_a_swarms_conversation_is_valid_too(script, flow):
    async def play() -> None:
        agents = [Agent(name=n, tools=[fine, broken, sync], max_steps=3) for n in "abc"]
        stream = run.stream(Swarm(agents=agents, flow=flow), "go", provider=Player(script))
        try:
            async for _ in stream:
                pass
        except ModelError:
            pass
        check(stream.result.messages, system=False)

    asyncio.run(play())


MESSAGES = st.lists(
    st.one_of(
        st.builds(AssistantMessage, content=st.just("x")),
        st.lists(st.sampled_from("abc"), unique=True, min_size=1).map(
            lambda ids: AssistantMessage(tool_calls=[ToolCall(id=i, name="t") for i in ids])
        ),
        st.sampled_from("abc").map(lambda i: ToolResult(tool_call_id=i, tool_name="t")),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(MESSAGES)
def test_a_run_mends_any_conversation_it_is_given(messages):
    result = asyncio.run(run(Agent(name="a"), "go", provider=Player([]), messages=messages))
    check(result.messages, system=False)
