"""What a failed run had come to is not lost, and what goes on with it counts it all."""

import asyncio

import pytest

from orbiter import Agent, Swarm, run, tool
from orbiter.config import Spent, TaskConfig
from orbiter.hooks import Hook, HookPoint
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ModelError,
    ModelResponse,
    ScriptedModel,
    StreamChunk,
    call,
)
from orbiter.runner import OutputValidationError
from orbiter.types import AssistantMessage, OrbiterError, Usage, UserMessage


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ONE_CALL = Usage(input_tokens=10, output_tokens=5, total_tokens=15)


async def fail(agent, kind, *, stream=False, **options):
    """Run into an error and return it."""

    async def read():
        async for _ in run.stream(agent, "go", **options):
            pass

    with pytest.raises(kind) as caught:
        await (read() if stream else run(agent, "go", **options))
    return caught.value


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_has_the_messages_usage_and_steps_so_far(stream):
    model = ScriptedModel(call("add", a=1, b=2), ModelError("overloaded"))
    error = await fail(Agent(name="a", tools=[add]), ModelError, stream=stream, provider=model)
    assert [message.role for message in error.messages] == ["user", "assistant", "tool"]
    assert (error.usage, error.steps) == (ONE_CALL, 2)


async def test_with_them_the_run_can_go_on():
    agent = Agent(name="a", tools=[add])
    model = ScriptedModel(call("add", a=1, b=2), ModelError("overloaded"), "3")
    error = await fail(agent, ModelError, provider=model)
    spent = Spent(usage=error.usage, steps={"a": error.steps})
    result = await run(agent, "", provider=model, messages=error.messages, spent=spent)
    assert (result.output, result.steps, result.usage) == ("3", 3, ONE_CALL + ONE_CALL)


async def test_a_run_by_run_sync_fails_with_them_too():
    agent = Agent(name="a", output_type=Usage)
    model = ScriptedModel("no", repeat=True)
    with pytest.raises(OutputValidationError) as caught:
        # in a thread, which has no event loop of its own
        await asyncio.to_thread(run.sync, agent, "go", provider=model)
    assert (caught.value.steps, caught.value.usage.total_tokens) == (3, 45)
    assert caught.value.messages[0] == UserMessage(content="go")


async def test_a_swarms_error_has_what_all_its_agents_said():
    swarm = Swarm(agents=[Agent(name="a"), Agent(name="b")], flow="a >> b")
    error = await fail(swarm, ModelError, provider=ScriptedModel("one", ModelError("no")))
    assert [message.content for message in error.messages] == ["go", "one", "one"]
    assert error.usage == ONE_CALL


async def test_an_error_of_a_hook_stays_what_it_was_and_has_them_as_well():
    def refuse(event):
        raise PermissionError("refused")

    agent = Agent(name="a", tools=[add], hooks=[Hook(HookPoint.PRE_TOOL_CALL, refuse)])
    model = ScriptedModel(call("add", a=1, b=2))
    error = await fail(agent, PermissionError, provider=model)
    assert (error.usage, error.steps) == (ONE_CALL, 1)
    assert error.messages[-1].error == "no result: the run ended before the tool did"


async def test_an_error_that_has_such_words_of_its_own_keeps_them():
    class OwnError(Exception):
        messages = ("mine",)

        @property
        def usage(self):
            return "mine"

    agent = Agent(name="a")
    error = await fail(agent, OwnError, provider=ScriptedModel(OwnError()))
    assert (error.messages, error.usage, error.steps) == (("mine",), "mine", 1)


def test_an_error_of_no_run_has_none():
    error = OrbiterError("x")
    assert (list(error.messages), error.usage, error.steps) == ([], Usage(), 0)


async def test_what_was_said_before_a_stream_broke_off_is_kept_and_counted():
    class Breaking(ScriptedModel):
        async def stream(self, messages, **options):
            yield StreamChunk(usage=Usage(input_tokens=7, total_tokens=7))
            yield StreamChunk(delta="Once upon ")
            yield StreamChunk(delta="a time")
            raise ModelError("the line is dead")

    error = await fail(Agent(name="a"), ModelError, stream=True, provider=Breaking())
    assert error.messages[-1] == AssistantMessage(content="Once upon a time")
    assert error.usage.input_tokens == 7


async def test_what_was_spent_before_counts_for_steps_limits_and_events():
    model = ScriptedModel(call("add", a=1, b=2), repeat=True)
    agent = Agent(name="a", tools=[add], max_steps=4)
    spent = Spent(usage=ONE_CALL + ONE_CALL, steps={"a": 2})
    stream = run.stream(agent, "go", provider=model, spent=spent)
    steps = [event.step async for event in stream if event.type == "step"]
    assert steps == [3, 4]
    assert stream.result.stop_reason == "max_steps"
    assert (stream.result.steps, stream.result.usage.total_tokens) == (4, 60)
    limited = await run(
        agent, "go", provider=model, spent=spent, config=TaskConfig(total_tokens=30)
    )
    assert (limited.stop_reason, limited.steps, limited.usage.total_tokens) == (
        "usage_limit", 2, 30,
    )  # fmt: skip


async def test_steps_of_one_agent_are_no_steps_of_another():
    b = Agent(name="b", max_steps=1)
    a = Agent(name="a", handoffs=[b], max_steps=3)
    spent = Spent(steps={"a": 2})
    model = ScriptedModel(call("transfer_to_b"), ModelResponse(content="done"))
    result = await run(a, "go", provider=model, spent=spent)
    assert (result.output, result.steps, result.stop_reason) == ("done", 4, "completed")
