"""A run that is kept goes on, at whichever entry its process stopped."""

import asyncio

from pydantic import BaseModel

from orbiter import Agent, Swarm, run, tool
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ScriptedModel,
    call,
)
from orbiter.replay import CUT_OFF
from orbiter.run_store import MemoryRunStore

from .kept_runs import Player, World, at_every_entry, prefix


async def test_a_run_goes_on_from_every_entry():
    def build(world):
        agent = Agent(name="a", tools=[world.tool("one"), world.tool("two"), world.tool("three")])
        return agent, Player(world, ["one"], ["two", "three"], "all done")

    # begun; three steps with their replies; three results; the answer
    assert await at_every_entry(build, "all done") == 1 + 6 + 3 + 1


async def test_a_handoff_goes_on_with_whoever_had_the_conversation():
    def build(world):
        b = Agent(name="b", tools=[world.tool("two")])
        a = Agent(name="a", tools=[world.tool("one")], handoffs=[b])
        return a, Player(world, ["one"], ["transfer_to_b"], ["two"], "b is done")

    await at_every_entry(build, "b is done")


async def test_a_swarm_by_handoffs_goes_on():
    def build(world):
        agents = [Agent(name=n, tools=[world.tool(t)]) for n, t in (("a", "one"), ("b", "two"))]
        turns = (["one"], ["transfer_to_b"], ["two"], ["transfer_to_a"], "a again")
        return Swarm(agents=agents, mode="handoff"), Player(world, *turns)

    await at_every_entry(build, "a again")


async def test_a_swarm_along_a_flow_goes_on_where_each_of_its_agents_was():
    def build(world):
        agents = [Agent(name=n, tools=[world.tool(f"{n}1")]) for n in "abcd"]

        class Each(Player):
            async def complete(self, messages, *, tools=None, **options):
                name = tools[0]["function"]["name"]
                self.turns = ([name], f"{name} said")
                mine = [m for m in messages if getattr(m, "role", "") != "user"]
                return await super().complete([messages[0], *mine], tools=tools)

        return Swarm(agents=agents, flow="a >> (b | c) >> d"), Each(world)

    await at_every_entry(build, "d1 said")


async def test_a_typed_answer_is_read_again_and_not_asked_for_again():
    class City(BaseModel):
        name: str

    def build(world):
        agent = Agent(name="a", output_type=City, tools=[world.tool("one")])
        return agent, Player(world, ["one"], "no JSON", '{"name": "Oslo"}')

    await at_every_entry(build, City(name="Oslo"))


async def test_an_answer_by_a_call_is_read_again_and_not_asked_for_again():
    def build(world):
        class ByCall(Player):
            def takes_schema(self, schema):
                return False

            async def complete(self, messages, **options):
                reply = await super().complete(messages, **options)
                arguments = '{"result": 7}' if len(messages) > 3 else "{}"
                calls = [
                    c.model_copy(update={"arguments": arguments}) if c.name == "final_answer" else c
                    for c in reply.tool_calls
                ]
                return reply.model_copy(update={"tool_calls": calls})

        agent = Agent(name="a", output_type=int)
        return agent, ByCall(world, ["final_answer"], ["final_answer"])

    await at_every_entry(build, 7)


async def test_a_leader_of_a_team_is_told_of_work_that_was_lost_and_what_it_took_counts():
    store, world = MemoryRunStore(), World()
    stuck = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        stuck.set()
        await asyncio.Event().wait()
        return ""

    swarm = Swarm(agents=[Agent(name="l"), Agent(name="w", tools=[hang])], mode="team")
    model = ScriptedModel(call("delegate_to_w", task="x"), call("hang"), "so be it")
    running = asyncio.create_task(run(swarm, "go", provider=model, journal=store, run_id="r"))
    await stuck.wait()
    kept = prefix(store, len(store._runs["r"]))
    running.cancel()
    result = await run(swarm, "go", provider=model, journal=kept, run_id="r")
    assert (result.output, result.messages[2].error) == ("so be it", CUT_OFF)
    assert (result.steps, result.usage.total_tokens) == (3, 45)
    assert world.done == []
