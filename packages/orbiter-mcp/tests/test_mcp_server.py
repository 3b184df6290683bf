import pytest
from pydantic import BaseModel

from orbiter import Agent, Swarm, tool
from orbiter.mcp import MCPClient, MCPConfigError, MCPServer
from orbiter.models import ScriptedModel, call
from orbiter.types import RunContext


class City(BaseModel):
    name: str


@tool
def population(city: str) -> int:
    """Count people."""
    return 37_000_000


@tool
def who(user: RunContext[str]) -> str:
    """Tell who asks."""
    return f"{user.deps} at {user.agent_name}"


async def test_an_agent_is_a_tool_with_one_input():
    agent = Agent(name="geographer", instructions="Knows cities.", tools=[population])
    model = ScriptedModel(call("population", city="Tokyo"), "37 million.")
    seen = []
    async with MCPClient(MCPServer(agent, provider=model), on_progress=seen.append) as client:
        (offered,) = await client.list_tools()
        assert offered.description == "Ask the agent 'geographer'. Knows cities."
        assert offered.parameters["required"] == ["input"]
        result = await client.call_tool("geographer", {"input": "How many?"})
    assert result.content == "37 million."
    assert model.requests[0].messages[-1].content == "How many?"
    assert [str(progress) for progress in seen] == [
        "1 geographer: step 1",
        "2 geographer calls population",
        "3 geographer: step 2",
    ]


async def test_an_error_of_who_is_told_of_progress_does_not_end_the_call(caplog):
    def told(progress):
        raise RuntimeError("the screen is gone")

    agent = Agent(name="agent")
    async with MCPClient(
        MCPServer(agent, provider=ScriptedModel("Hi.")), on_progress=told
    ) as client:
        assert (await client.call_tool("agent", {"input": "Hi"})).content == "Hi."
    assert "the screen is gone" in caplog.text


async def test_structured_output_is_structured_content():
    agent = Agent(name="namer", output_type=City)
    async with MCPClient(MCPServer(agent, provider=ScriptedModel('{"name": "Oslo"}'))) as client:
        (offered,) = await client.list_tools()
        assert offered.output_schema["properties"]["name"]["type"] == "string"
        result = await client.call_tool("namer", {"input": "?"})
    assert (result.structured_content, result.content) == ({"name": "Oslo"}, '{"name":"Oslo"}')


async def test_structured_output_that_is_no_object_is_in_one():
    agent = Agent(name="counter", output_type=list[int])
    async with MCPClient(MCPServer(agent, provider=ScriptedModel("[1, 2]"))) as client:
        (offered,) = await client.list_tools()
        assert offered.output_schema["required"] == ["result"]
        result = await client.call_tool("counter", {"input": "?"})
    assert result.structured_content == {"result": [1, 2]}


async def test_a_swarm_is_named_after_its_first_agent():
    swarm = Swarm(agents=[Agent(name="writer"), Agent(name="editor")])
    async with MCPClient(MCPServer(swarm, provider=ScriptedModel("draft", "done"))) as client:
        assert (await client.call_tool("writer", {"input": "Write"})).content == "done"


async def test_an_agent_that_fails_or_stops_early_is_an_error():
    agent = Agent(name="loop", tools=[population], max_steps=1)
    model = ScriptedModel(call("population", city="x"))
    async with MCPClient(MCPServer(agent, provider=model)) as client:
        stopped = await client.call_tool("loop", {"input": "go"})
        assert stopped.error == "the agent 'loop' was stopped: max_steps"
        broken = await client.call_tool("loop", {"input": "go"})
        assert "the script has 1 replies" in broken.error
        wrong = await client.call_tool("loop", {"input": "go", "more": 1})
        assert wrong.error.startswith('arguments: give {"input"')


async def test_tools_find_what_the_server_was_given():
    async with MCPClient(MCPServer(who, name="desk", deps="Ada")) as client:
        (offered,) = await client.list_tools()
        assert offered.parameters["properties"] == {}
        assert (await client.call_tool("who")).content == "Ada at desk"


async def test_values_that_are_no_objects_are_text():
    async with MCPClient(MCPServer(population)) as client:
        result = await client.call_tool("population", {"city": "Tokyo"})
    assert (result.content, result.structured_content) == ("37000000", None)


def test_a_server_needs_things_with_different_names():
    with pytest.raises(MCPConfigError, match="two tools named 'population'"):
        MCPServer([population, population])
    with pytest.raises(MCPConfigError, match="nothing to serve"):
        MCPServer([])


async def test_nobody_else_is_served_without_a_token():
    with pytest.raises(MCPConfigError, match=r"anybody who reaches 0\.0\.0\.0:8000; give a token"):
        await MCPServer(population).serve_http(host="0.0.0.0")


async def test_a_description_says_what_an_agent_is_good_for_in_place_of_its_instructions():
    agent = Agent(name="geographer", description="Knows cities.", instructions="Secret.")
    async with MCPClient(MCPServer(agent)) as client:
        (offered,) = await client.list_tools()
    assert offered.description == "Ask the agent 'geographer'. Knows cities."


async def test_an_agent_that_is_a_tool_of_others_runs_by_itself_for_a_client():
    geographer = Agent(name="geographer")
    model = ScriptedModel("37 million.")
    async with MCPClient(MCPServer(geographer.as_tool(), provider=model)) as client:
        result = await client.call_tool("geographer", {"input": "How many?"})
    assert (result.content, result.error) == ("37 million.", None)
