"""What an agent gets by `Agent(context=ctx)` alone, with the real run loop."""

import asyncio
from typing import Any

import pytest

from orbiter import Agent, Swarm, run, tool
from orbiter.additions import parted
from orbiter.context import Context, ContextConfig
from orbiter.hooks import HookPoint
from orbiter.memory import LongTermMemory, ShortTermMemory
from orbiter.models import ScriptedModel, call
from orbiter.types import Message, SystemMessage, ToolResult, Usage, UserMessage

USAGE = Usage(input_tokens=100, output_tokens=20, total_tokens=120)


@tool
def search_web(query: str) -> str:
    """Search the web."""
    return f"A result about {query}. " * 2000


def system_of(model: ScriptedModel, request: int = -1) -> str:
    first = model.requests[request].messages[0]
    assert isinstance(first, SystemMessage)
    return first.content


def added_of(model: ScriptedModel, request: int = -1) -> str:
    return parted(model.requests[request].messages[-1].content)[1]


def users_of(messages: list[Message]) -> list[str]:
    return [parted(m.content)[0] for m in messages if isinstance(m, UserMessage)]


async def talk(agent: Agent, model: ScriptedModel, *inputs: str) -> list[Message]:
    messages: list[Message] = []
    for text in inputs:
        messages = (await run(agent, text, messages=messages, provider=model)).messages
    return messages


async def test_what_a_mode_says_stands_at_the_end_of_the_newest_message() -> None:
    model = ScriptedModel("done")
    agent = Agent(name="r", instructions="You research.", context=Context(task_id="research-task"))
    await run(agent, "Research quantum computing", provider=model)
    assert system_of(model) == "You research."
    assert added_of(model).endswith(
        "\n## Task\nTask ID: research-task\nOriginal request: Research quantum computing"
        "\n</added_context>"
    )


async def test_large_tool_results_are_offloaded_and_can_be_read() -> None:
    ctx = Context(task_id="t")
    model = ScriptedModel(call("search_web", query="bees"), "done")
    result = await run(Agent(name="r", tools=[search_web], context=ctx), "go", provider=model)
    (seen,) = [m for m in result.messages if isinstance(m, ToolResult)]
    assert seen.content.startswith("[Result stored as artifact: artifact-")
    (name,) = await ctx.workspace.list()
    assert await ctx.workspace.read(name) == "A result about bees. " * 2000


async def test_tokens_and_steps_are_tracked_also_when_streaming() -> None:
    ctx = Context(task_id="t")
    agent = Agent(name="r", tools=[search_web], context=ctx)
    model = ScriptedModel(call("search_web", query="x"), "done", usage=USAGE)
    await run(agent, "go", provider=model)
    model = ScriptedModel(call("search_web", query="x"), "done", usage=USAGE)
    async for _ in run.stream(agent, "go", provider=model):
        pass
    assert ctx.token_usage == {
        "prompt_tokens": 400,
        "completion_tokens": 80,
        "total_tokens": 480,
    }
    assert [(s.step, s.prompt_tokens, s.output_tokens) for s in ctx.get_trajectory("r").steps] == [
        (step, 100, 20) for step in (1, 2, 3, 4)
    ]


async def test_a_checkpoint_is_saved_after_each_run() -> None:
    ctx = Context(task_id="t")
    await talk(Agent(name="r", context=ctx), ScriptedModel("one", "two"), "first", "second")
    newest = (await ctx.list_checkpoints())[-1]
    restored = await Context.restore(newest)
    assert [m.content for m in restored.history] == ["first", "one", "second", "two"]


async def test_a_long_conversation_is_windowed_then_summarised_and_loses_nothing() -> None:
    config = ContextConfig(history_rounds=3, summary_threshold=5)
    agent = Agent(name="r", instructions="Talk.", context=Context(task_id="t", config=config))
    answers = ["a0", "a1", "a2", "a3", "a4", "They counted up to two.", "a5"]
    model = ScriptedModel(*answers)
    messages = await talk(agent, model, *(f"q{n}" for n in range(6)))
    assert users_of(messages) == [f"q{n}" for n in range(6)]
    assert users_of(model.requests[2].messages) == ["q0", "q1", "q2"]
    assert users_of(model.requests[4].messages) == ["q2", "q3", "q4"]
    assert "user: q0" in users_of(model.requests[5].messages)[0]
    first, *rest = users_of(model.requests[6].messages)
    assert "They counted up to two." in first
    assert first.endswith("q3")
    assert rest == ["q4", "q5"]


async def test_after_500_turns_the_model_still_sees_a_fact_of_turn_3() -> None:
    ctx = Context(task_id="t")
    agent = Agent(name="r", instructions="Talk.", context=ctx)
    model = ScriptedModel(lambda messages: "I see.", repeat=True)
    inputs = [f"Tell me more about topic {n}" for n in range(1, 500)]
    inputs[2] = "My project is called Bluefin."
    messages = await talk(agent, model, *inputs, "What is my project called?")
    assert len(messages) == 1000
    last = model.requests[-1].messages
    assert "Bluefin" in last[1].content
    assert len(users_of(last)) == 20
    assert sum(len(m.content) for m in last) < 12_000
    calls_for_summaries = len(model.requests) - 500
    assert calls_for_summaries == 1 + (500 - 31) // 10


