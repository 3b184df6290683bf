"""Agents as tools of others: what they see, what they cost, and where it is told."""

import asyncio

import pytest

from orbiter import Agent, Swarm, run, tool
from orbiter.config import TaskConfig
from orbiter.models import ModelError, ScriptedModel, call  # pyright: ignore[reportMissingImports]
from orbiter.observer import Observer, Scope, observe
from orbiter.swarm import agents_of
from orbiter.types import (
    AssistantMessage,
    OrbiterError,
    RunContext,
    SystemMessage,
    ToolResult,
    Usage,
    UserMessage,
)

USAGE = Usage(input_tokens=10, output_tokens=5, total_tokens=15)


class Cast:
    """A provider that answers as each agent's own script says; told apart by instructions."""

    def __init__(self, **scripts: ScriptedModel) -> None:
        self.scripts = scripts

    async def complete(self, messages, **options):
        return await self.scripts[messages[0].content].complete(messages, **options)


def agent(name: str, **options) -> Agent:
    return Agent(name=name, instructions=name, **options)


def results(result) -> list[ToolResult]:
    return [message for message in result.messages if isinstance(message, ToolResult)]


def asks(**scripts) -> Cast:
    return Cast(lead=ScriptedModel(call("expert", input="How many?"), "It is 42."), **scripts)


async def test_an_agent_asks_another_by_a_tool_and_goes_on_with_its_answer():
    cast = asks(expert=ScriptedModel("42"))
    lead = agent("lead", tools=[agent("expert").as_tool()])
    result = await run(lead, "Ask", provider=cast)
    assert (result.output, result.last_agent) == ("It is 42.", "lead")
    assert [one.content for one in results(result)] == ["42"]


async def test_the_one_that_is_asked_sees_the_text_alone():
    cast = asks(expert=ScriptedModel("42"))
    await run(agent("lead", tools=[agent("expert").as_tool()]), "Ask", provider=cast)
    assert cast.scripts["expert"].requests[0].messages == [
        SystemMessage(content="expert"),
        UserMessage(content="How many?"),
    ]


async def test_usage_and_steps_of_the_nested_run_count_for_the_outer_one():
    cast = asks(expert=ScriptedModel("42"))
    result = await run(agent("lead", tools=[agent("expert").as_tool()]), "Ask", provider=cast)
    assert (result.usage, result.steps) == (USAGE + USAGE + USAGE, 3)


async def test_its_conversation_is_not_the_outer_one_s():
    cast = asks(expert=ScriptedModel("42"))
    result = await run(agent("lead", tools=[agent("expert").as_tool()]), "Ask", provider=cast)
    assert [message.role for message in result.messages] == [
        "user", "assistant", "tool", "assistant"
    ]  # fmt: skip


def test_a_tool_is_named_and_described_by_its_agent():
    expert = Agent(name="tax expert", description="Knows taxes.", instructions="Be brief.")
    made = expert.as_tool()
    assert made.name == "tax_expert"
    assert made.description == "Ask tax expert, and get the answer. Knows taxes."
    assert list(made.parameters["properties"]) == ["input"]
    assert "Its instructions: Be brief." in Agent(name="a", instructions="Be brief.\nDo.").as_tool(
    ).description  # fmt: skip


def test_a_tool_may_have_a_name_and_a_description_of_its_own():
    made = agent("expert").as_tool(name="ask", description="Ask somebody.")
    assert (made.name, made.description) == ("ask", "Ask somebody.")


async def test_a_description_tells_those_who_may_hand_off_or_delegate():
    billing = Agent(name="billing", description="Refunds and invoices.", instructions="Secret.")
    model = ScriptedModel("hi", "hi")
    await run(Agent(name="desk", handoffs=[billing]), "go", provider=model)
    await run(Swarm(agents=[Agent(name="lead"), billing], mode="team"), "go", provider=model)
    told = [request.tools[0]["function"]["description"] for request in model.requests]
    assert told == [
        "Hand the conversation over to billing. Refunds and invoices.",
        "Give a task to billing and get the result. Refunds and invoices.",
    ]


async def test_a_typed_answer_is_told_as_json():
    cast = asks(expert=ScriptedModel('{"result": [1, 2]}'))
    expert = Agent(name="expert", instructions="expert", output_type=list[int])
    cast.complete, plain = None, cast.complete

    async def complete(messages, **options):
        name = messages[0].content.partition("\n")[0]
        return await plain([SystemMessage(content=name), *messages[1:]], **options)

    cast.complete = complete
    result = await run(agent("lead", tools=[expert.as_tool()]), "Ask", provider=cast)
    assert [one.content for one in results(result)] == ["[1,2]"]
    assert (result.output, result.stop_reason) == ("It is 42.", "completed")


async def test_an_agent_that_fails_is_an_error_the_asking_one_sees():
    cast = asks(expert=ScriptedModel(ModelError("overloaded")))
    result = await run(agent("lead", tools=[agent("expert").as_tool()]), "Ask", provider=cast)
    assert [one.error for one in results(result)] == ["Tool 'expert' failed: overloaded"]
    assert (result.last_agent, result.stop_reason) == ("lead", "completed")


async def test_an_agent_that_meets_its_max_steps_is_an_error_the_asking_one_sees():
    cast = asks(expert=ScriptedModel(call("nothing")))
    expert = agent("expert", max_steps=1)
    result = await run(agent("lead", tools=[expert.as_tool()]), "Ask", provider=cast)
    assert "stopped early (max_steps)" in results(result)[0].error
    assert result.stop_reason == "completed"


