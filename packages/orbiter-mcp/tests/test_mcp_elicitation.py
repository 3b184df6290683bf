"""A server that asks a person in the middle of a call."""

import asyncio
import functools
import socket
import sys
from types import SimpleNamespace

import mcp
import pytest

from orbiter import Agent, run
from orbiter.mcp import Elicitation, ElicitationError, MCPClient, mcp_tools
from orbiter.mcp._internal.asking import Call, Questions
from orbiter.mcp.elicitation import read_elicitation
from orbiter.models import ScriptedModel, call

PROGRAM = """
import sys
from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("booking")


class Day(BaseModel):
    day: str


class Party(BaseModel):
    adults: int
    window: bool = False


def which(table: int) -> Elicit[Day]:
    return Elicit(f"Which day for table {table}?", Day)


def party() -> Elicit[Party]:
    return Elicit("How many are you?", Party)


@server.tool()
def book(table: int, day: Annotated[Day, Resolve(which)]) -> str:
    return f"table {table} on {day.day}"


@server.tool()
def seat(party: Annotated[Party, Resolve(party)]) -> str:
    return f"{party.adults} at the window" if party.window else f"{party.adults} inside"


@server.tool()
def essay(day: Annotated[Day, Resolve(lambda: Elicit("x" * 5000, Day))]) -> str:
    return "read"


@server.tool()
async def sign(ctx: Context) -> str:
    return (await ctx.elicit_url("Sign in", "https://example.com", "1")).action


def thought() -> Sample:
    words = TextContent(type="text", text="Say what you know.")
    return Sample([SamplingMessage(role="user", content=words)], max_tokens=10**9)


@server.tool()
async def think(result: Annotated[CreateMessageResult, Resolve(thought)]) -> str:
    return str(result)


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    import uvicorn

    uvicorn.run(server.streamable_http_app(), fd=int(sys.argv[1]), log_level="error")
"""


@pytest.fixture(params=["of today", "before 2026-07-28"])
def protocol(request, monkeypatch):
    """Before, the server asks while the call waits; now, the call ends and is made again."""
    if request.param != "of today":
        monkeypatch.setattr(mcp, "Client", functools.partial(mcp.Client, mode="legacy"))
    return request.param


@pytest.fixture(params=["stdio", "http"])
async def server(request, protocol, tmp_path):
    """A process that speaks MCP."""
    program = tmp_path / "booking.py"
    program.write_text(PROGRAM)
    if request.param == "stdio":
        yield f"{sys.executable} {program} stdio"
        return
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # who connects before the program runs waits in the socket's queue
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(program), str(listening.fileno()), pass_fds=[listening.fileno()]
        )
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        process.kill()
        await process.wait()


async def test_the_run_pauses_and_the_call_is_made_again_with_the_answer(server):
    model = ScriptedModel(call("book", table=4), "Booked.")
    async with mcp_tools(server, allow=["book"]) as tools:
        agent = Agent(name="host", tools=tools)
        first = await run(agent, "A table", provider=model)
    assert first.stop_reason == "input_required"
    (request,) = first.requests
    assert request.kind == "question"
    assert "tool 'book', asks: Which day for table 4?\n" in request.text
    assert '"day": {' in request.text
    # in another process, with another connection
    async with mcp_tools(server, allow=["book"]) as tools:
        agent = Agent(name="host", tools=tools)
        done = await run(agent, "", provider=model, resume=first.paused,
                         answers=[request.answer("Friday")])  # fmt: skip
    assert done.messages[2].content == "table 4 on Friday"
    assert done.output == "Booked."


async def test_an_answer_that_does_not_fit_is_asked_for_again(server):
    model = ScriptedModel(call("seat"), "Sit down.")
    async with mcp_tools(server, allow=["seat"]) as tools:
        agent = Agent(name="host", tools=tools)
        result = await run(agent, "go", provider=model)
        for text in ("two", '{"adults": "two"}'):
            (request,) = result.requests
            result = await run(agent, "", provider=model, resume=result.paused,
                               answers=[request.answer(text)])  # fmt: skip
        (request,) = result.requests
        assert "(Answer 2 does not fit: adults: 'two' is not of type 'integer')" in request.text
        answer = request.answer('{"adults": 2, "window": true}')
        result = await run(agent, "", provider=model, resume=result.paused, answers=[answer])
    assert result.messages[2].content == "2 at the window"


