"""Swarms as members of swarms, and as tools."""

import pytest

from orbiter import Agent, Swarm, run
from orbiter.models import ModelError, ScriptedModel, call  # pyright: ignore[reportMissingImports]
from orbiter.types import AssistantMessage, OrbiterError, UserMessage


class Cast:
    """A provider that answers as each agent's own script says; told apart by instructions."""

    def __init__(self, **scripts: ScriptedModel) -> None:
        self.scripts = scripts

    async def complete(self, messages, **options):
        return await self.scripts[messages[0].content].complete(messages, **options)


def agents(*names: str) -> list[Agent]:
    return [Agent(name=name, instructions=name) for name in names]


def says(**words: str) -> Cast:
    return Cast(**{name: ScriptedModel(text) for name, text in words.items()})


async def test_a_swarm_is_a_stage_of_a_flow():
    first, second, third, fourth = agents("a", "b", "c", "d")
    inner = Swarm(name="inner", agents=[second, third])
    outer = Swarm(agents=[first, inner, fourth], flow="a >> inner >> d")
    result = await run(outer, "go", provider=says(a="1", b="2", c="3", d="4"))
    assert (result.output, result.steps, result.last_agent) == ("4", 4, "d")
    assert [message.content for message in result.messages] == [
        "go", "1", "1", "2", "2", "3", "3", "4"
    ]  # fmt: skip
    assert result.usage.total_tokens == 60


async def test_a_swarm_is_a_branch_of_a_flow_and_stands_in_its_place():
    first, second, third = agents("a", "b", "c")
    inner = Swarm(name="inner", agents=[first, second])
    outer = Swarm(agents=[inner, third], flow="(inner | c)")
    result = await run(outer, "go", provider=says(a="1", b="2", c="3"))
    assert result.output == "[inner]\n2\n\n[c]\n3"
    assert [m.content for m in result.messages] == ["go", "1", "1", "2", "go", "3"]


async def test_the_first_stage_sees_the_history_also_inside_of_a_swarm():
    [first] = agents("a")
    outer = Swarm(agents=[Swarm(name="inner", agents=[first])])
    before = [UserMessage(content="hi"), AssistantMessage(content="hello")]
    cast = says(a="1")
    result = await run(outer, "go", provider=cast, messages=before)
    assert cast.scripts["a"].requests[0].messages[1:3] == before
    assert len(result.messages) == 4


async def test_what_was_said_in_a_swarm_that_fails_is_kept():
    first, second = agents("a", "b")
    outer = Swarm(agents=[Swarm(name="inner", agents=[first, second])])
    cast = Cast(a=ScriptedModel("1"), b=ScriptedModel(ModelError("overloaded")))
    with pytest.raises(ModelError, match="overloaded") as failed:
        await run(outer, "go", provider=cast)
    assert [m.content for m in failed.value.messages] == ["go", "1", "1"]
    assert failed.value.steps == 2


async def test_a_swarm_that_was_stopped_ends_the_flow():
    first, second = agents("a", "b")
    first.max_steps = 1
    outer = Swarm(agents=[Swarm(name="inner", agents=[first]), second])
    cast = Cast(a=ScriptedModel(call("nothing")), b=ScriptedModel("2"))
    assert (await run(outer, "go", provider=cast)).stop_reason == "max_steps"
    assert cast.scripts["b"].requests == []


async def test_a_swarm_works_for_the_leader_of_a_team():
    lead, first, second = agents("lead", "a", "b")
    inner = Swarm(name="press", description="Writes articles.", agents=[first, second])
    cast = says(a="draft", b="article")
    cast.scripts["lead"] = ScriptedModel(call("delegate_to_press", task="Write."), "Done.")
    result = await run(Swarm(agents=[lead, inner], mode="team"), "go", provider=cast)
    assert [m.content for m in result.messages if m.role == "tool"] == ["article"]
    assert (result.output, result.steps) == ("Done.", 4)
    [told] = cast.scripts["lead"].requests[0].tools
    assert told["function"]["description"].endswith("Writes articles.")


async def test_a_swarm_is_a_tool():
    first, second = agents("a", "b")
    press = Swarm(name="press", description="Writes articles.", agents=[first, second])
    cast = says(a="draft", b="article")
    cast.scripts["lead"] = ScriptedModel(call("press", input="Write."), "Done.")
    lead = Agent(name="lead", instructions="lead", tools=[press.as_tool()])
    result = await run(lead, "go", provider=cast)
    assert [m.content for m in result.messages if m.role == "tool"] == ["article"]
    assert result.steps == 4


async def test_a_stream_tells_what_the_agents_of_a_member_say():
    first, second = agents("a", "b")
    outer = Swarm(agents=[Swarm(name="inner", agents=[first]), second])
    events = [e async for e in run.stream(outer, "go", provider=says(a="1", b="2"))]
    assert [(e.text, e.agent_name) for e in events if e.type == "text"] == [("1", "a"), ("2", "b")]
    assert [e.step for e in events if e.type == "step"] == [1, 2]


def unnamed() -> Swarm:
    return Swarm(agents=agents("a"))


def named() -> Swarm:
    return Swarm(name="inner", agents=agents("a"))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Swarm(agents=[unnamed()]), "give it a name="),
        (lambda: unnamed().as_tool(), r"give as_tool\(name="),
        (lambda: Swarm(agents=[named(), *agents("b")], mode="team"), "neither lead a team"),
        (lambda: Swarm(agents=[*agents("b"), named()], mode="handoff"), "take part in handoffs"),
        (lambda: Swarm(agents=[*agents("inner"), named()]), "are named 'inner'"),
    ],
)
def test_a_swarm_where_none_can_stand_is_refused(make, problem):
    with pytest.raises(OrbiterError, match=problem):
        make()
