"""Which tools an agent has in a step."""

from orbiter import Agent, Swarm, run, tool
from orbiter.models import ScriptedModel, call  # pyright: ignore[reportMissingImports]
from orbiter.types import RunContext, ToolResult


@tool
async def look() -> str:
    """Look."""
    return "a book"


@tool
async def buy() -> str:
    """Buy."""
    return "bought"


def offered(model: ScriptedModel) -> list[list[str]]:
    return [[t["function"]["name"] for t in request.tools] for request in model.requests]


def seen_before_bought(context: RunContext, one) -> bool:
    looked = any(isinstance(message, ToolResult) for message in context.messages)
    return one.name == "look" or looked


async def test_a_filter_chooses_the_tools_before_each_model_call():
    agent = Agent(name="a", tools=[look, buy], tool_filter=seen_before_bought)
    model = ScriptedModel(call("look"), call("buy"), "done")
    result = await run(agent, "go", provider=model)
    assert offered(model) == [["look"], ["look", "buy"], ["look", "buy"]]
    assert [m.content for m in result.messages if m.role == "tool"] == ["a book", "bought"]


async def test_a_filter_may_be_async_and_sees_the_deps():
    async def allowed(context: RunContext[set[str]], one) -> bool:
        return one.name in context.deps

    agent = Agent(name="a", tools=[look, buy], tool_filter=allowed)
    model = ScriptedModel("done")
    await run(agent, "go", provider=model, deps={"buy"})
    assert offered(model) == [["buy"]]


async def test_a_tool_that_is_not_offered_cannot_be_called():
    agent = Agent(name="a", tools=[look, buy], tool_filter=seen_before_bought)
    result = await run(agent, "go", provider=ScriptedModel(call("buy"), "sorry"))
    [told] = [m for m in result.messages if m.role == "tool"]
    assert told.error == "There is no tool 'buy'; the tools are: look"


async def test_handoffs_and_the_tool_of_a_typed_answer_stay():
    class Old(ScriptedModel):
        structured_output = True

        def takes_schema(self, schema):
            return False

    agent = Agent(
        name="a", tools=[look], handoffs=[Agent(name="b")], output_type=int,
        tool_filter=lambda context, one: False,
    )  # fmt: skip
    model = Old(call("final_answer", result=1))
    assert (await run(agent, "go", provider=model)).output == 1
    assert offered(model) == [["transfer_to_b", "final_answer"]]


async def test_without_any_tool_left_the_model_is_told_of_none():
    class Asked(ScriptedModel):
        async def complete(self, messages, *, tools=None, **options):
            given.append(tools)
            return await super().complete(messages, tools=tools, **options)

    given = []
    agent = Agent(name="a", tools=[look], tool_filter=lambda context, one: False)
    await run(agent, "go", provider=Asked("done"))
    assert given == [None]


async def test_the_tools_of_a_team_s_leader_are_chosen_too():
    lead = Agent(name="lead", tool_filter=lambda context, one: one.name != "delegate_to_b")
    team = Swarm(agents=[lead, Agent(name="b"), Agent(name="c")], mode="team")
    model = ScriptedModel("done")
    await run(team, "go", provider=model)
    assert offered(model) == [["delegate_to_c"]]