async def test_a_limit_of_the_run_holds_for_all_that_is_nested():
    cast = asks(expert=ScriptedModel(call("nothing"), "42"))
    lead = agent("lead", tools=[agent("expert").as_tool()])
    result = await run(lead, "Ask", provider=cast, config=TaskConfig(model_calls=2))
    assert (result.stop_reason, result.steps) == ("usage_limit", 2)
    assert "stopped early (usage_limit)" in results(result)[0].error


async def test_the_deadline_of_the_run_ends_what_is_nested():
    class Waiting:
        async def complete(self, messages, **options):
            await asyncio.Event().wait()

    cast = asks(expert=Waiting())
    lead = agent("lead", tools=[agent("expert").as_tool()])
    result = await run(lead, "Ask", provider=cast, config=TaskConfig(timeout=0.05))
    assert result.stop_reason == "timeout"


async def test_a_stream_tells_of_the_nested_run_its_usage_alone():
    cast = asks(expert=ScriptedModel("42"))
    lead = agent("lead", tools=[agent("expert").as_tool()])
    events = [event async for event in run.stream(lead, "Ask", provider=cast)]
    assert [(e.type, e.agent_name) for e in events[:-1]] == [
        ("step", "lead"), ("usage", "lead"), ("tool_call", "lead"), ("usage", "expert"),
        ("tool_result", "lead"), ("step", "lead"), ("text", "lead"), ("usage", "lead"),
    ]  # fmt: skip
    assert [e.step for e in events if e.type == "step"] == [1, 3]


async def test_a_stream_tells_all_that_the_workers_of_a_team_do():
    delegates = ScriptedModel(call("delegate_to_expert", task="How many?"), "It is 42.")
    cast = Cast(lead=delegates, expert=ScriptedModel("42"))
    team = Swarm(agents=[agent("lead"), agent("expert")], mode="team")
    events = [event async for event in run.stream(team, "Ask", provider=cast)]
    assert [e.text for e in events if e.type == "text"] == ["42", "It is 42."]


async def test_deps_reach_the_agent_that_is_asked():
    seen = []

    def instructions(context: RunContext) -> str:
        seen.append(context.deps)
        return "expert"

    expert = Agent(name="expert", instructions=instructions)
    cast = asks(expert=ScriptedModel("42"))
    await run(agent("lead", tools=[expert.as_tool()]), "Ask", provider=cast, deps="Ada")
    assert seen == ["Ada"]


async def test_a_tool_runs_agents_by_its_context_as_a_part_of_the_run():
    found = []

    @tool
    async def expert(context: RunContext, input: str) -> str:
        """Ask twice."""
        clerk = agent("clerk")
        found.extend([await context.run(clerk, input) for _ in range(2)])
        return found[-1].output

    cast = asks(clerk=ScriptedModel("41", "42"))
    result = await run(agent("lead", tools=[expert]), "Ask", provider=cast)
    assert (result.usage.total_tokens, result.steps) == (60, 4)
    assert [(one.usage, one.steps, one.last_agent) for one in found] == [(USAGE, 1, "clerk")] * 2
    assert found[0].messages == [
        UserMessage(content="How many?"),
        AssistantMessage(content="41"),
    ]


async def test_a_swarm_may_be_run_as_a_part_of_a_run():
    @tool
    async def expert(context: RunContext, input: str) -> str:
        """Ask a swarm."""
        return (await context.run(Swarm(agents=[agent("a"), agent("b")]), input)).output

    cast = asks(a=ScriptedModel("draft"), b=ScriptedModel("article"))
    result = await run(agent("lead", tools=[expert]), "Ask", provider=cast)
    assert [one.content for one in results(result)] == ["article"]
    assert (len(result.messages), result.steps) == (4, 4)


async def test_agents_that_ask_each_other_in_circles_come_to_an_end():
    first = Agent(name="ask")
    first.tools.append(first.as_tool())
    deepest = []

    def reply(messages):
        if messages[-1].role == "user":
            deepest.append(messages)
            return call("ask", input="?")
        return messages[-1].error or "done"

    model = ScriptedModel(reply, repeat=True)
    result = await run(first, "go", provider=model)
    assert result.stop_reason == "completed"
    assert len(deepest) == 21


async def test_a_context_that_belongs_to_no_run_says_so():
    context = RunContext("shop", "", (), None, None)
    with pytest.raises(OrbiterError, match="context of 'shop' belongs to no run"):
        await context.run(agent("expert"), "hi")


async def test_an_observer_of_all_runs_sees_nested_agents_inside_of_the_tool_call():
    told = []

    class Told(Scope):
        def __init__(self, what):
            self.what = what

        def __enter__(self):
            told.append(f"+{self.what}")
            return self

        def __exit__(self, *error):
            told.append(f"-{self.what}")

    class Telling(Observer):
        def run(self, target, input):
            return Told("run")

        def agent(self, agent, run):
            return Told(agent.name)

        def tool_call(self, agent, call, tool):
            return Told(f"{call.name}()")

    before = observe(Telling())
    try:
        cast = asks(expert=ScriptedModel("42"))
        await run(agent("lead", tools=[agent("expert").as_tool()]), "Ask", provider=cast)
    finally:
        observe(before)
    assert told == [
        "+run", "+lead", "+expert()", "+expert", "-expert", "-expert()", "-lead", "-run"
    ]  # fmt: skip


def test_all_agents_that_may_have_a_part_are_found_once():
    clerk, expert = agent("clerk"), agent("expert")
    first = agent("first", handoffs=[clerk], tools=[expert.as_tool()])
    clerk.handoffs.append(first)
    expert.tools.append(first.as_tool())
    swarm = Swarm(agents=[first, agent("last")])
    assert [one.name for one in agents_of(swarm)] == ["first", "last", "clerk", "expert"]
