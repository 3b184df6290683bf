"""Runs inside of a run that is kept: they count once, and what they did is not done twice."""

import asyncio

import pytest

from orbiter import Agent, Swarm, run, tool
from orbiter.journal import read_entry
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ModelError,
    ScriptedModel,
    call,
)
from orbiter.replay import CUT_OFF
from orbiter.run_store import MemoryRunStore
from orbiter.types import RunContext

from .kept_runs import Player, World, at_every_entry, prefix


class Each(Player):
    """Each agent, told apart by its tool, uses that once and then has its say."""

    async def complete(self, messages, *, tools=None, **options):
        name = tools[0]["function"]["name"]
        self.turns = ([name], f"{name} said")
        mine = [m for m in messages if getattr(m, "role", "") != "user"]
        return await super().complete([messages[0], *mine], tools=tools)


async def test_a_swarm_in_a_flow_goes_on_where_each_of_its_agents_was():
    def build(world):
        a, b, c, d = (Agent(name=n, tools=[world.tool(f"{n}1")]) for n in "abcd")
        deep = Swarm(name="deep", agents=[b])
        inner = Swarm(name="inner", agents=[deep, c], flow="(deep | c)")
        return Swarm(agents=[a, inner, d], flow="a >> inner >> d"), Each(world)

    await at_every_entry(build, "d1 said")


async def test_a_member_of_the_same_name_in_another_swarm_has_a_journal_of_its_own():
    def build(world):
        outside, inside = (Agent(name="a", tools=[world.tool(n)]) for n in ("one", "two"))
        return Swarm(agents=[outside, Swarm(name="inner", agents=[inside])]), Each(world)

    await at_every_entry(build, "two said")


async def test_an_agent_that_was_asked_by_a_tool_is_not_asked_twice():
    def build(world):
        expert = Agent(name="expert")
        lead = Agent(name="lead", tools=[expert.as_tool(), world.tool("one")])

        class Both(Player):
            async def complete(self, messages, *, tools=None, **options):
                if tools is None:
                    assert [m.content for m in messages] == ["?"]
                    world.done.append("expert")
                    self.turns = ("42",)
                else:
                    self.turns = (["expert", "one"], ["one"], "it is done")
                reply = await super().complete(messages, tools=tools)
                calls = [
                    c.model_copy(update={"arguments": '{"input": "?"}'})
                    if c.name == "expert"
                    else c
                    for c in reply.tool_calls
                ]
                return reply.model_copy(update={"tool_calls": calls})

        return lead, Both(world)

    store, whole = MemoryRunStore(), World()
    lead, model = build(whole)
    first = await run(lead, "go", provider=model, journal=store, run_id="r")
    assert (whole.done.count("expert"), whole.done.count("one"), first.steps) == (1, 2, 4)
    entries = store._runs["r"]
    for count in range(len(entries) + 1):
        kinds = [read_entry(text).type for text in entries[:count]]
        later, kept = World(), prefix(store, count)
        lead, model = build(later)
        result = await run(lead, "go", provider=model, journal=kept, run_id="r")
        assert result.output == "it is done"
        assert later.done.count("expert") == (0 if "replied" in kinds else 1)
        again = await run(lead, "go", provider=model, journal=kept, run_id="r")
        assert (again.usage, again.steps) == (result.usage, result.steps)


async def test_what_an_agent_took_that_was_asked_by_a_tool_counts_once_in_the_next_life():
    stuck = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        stuck.set()
        await asyncio.Event().wait()
        return ""

    expert = Agent(name="expert", tools=[hang])
    lead = Agent(name="lead", tools=[expert.as_tool()])
    model = ScriptedModel(call("expert", input="?"), call("hang"), "so be it")
    store = MemoryRunStore()
    running = asyncio.create_task(run(lead, "go", provider=model, journal=store, run_id="r"))
    await stuck.wait()
    kept = prefix(store, len(store._runs["r"]))
    running.cancel()
    result = await run(lead, "go", provider=model, journal=kept, run_id="r")
    assert (result.output, result.messages[2].error) == ("so be it", CUT_OFF)
    assert (result.steps, result.usage.total_tokens) == (3, 45)


async def test_steps_for_a_tool_are_not_those_of_the_agent_that_has_the_same_name():
    inner = Agent(name="same")
    outer = Agent(name="same", tools=[inner.as_tool(name="ask")], max_steps=2)
    model = ScriptedModel(call("ask", input="?"), "42", ModelError("overloaded"), "it is 42")
    store = MemoryRunStore()
    with pytest.raises(ModelError) as caught:
        await run(outer, "go", provider=model, journal=store, run_id="r")
    assert caught.value.steps == 3
    outer.max_steps = 3
    result = await run(outer, "go", provider=model, journal=store, run_id="r")
    assert (result.output, result.steps) == ("it is 42", 4)


async def test_a_validator_that_checks_a_kept_answer_may_ask_an_agent_again():
    judge = Agent(name="judge")
    agent = Agent(name="a")

    @agent.output_validator
    async def check_it(context: RunContext, output: str) -> str:
        return f"{output}: {(await context.run(judge, output)).output}"

    store, model = MemoryRunStore(), ScriptedModel("done", "good", "good")
    for steps in (2, 3):
        result = await run(agent, "go", provider=model, journal=store, run_id="r")
        assert (result.output, result.steps) == ("done: good", steps)


async def test_what_the_engine_adds_for_one_call_is_not_kept():
    class Memory:
        async def recall(self, query, *, agent_name):
            return "Ada likes lamps."

        async def remember(self, messages, *, agent_name): ...

    store, model = MemoryRunStore(), ScriptedModel(call("one"), "done")
    agent = Agent(name="a", tools=[World().tool("one")], memory=Memory())
    await run(agent, "go", provider=model, journal=store, run_id="r")
    assert all("added_context" in str(request.messages) for request in model.requests)
    assert not any("lamps" in text for text in store._runs["r"])