async def test_who_says_no_declines(server):
    model = ScriptedModel(call("book", table=4), "Not booked.")
    async with mcp_tools(server, allow=["book"]) as tools:
        agent = Agent(name="host", tools=tools)
        first = await run(agent, "A table", provider=model)
        no = first.requests[0].deny()
        done = await run(agent, "", provider=model, resume=first.paused, answers=[no])
    assert "declin" in done.messages[2].error
    assert done.output == "Not booked."


async def test_a_handler_answers_while_the_call_waits(server):
    seen = []

    async def answer(asked):
        seen.append(asked)
        return {"day": "Friday"}

    async with MCPClient(server, name="inn", on_elicitation=answer) as client:
        result = await client.call_tool("book", {"table": 4})
    assert (result.content, result.question) == ("table 4 on Friday", None)
    (asked,) = seen
    assert (asked.server, asked.tool) == ("inn", "book")
    assert (asked.message, asked.required) == ("Which day for table 4?", ("day",))


async def test_the_time_of_silence_stands_still_while_a_person_thinks(server):
    left = []

    async def answer(asked):
        (call_under_way,) = client._questions._calls
        left.append(call_under_way.clock.when())
        return "Friday"

    async with MCPClient(server, on_elicitation=answer) as client:
        result = await client.call_tool("book", {"table": 4})
    assert result.content == "table 4 on Friday"
    assert left == [None]


async def test_a_handler_may_decline_and_what_it_raises_cancels(server, caplog):
    for reply, word in ((None, "declin"), ("{broken", "cancel")):
        async with MCPClient(server, on_elicitation=lambda _, reply=reply: reply) as client:
            result = await client.call_tool("book", {"table": 4})
        assert word in result.error
    assert "it is no JSON" in caplog.text


async def test_a_call_by_hand_tells_the_question(server):
    async with MCPClient(server, name="inn") as client:
        result = await client.call_tool("book", {"table": 4})
    assert result.error == f"nobody has answered yet: {result.question}"
    assert result.question.startswith("MCP server 'inn', tool 'book', asks: Which day")


async def test_what_is_too_long_is_refused_with_a_sentence(server):
    async with MCPClient(server) as client:
        result = await client.call_tool("essay")
    assert "the message has 5000 characters, and at most 4096 are shown" in result.error
    assert result.question is None


async def test_a_server_that_wants_a_page_opened_is_refused(server, protocol):
    async with MCPClient(server) as client:
        result = await client.call_tool("sign")
    if protocol == "of today":
        assert result.error  # such a server cannot ask in the middle of a call
    else:
        assert "nobody here opens a page for a server; ask with a form" in result.error


def asked(message="Which?", schema=None, mode="form"):
    schema = {"type": "object", "properties": {}} if schema is None else schema
    return SimpleNamespace(mode=mode, message=message, requested_schema=schema)


async def test_of_several_calls_under_way_none_is_taken_for_the_one_that_asks():
    questions = Questions("inn", None)
    one, two = Call("one", None), Call("two", None)
    with questions.during(one), questions.during(two):
        questions_task = asyncio.create_task(_elsewhere(questions))
        assert (await questions_task).action == "cancel"
    assert (one.unclear, two.unclear, one.question) == (True, True, None)


async def _elsewhere(questions):
    from orbiter.mcp._internal import asking

    asking._asking.set(None)  # as in the task that reads what the server sends
    return await questions.answer(None, asked())


async def test_outside_of_a_call_nobody_is_asked():
    refused = await Questions("inn", lambda asked: {}).answer(None, asked())
    assert "outside of a call" in refused.message


STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ([], "not that of an object"),
        ({}, "not that of an object"),
        ({"type": "object", "properties": []}, "not that of an object"),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, "'a' is not of a type"),
        ({"type": "object", "properties": {"a": 1}}, "'a' is not of a type"),
        ({"type": "object", "properties": {"a": {"type": ["string"]}}}, "'a' is not of a type"),
        ({"type": "object", "properties": {"a": {**STRING, "minLength": "x"}}}, "the field 'a'"),
        ({"type": "object", "properties": {}, "required": ["a"]}, "requires what is no field"),
        ({"type": "object", "properties": {}, "required": 5}, "requires what is no field"),
        ({"type": "object", "properties": {str(n): STRING for n in range(33)}}, "at most 32"),
        ({"type": "object", "properties": {"a": {**STRING, "title": "x" * 17_000}}}, "16384"),
        ({"type": "object", "properties": {"a": {**STRING, "title": "\ud800"}}}, "surrogate"),
    ],
)  # fmt: skip
def test_what_is_no_form_is_refused(schema, why):
    with pytest.raises(ElicitationError, match=why):
        read_elicitation("inn", "book", asked(schema=schema))


def test_a_schema_that_is_nested_on_and_on_is_refused():
    deep: dict = {}
    for _ in range(500):
        deep = {"items": deep}
    schema = {"type": "object", "properties": {"a": {"type": "array", **deep}}}
    with pytest.raises(ElicitationError, match="deep"):
        read_elicitation("inn", "book", asked(schema=schema))


def test_what_a_form_does_not_need_is_left_out():
    field = {"type": "string", "pattern": "(a+)+$", "$ref": "https://example.com", "maxLength": 3}
    schema = {"type": "object", "properties": {"a": field}, "required": ["a"]}
    found = read_elicitation("inn", "book", asked(schema=schema))
    assert found.fields == {"a": {"type": "string", "maxLength": 3}}


def test_what_a_terminal_would_obey_is_shown():
    found = read_elicitation("inn", "book", asked(message="a\x1b[2Jb\u202ec\nd"))
    assert "a\\u001b[2Jb\\u202ec\nd" in found.question


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        (STRING, "Friday", "Friday"),
        (STRING, '{"a": "Friday"}', "Friday"),
        ({"type": "integer"}, "4", 4),
        ({"type": "boolean"}, "yes", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "string", "enum": ["a", "b"]}, "b", "b"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, '["a"]', ["a"]),
    ],
)
def test_one_field_may_be_answered_with_its_value(field, text, value):
    form = Elicitation(server="inn", message="?", fields={"a": field}, required=("a",))
    assert form.read(text) == {"a": value}


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ({"type": "integer"}, "four"),
        ({"type": "integer"}, "9" * 30),
        ({"type": "number"}, "NaN"),
        ({"type": "string", "enum": ["a"]}, "b"),
        (STRING, '{"b": "x"}'),
        (STRING, "{"),
        (STRING, '{"a": ' + "[" * 100_000),
        (STRING, "\ud800"),
        ({"type": "array"}, "[" * 100_000),
    ],
)
def test_an_answer_that_does_not_fit_is_told_why(field, text):
    form = Elicitation(server="inn", message="?", fields={"a": field}, required=("a",))
    with pytest.raises(ElicitationError) as misfit:
        form.read(text)
    assert len(str(misfit.value)) <= 300


def test_a_question_without_fields_is_a_yes_or_a_no():
    form = Elicitation(server="inn", message="Sure?", fields={})
    assert form.read("ok") == {}
    assert form.question.endswith("Answer with anything, or deny it.")


async def test_a_server_that_wants_to_ask_a_model_is_refused_and_costs_nothing(server):
    model = ScriptedModel(call("think"), "It may not.", "never asked for")
    async with mcp_tools(server, allow=["think"]) as tools:
        result = await run(Agent(name="a", tools=tools), "go", provider=model)
    assert (result.output, result.stop_reason) == ("It may not.", "completed")
    assert "ampling" in result.messages[2].error
    assert len(model.requests) == 2
