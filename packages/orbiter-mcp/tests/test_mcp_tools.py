import asyncio

import pytest

from orbiter import Agent, run, tool
from orbiter.mcp import MCPClient, MCPConfigError, MCPConnectionError, MCPServer, mcp_tools
from orbiter.models import ScriptedModel, call
from orbiter.types import OrbiterError, ToolExecutionError


@tool
async def add(a: int, b: int) -> dict:
    """Add two numbers."""
    return {"sum": a + b}


@tool
async def fail() -> str:
    """Fail."""
    raise ValueError("no luck")


@tool
async def wait_for_ever() -> str:
    """Wait."""
    await asyncio.Event().wait()
    return ""


@pytest.fixture
def server():
    return MCPServer([add, fail, wait_for_ever], name="calc")


async def test_an_agent_uses_the_tools_of_a_server(server):
    model = ScriptedModel(call("add", a=2, b=3), "It is 5.")
    async with mcp_tools(server) as tools:
        result = await run(Agent(name="a", tools=tools), "2 + 3?", provider=model)
    assert result.messages[2].content == '{"sum":5}'
    offered = model.requests[0].tools[0]["function"]
    assert (offered["name"], offered["description"]) == ("add", "Add two numbers.")
    assert offered["parameters"]["required"] == ["a", "b"]


async def test_what_fails_on_the_server_is_told_to_the_model(server):
    model = ScriptedModel(call("fail"), call("add", a="x"), "Sorry.")
    async with mcp_tools(server) as tools:
        result = await run(Agent(name="a", tools=tools), "go", provider=model)
    assert result.messages[2].error == "Tool 'fail' failed: no luck"
    assert "b: is required" in result.messages[4].error


async def test_a_call_gives_text_data_or_an_error(server):
    async with MCPClient(server) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2}, tool_call_id="7")
        assert (result.content, result.structured_content) == ('{"sum":3}', {"sum": 3})
        assert (result.tool_call_id, result.tool_name, result.error) == ("7", "add", None)
        missing = await client.call_tool("subtract")
        assert "there is no tool 'subtract'; the tools: add, fail" in missing.error


async def test_tools_are_chosen_by_name_and_pattern(server):
    async with mcp_tools(server, allow=["add", "f*"], deny=["fail"]) as tools:
        assert [tool.name for tool in tools] == ["add"]
    with pytest.raises(MCPConfigError, match="no MCP tool 'ad' to allow; the tools are: add, fail"):
        await mcp_tools(server, allow=["ad"])


async def test_several_servers_keep_apart_by_their_names():
    one, two = MCPServer(add, name="one"), MCPServer(add, name="the second.one")
    async with mcp_tools([one, two]) as tools:
        assert [tool.name for tool in tools] == ["one_add", "the_second_one_add"]
        assert await tools[1].execute(a=1, b=1) == '{"sum":2}'
    async with mcp_tools([one, two], allow=["one_*"]) as tools:
        assert [tool.name for tool in tools] == ["one_add"]


async def test_two_tools_of_one_name_are_refused():
    servers = [MCPServer(add, name="one"), MCPServer(add, name="two")]
    with pytest.raises(MCPConfigError, match="two tools are named 'add': of MCP server 'one' and"):
        await mcp_tools(servers, prefix="")
    async with mcp_tools([MCPClient(servers[0]), MCPClient(servers[1], prefix="b.")]) as tools:
        assert [tool.name for tool in tools] == ["add", "b_add"]


async def test_long_names_fit_every_provider_and_stay_different(server):
    names = []
    for end in "xy":
        async with MCPClient(server, prefix="p" * 70 + end) as client:
            names += [tool.name for tool in await client.list_tools()]
    assert len(set(names)) == 6
    assert all(len(name) <= 64 for name in names)


