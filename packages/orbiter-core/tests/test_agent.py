import pytest

from orbiter import Agent, Tool, run, tool
from orbiter.models import ScriptedModel, call  # pyright: ignore[reportMissingImports]
from orbiter.types import (
    AssistantMessage,
    OrbiterError,
    RunContext,
    SystemMessage,
    ToolResult,
    UserMessage,
)


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_a_name_is_all_an_agent_needs():
    agent = Agent(name="assistant")
    assert agent.model == "openai:gpt-4o"
    assert (agent.instructions, agent.output_type, agent.max_tokens) == ("", None, None)
    assert (agent.tools, agent.handoffs) == ([], [])
    assert (agent.max_steps, agent.temperature) == (10, 1.0)
    assert (agent.memory, agent.context) == (None, None)


def test_all_parameters_are_keywords():
    with pytest.raises(TypeError):
        Agent("assistant")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": ""}, "name: "),
        ({"temperature": 3}, "temperature: Input should be less than or equal to 2"),
        ({"max_steps": 0}, "max_steps: Input should be greater than or equal to 1, not 0"),
        ({"tools": [print]}, "is no tool; decorate the function with @tool"),
        ({"tools": [Tool]}, "is no tool"),
        ({"tools": [add, add]}, "has two tools named 'add'"),
    ],
)
def test_a_mistake_is_refused_when_the_agent_is_made(options, problem):
    with pytest.raises(OrbiterError) as caught:
        Agent(**{"name": "assistant", **options})
    assert problem in str(caught.value)
    assert f"Agent '{options.get('name', 'assistant')}'" in str(caught.value)


async def test_instructions_become_the_system_prompt():
    model = ScriptedModel("hello")
    await run(Agent(name="a", instructions="Be brief."), "hi", provider=model)
    assert model.requests[0].messages == [
        SystemMessage(content="Be brief."),
        UserMessage(content="hi"),
    ]


async def test_empty_instructions_make_no_system_prompt():
    model = ScriptedModel("hello")
    await run(Agent(name="a"), "hi", provider=model)
    assert model.requests[0].messages == [UserMessage(content="hi")]


@pytest.mark.parametrize("style", ["sync", "async"])
async def test_instructions_may_be_made_from_the_run_before_each_call(style):
    def made(context: RunContext[str]) -> str:
        return f"{context.agent_name} helps {context.deps}, {len(context.messages)} so far"

    async def made_async(context: RunContext[str]) -> str:
        return made(context)

    model = ScriptedModel(call("add", a=1, b=2), "3")
    agent = Agent(name="a", instructions=made if style == "sync" else made_async, tools=[add])
    await run(agent, "1 + 2", provider=model, deps="ada")
    prompts = [request.messages[0].content for request in model.requests]
    assert prompts == ["a helps ada, 1 so far", "a helps ada, 3 so far"]


async def test_temperature_tokens_and_tools_reach_the_model():
    model = ScriptedModel("hello")
    await run(Agent(name="a", tools=[add], temperature=0.2, max_tokens=7), "hi", provider=model)
    [request] = model.requests
    assert (request.temperature, request.max_tokens) == (0.2, 7)
    assert request.tools == [add.to_schema()]


async def test_a_tool_added_later_is_known_to_the_next_run():
    agent = Agent(name="a")
    agent.tools.append(add)
    model = ScriptedModel("hello")
    await run(agent, "hi", provider=model)
    assert [schema["function"]["name"] for schema in model.requests[0].tools] == ["add"]


async def test_a_handoff_gives_the_conversation_to_the_target():
    billing = Agent(name="billing", instructions="Handle billing questions.")
    support = Agent(name="support", instructions="Handle support requests.")
    triage = Agent(name="triage", instructions="Route.", handoffs=[billing, support])
    model = ScriptedModel(call("transfer_to_billing"), "Your money is on its way.")
    result = await run(triage, "I need a refund", provider=model)
    assert (result.output, result.last_agent) == ("Your money is on its way.", "billing")
    assert [t["function"]["name"] for t in model.requests[0].tools] == [
        "transfer_to_billing",
        "transfer_to_support",
    ]
    first, asked, answered = model.requests[1].messages[:3], *model.requests[1].messages[2:]
    assert first[:2] == [
        SystemMessage(content="Handle billing questions."),
        UserMessage(content="I need a refund"),
    ]
    assert isinstance(asked, AssistantMessage)
    assert answered == ToolResult(
        tool_call_id=asked.tool_calls[0].id,
        tool_name="transfer_to_billing",
        content="Transferred to billing.",
    )
    assert model.requests[1].tools == []


async def test_the_description_of_a_handoff_tells_what_the_target_is_for():
    target = Agent(name="Billing & refunds", instructions="Handle billing.\nBe kind.")
    model = ScriptedModel("hello")
    await run(Agent(name="a", handoffs=[target]), "hi", provider=model)
    [schema] = model.requests[0].tools
    assert schema["function"]["name"] == "transfer_to_Billing___refunds"
    assert schema["function"]["description"].endswith("Its instructions: Handle billing.")


async def test_tools_called_beside_a_handoff_run_first():
    target = Agent(name="billing")
    agent = Agent(name="triage", tools=[add], handoffs=[target])
    model = ScriptedModel([call("transfer_to_billing"), call("add", a=1, b=2)], "done")
    result = await run(agent, "hi", provider=model)
    results = [m.content for m in result.messages if isinstance(m, ToolResult)]
    assert results == ["Transferred to billing.", "3"]


async def test_only_one_handoff_of_a_step_counts():
    agent = Agent(name="triage", handoffs=[Agent(name="billing"), Agent(name="support")])
    model = ScriptedModel([call("transfer_to_billing"), call("transfer_to_support")], "done")
    result = await run(agent, "hi", provider=model)
    errors = [m.error for m in result.messages if isinstance(m, ToolResult)]
    assert errors == [None, "The conversation was already transferred to billing."]
    assert result.last_agent == "billing"


async def test_agents_that_hand_off_to_each_other_for_ever_meet_their_max_steps():
    one = Agent(name="one", max_steps=3)
    two = Agent(name="two", max_steps=3, handoffs=[one])
    one.handoffs.append(two)
    model = ScriptedModel(call("transfer_to_two"), call("transfer_to_one"), repeat=True)
    result = await run(one, "hi", provider=model)
    assert result.max_steps_reached
    assert result.steps == 6


async def test_an_agent_that_brings_its_own_provider_speaks_by_it_among_others():
    class Remote(Agent):
        provider = ScriptedModel("from afar")

    local = Agent(name="local", handoffs=[Remote(name="remote")])
    result = await run(local, "Hi", provider=ScriptedModel(call("transfer_to_remote")))
    assert (result.last_agent, result.output) == ("remote", "from afar")
