import asyncio

import pytest

from orbiter import Agent, Swarm, run
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ModelError,
    ScriptedModel,
    call,
)
from orbiter.swarm import FlowError
from orbiter.types import (
    AssistantMessage,
    OrbiterError,
    SystemMessage,
    ToolResult,
    Usage,
    UserMessage,
)


class Cast:
    """A provider that answers as each agent's own script says; told apart by instructions."""

    def __init__(self, **scripts: ScriptedModel) -> None:
        self.scripts = scripts

    async def complete(self, messages, **options):
        name = messages[0].content
        return await self.scripts[name].complete(messages, **options)


def agents(*names: str) -> list[Agent]:
    return [Agent(name=name, instructions=name) for name in names]


def last_input(model: ScriptedModel) -> str:
    return model.requests[-1].messages[-1].content


async def test_the_output_of_each_feeds_into_the_next():
    cast = Cast(a=ScriptedModel("facts"), b=ScriptedModel("draft"), c=ScriptedModel("article"))
    swarm = Swarm(agents=agents("a", "b", "c"), flow="a >> b >> c")
    result = await run(swarm, "quantum computing", provider=cast)
    assert (result.output, result.last_agent, result.steps) == ("article", "c", 3)
    assert [last_input(cast.scripts[n]) for n in "abc"] == ["quantum computing", "facts", "draft"]


async def test_without_a_flow_agents_work_in_their_order():
    cast = Cast(a=ScriptedModel("1"), b=ScriptedModel("2"))
    swarm = Swarm(agents=agents("a", "b"))
    assert str(swarm.flow) == "a >> b"
    assert (await run(swarm, "go", provider=cast)).output == "2"


async def test_branches_run_at_the_same_time_and_both_outputs_reach_the_next():
    meet = asyncio.Barrier(2)

    class Meeting(ScriptedModel):
        async def complete(self, messages, **options):
            await meet.wait()
            return await super().complete(messages, **options)

    cast = Cast(
        a=ScriptedModel("topic"), b=Meeting("for"), c=Meeting("against"), d=ScriptedModel("sum")
    )
    swarm = Swarm(agents=agents("a", "b", "c", "d"), flow="a >> (b | c) >> d")
    result = await run(swarm, "go", provider=cast)
    assert result.output == "sum"
    assert last_input(cast.scripts["b"]) == last_input(cast.scripts["c"]) == "topic"
    assert last_input(cast.scripts["d"]) == "[b]\nfor\n\n[c]\nagainst"


async def test_a_flow_that_ends_in_branches_gives_both_outputs():
    cast = Cast(a=ScriptedModel("x"), b=ScriptedModel("y"))
    result = await run(Swarm(agents=agents("a", "b"), flow="(a | b)"), "go", provider=cast)
    assert result.output == "[a]\nx\n\n[b]\ny"


async def test_the_conversation_is_told_in_the_order_of_the_flow():
    cast = Cast(a=ScriptedModel("1"), b=ScriptedModel("2"), c=ScriptedModel("3"))
    swarm = Swarm(agents=agents("a", "b", "c"), flow="(a | b) >> c")
    result = await run(swarm, "go", provider=cast)
    assert result.messages == [
        UserMessage(content="go"),
        AssistantMessage(content="1"),
        UserMessage(content="go"),
        AssistantMessage(content="2"),
        UserMessage(content="[a]\n1\n\n[b]\n2"),
        AssistantMessage(content="3"),
    ]


async def test_usage_counts_all_agents():
    usage = Usage(input_tokens=1, output_tokens=2, total_tokens=3)
    cast = Cast(a=ScriptedModel("1", usage=usage), b=ScriptedModel("2", usage=usage))
    result = await run(Swarm(agents=agents("a", "b")), "go", provider=cast)
    assert result.usage == usage + usage


async def test_earlier_messages_reach_the_first_agents_only():
    cast = Cast(a=ScriptedModel("1"), b=ScriptedModel("2"))
    before = [UserMessage(content="hi"), AssistantMessage(content="hello")]
    swarm = Swarm(agents=agents("a", "b"))
    result = await run(swarm, "go", provider=cast, messages=before)
    assert cast.scripts["a"].requests[0].messages == [
        SystemMessage(content="a"), *before, UserMessage(content="go")
    ]  # fmt: skip
    assert cast.scripts["b"].requests[0].messages == [
        SystemMessage(content="b"), UserMessage(content="1")
    ]  # fmt: skip
    assert result.messages[:2] == before


async def test_an_agent_that_meets_a_limit_ends_the_flow():
    first, second = agents("a", "b")
    first.max_steps = 1
    cast = Cast(a=ScriptedModel(call("nothing")), b=ScriptedModel("2"))
    result = await run(Swarm(agents=[first, second]), "go", provider=cast)
    assert result.max_steps_reached
    assert cast.scripts["b"].requests == []