@pytest.mark.parametrize("mode", ["pilot", "copilot", "navigator"])
async def test_parallel_tool_calls_and_handoffs_work_in_every_mode(mode: Any) -> None:
    ctx = Context(task_id="t", config=ContextConfig(mode=mode, enable_retrieval=True))
    writer = Agent(name="writer", instructions="Write.", context=ctx)
    agent = Agent(name="r", tools=[search_web], handoffs=[writer], context=ctx)
    model = ScriptedModel(
        [call("search_web", query="a"), call("search_web", query="b")],
        call("transfer_to_writer"),
        "text",
    )
    result = await run(agent, "go", provider=model)
    assert (result.output, result.last_agent) == ("text", "writer")
    assert ctx.history == result.messages
    assert len(ctx.get_trajectory("r").steps) == 2
    assert len(ctx.get_trajectory("writer").steps) == 1
    assert users_of(model.requests[-1].messages) == ["go"]


async def test_a_swarm_shares_one_context() -> None:
    ctx = Context(task_id="t")
    agents = [Agent(name=name, instructions=name, context=ctx) for name in ("a", "b", "c")]
    model = ScriptedModel("one", "two", "three")
    result = await run(Swarm(agents=agents, flow="a >> (b | c)"), "go", provider=model)
    assert result.usage.total_tokens == ctx.token_usage["total_tokens"]
    assert ctx.origin_user_input == "go"


async def test_memory_and_context_work_together() -> None:
    memory = LongTermMemory()
    agent = Agent(name="r", instructions="Talk.", memory=memory, context=Context(task_id="1"))
    await run(agent, "My dog is called Rex.", provider=ScriptedModel("Nice."))
    agent = Agent(name="r", instructions="Talk.", memory=memory, context=Context(task_id="2"))
    model = ScriptedModel("Rex.")
    await run(agent, "What is my dog called?", provider=model)
    assert system_of(model) == "Talk."
    assert "My dog is called Rex." in added_of(model)
    assert "Task ID: 2" in added_of(model)


async def test_short_term_memory_carries_a_conversation_without_messages() -> None:
    agent = Agent(name="r", memory=ShortTermMemory())
    await run(agent, "I think of the number 7.", provider=ScriptedModel("Good."))
    model = ScriptedModel("7")
    await run(agent, "Which number?", provider=model)
    assert (
        "\nEarlier in this conversation:\nuser: I think of the number 7.\nassistant: Good.\n"
        in added_of(model)
    )


async def test_the_structured_output_of_a_run_becomes_the_tasks_output() -> None:
    from pydantic import BaseModel

    class Report(BaseModel):
        title: str

    ctx = Context(task_id="t")
    agent = Agent(name="r", output_type=Report, context=ctx)
    await run(agent, "go", provider=ScriptedModel('{"title": "Bees"}'))
    assert ctx.task_output == '{"title":"Bees"}'


async def test_a_summary_the_model_refuses_does_not_fail_the_run() -> None:
    config = ContextConfig(history_rounds=2, summary_threshold=2)
    agent = Agent(name="r", context=Context(task_id="t", config=config))
    from orbiter.models import ModelError

    model = ScriptedModel("a0", "a1", ModelError("overloaded"), "a2")
    messages = await talk(agent, model, "q0", "q1", "q2")
    assert messages[-1].content == "a2"
    assert "user: q0" in users_of(model.requests[-1].messages)[0]


async def failing(ctx: Context, **options: Any) -> Exception:
    from orbiter.models import ModelError

    agent = Agent(name="r", tools=[search_web], context=ctx)
    model = ScriptedModel(call("search_web", query="bees"), ModelError("overloaded"))
    with pytest.raises(ModelError) as raised:
        await run(agent, "go", provider=model, **options)
    return raised.value


async def test_a_checkpoint_is_saved_after_a_run_that_failed_and_it_can_go_on() -> None:
    ctx = Context(task_id="t")
    await failing(ctx)
    (saved,) = await ctx.list_checkpoints()
    restored = await Context.restore(saved)
    assert [m.role for m in restored.history] == ["user", "assistant", "tool"]
    agent = Agent(name="r", tools=[search_web], context=restored)
    result = await run(agent, "", messages=restored.history, provider=ScriptedModel("done"))
    assert result.output == "done"
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]


async def test_pilot_saves_none_after_a_failure_either() -> None:
    ctx = Context(task_id="t", config=ContextConfig(mode="pilot"))
    await failing(ctx)
    assert await ctx.list_checkpoints() == []
    assert [m.role for m in ctx.history] == ["user", "assistant", "tool"]


async def test_a_cancelled_run_leaves_a_checkpoint() -> None:
    ctx, waiting = Context(task_id="t"), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        waiting.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent(name="r", tools=[wait], context=ctx)
    task = asyncio.create_task(run(agent, "go", provider=ScriptedModel(call("wait"))))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (saved,) = await ctx.list_checkpoints()
    last = saved.content.history[-1]
    assert isinstance(last, ToolResult)
    assert last.error is not None


async def test_a_context_that_cannot_keep_a_failed_run_does_not_hide_its_error() -> None:
    class Broken(Context):
        async def fail_run(self, **given: Any) -> None:
            raise OSError("disk full")

    assert "overloaded" in str(await failing(Broken(task_id="t")))


async def test_a_run_that_ended_leaves_one_checkpoint_also_if_its_hook_fails() -> None:
    async def hook(event: Any) -> None:
        raise RuntimeError("no")

    ctx = Context(task_id="t")
    agent = Agent(name="r", context=ctx, hooks=[(HookPoint.FINISHED, hook)])
    with pytest.raises(RuntimeError, match="no"):
        await run(agent, "go", provider=ScriptedModel("done"))
    assert len(await ctx.list_checkpoints()) == 1