async def test_a_call_without_an_answer_ends(server):
    async with MCPClient(server, timeout=0.05) as client:
        result = await client.call_tool("wait_for_ever")
        assert result.error == "MCP server 'calc': no answer within 0.05 s"
        tools = await client.list_tools()
        with pytest.raises(ToolExecutionError, match="'wait_for_ever' failed: MCP server 'calc'"):
            await tools[2].execute()


async def test_calls_run_beside_each_other(server):
    async with MCPClient(server, timeout=5) as client:
        hanging = asyncio.create_task(client.call_tool("wait_for_ever"))
        results = await asyncio.gather(
            *(client.call_tool("add", {"a": i, "b": 1}) for i in range(20))
        )
        hanging.cancel()
        assert [result.structured_content["sum"] for result in results] == list(range(1, 21))


async def test_a_client_that_is_open_is_shared_and_stays_open(server):
    async with MCPClient(server) as client:
        async with mcp_tools(client) as tools:
            assert len(tools) == 3
        assert (await client.call_tool("add", {"a": 1, "b": 1})).error is None


async def test_a_client_is_entered_once(server):
    async with MCPClient(server) as client:
        with pytest.raises(MCPConnectionError, match="'calc': is open already"):
            await client.__aenter__()


async def test_a_closed_client_says_so(server):
    client = MCPClient(server)
    assert "is not open; use `async with`" in (await client.call_tool("add")).error
    with pytest.raises(MCPConnectionError, match="is not open"):
        await client.list_tools()


async def test_tools_may_be_awaited_for_the_rest_of_the_program(server):
    tools = await mcp_tools(server)
    assert await tools[0].execute(a=1, b=1) == '{"sum":2}'
    await tools[0].client.__aexit__()


async def test_tools_of_a_server_wait_for_a_person(server):
    model = ScriptedModel([call("add", a=2, b=3), call("fail")], "It is 5.")
    async with mcp_tools(server, approval=["add"]) as tools:
        agent = Agent(name="a", tools=tools)
        first = await run(agent, "2 + 3?", provider=model)
        assert [c.tool for request in first.requests for c in request.calls] == ["add"]
        answers = [first.requests[0].approve(arguments={"a": 20, "b": 3})]
        last = await run(agent, "", provider=model, resume=first.paused, answers=answers)
    assert "Tool 'fail' failed: no luck" in [m.error for m in last.messages if m.role == "tool"]
    assert last.messages[2].content.endswith('\n{"sum":23}')


async def test_a_function_judges_calls_of_a_server_and_a_prefix_changes_no_name(server):
    async with mcp_tools(server, prefix="calc_", approval=["add"]) as tools:
        assert {t.name: t.approval for t in tools} == {
            "calc_add": True, "calc_fail": False, "calc_wait_for_ever": False
        }  # fmt: skip
    client = MCPClient(server, approval=lambda arguments: arguments["a"] > 10)
    async with mcp_tools([client], allow=["add"]) as tools:
        agent = Agent(name="a", tools=tools)
        small = await run(agent, "", provider=ScriptedModel(call(tools[0].name, a=1, b=2), "3"))
        large = await run(agent, "", provider=ScriptedModel(call(tools[0].name, a=11, b=2)))
    assert (small.stop_reason, large.stop_reason) == ("completed", "input_required")


async def test_approval_of_a_tool_that_is_not_there_is_an_error(server):
    with pytest.raises(OrbiterError, match=r"approval=\.\.\.\): there is no tool 'delete_\*'; the"):
        await mcp_tools(server, approval=["delete_*"])
    with pytest.raises(OrbiterError, match="got 'add': give True, a function or a list of names"):
        await mcp_tools(server, approval="add")


def test_a_server_refuses_what_would_wait_for_a_person():
    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    behind = Agent(name="front", handoffs=[Agent(name="clerk", tools=[pay])])
    for offered in (pay, behind):
        with pytest.raises(MCPConfigError, match="cannot serve 'pay', which waits for a person"):
            MCPServer([offered], name="shop")