async def test_a_branch_that_fails_ends_the_run_with_its_own_error():
    forever = asyncio.Event()

    class Waiting(ScriptedModel):
        async def complete(self, messages, **options):
            await forever.wait()

    cast = Cast(a=ScriptedModel(ModelError("overloaded")), b=Waiting())
    with pytest.raises(ModelError, match="overloaded"):
        await run(Swarm(agents=agents("a", "b"), flow="(a | b)"), "go", provider=cast)


async def test_the_leader_of_a_team_delegates_and_gets_the_results():
    cast = Cast(
        lead=ScriptedModel(
            [
                call("delegate_to_analyst", task="Numbers?"),
                call("delegate_to_writer", task="Text?"),
            ],
            "Report.",
        ),
        analyst=ScriptedModel("42"),
        writer=ScriptedModel("Lorem."),
    )
    team = Swarm(agents=agents("lead", "analyst", "writer"), mode="team")
    result = await run(team, "market trends", provider=cast)
    assert (result.output, result.last_agent, result.steps) == ("Report.", "lead", 4)
    results = [m.content for m in result.messages if isinstance(m, ToolResult)]
    assert results == ["42", "Lorem."]
    assert cast.scripts["analyst"].requests[0].messages == [
        SystemMessage(content="analyst"),
        UserMessage(content="Numbers?"),
    ]
    assert result.usage.total_tokens == 4 * 15


async def test_a_worker_that_fails_is_an_error_the_leader_sees():
    cast = Cast(
        lead=ScriptedModel(call("delegate_to_analyst", task="Numbers?"), "Sorry."),
        analyst=ScriptedModel(ModelError("overloaded")),
    )
    result = await run(Swarm(agents=agents("lead", "analyst"), mode="team"), "go", provider=cast)
    [told] = [m for m in result.messages if isinstance(m, ToolResult)]
    assert told.error == "Tool 'delegate_to_analyst' failed: overloaded"
    assert result.stop_reason == "completed"


async def test_a_worker_that_meets_its_max_steps_does_not_end_the_team():
    lead, analyst = agents("lead", "analyst")
    analyst.max_steps = 1
    cast = Cast(
        lead=ScriptedModel(call("delegate_to_analyst", task="Numbers?"), "Sorry."),
        analyst=ScriptedModel(call("nothing")),
    )
    result = await run(Swarm(agents=[lead, analyst], mode="team"), "go", provider=cast)
    [told] = [m for m in result.messages if isinstance(m, ToolResult)]
    assert "stopped early (max_steps)" in told.error
    assert (result.output, result.stop_reason) == ("Sorry.", "completed")


async def test_in_handoff_mode_every_member_can_transfer_to_every_other():
    cast = Cast(
        a=ScriptedModel(call("transfer_to_b")), b=ScriptedModel(call("transfer_to_c")),
        c=ScriptedModel("done"),
    )  # fmt: skip
    swarm = Swarm(agents=agents("a", "b", "c"), mode="handoff")
    result = await run(swarm, "go", provider=cast)
    assert (result.output, result.last_agent) == ("done", "c")
    names = [tool["function"]["name"] for tool in cast.scripts["b"].requests[0].tools]
    assert names == ["transfer_to_a", "transfer_to_c"]


async def test_in_handoff_mode_declared_handoffs_are_the_only_ones():
    first, second = agents("a", "b")
    first.handoffs.append(second)
    cast = Cast(a=ScriptedModel(call("transfer_to_b")), b=ScriptedModel("done"))
    await run(Swarm(agents=[first, second], mode="handoff"), "go", provider=cast)
    assert cast.scripts["b"].requests[0].tools == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"agents": []}, "needs at least one agent"),
        ({"agents": agents("a", "a")}, "two agents of the swarm are named 'a'"),
        ({"agents": agents("a"), "mode": "circle"}, "unknown mode 'circle'"),
        ({"agents": agents("a"), "mode": "team", "flow": "a"}, "mode 'team' takes no flow"),
    ],
)
def test_a_swarm_that_makes_no_sense_is_refused(options, problem):
    with pytest.raises(OrbiterError, match=problem):
        Swarm(**options)


def test_a_flow_with_an_unknown_agent_is_refused_when_the_swarm_is_made():
    with pytest.raises(FlowError, match="there is no agent 'editor'"):
        Swarm(agents=agents("a"), flow="a >> editor")


def test_a_member_is_found_by_its_name():
    swarm = Swarm(agents=agents("a", "b"))
    assert swarm.agent("b") is swarm.agents[1]
    with pytest.raises(OrbiterError, match="no agent 'c' in the swarm; agents: a, b"):
        swarm.agent("c")
