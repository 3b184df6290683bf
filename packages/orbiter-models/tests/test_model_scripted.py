import pytest

from orbiter import Agent, run
from orbiter.models import ModelError, ModelResponse, ScriptedModel, call
from orbiter.types import ToolCall, Usage, UserMessage

HI = [UserMessage(content="hi")]


async def test_replies_are_given_in_order():
    model = ScriptedModel("one", "two")
    assert [(await model.complete(HI)).content for _ in range(2)] == ["one", "two"]


async def test_a_call_says_its_arguments_as_json_and_gets_an_id():
    model = ScriptedModel(call("add", a=2, b=3), [call("one"), call("two")])
    first, second = await model.complete(HI), await model.complete(HI)
    assert first.tool_calls == [ToolCall(id="call_1", name="add", arguments='{"a": 2, "b": 3}')]
    assert first.finish_reason == "tool_calls"
    assert [c.id for c in second.tool_calls] == ["call_2", "call_3"]


async def test_an_id_of_ones_own_is_kept():
    model = ScriptedModel(ToolCall(id="mine", name="add"))
    assert (await model.complete(HI)).tool_calls[0].id == "mine"


async def test_a_whole_response_is_given_as_it_is():
    response = ModelResponse(content="x", usage=Usage(total_tokens=9), finish_reason="length")
    assert await ScriptedModel(response).complete(HI) is response


async def test_an_exception_is_raised():
    with pytest.raises(ModelError, match="overloaded"):
        await ScriptedModel(ModelError("overloaded")).complete(HI)


async def test_a_function_makes_the_reply_from_the_messages():
    model = ScriptedModel(lambda messages: messages[-1].content.upper(), repeat=True)
    assert (await model.complete(HI)).content == "HI"
    assert (await model.complete(HI)).content == "HI"


async def test_a_script_that_is_over_says_so():
    model = ScriptedModel("one")
    await model.complete(HI)
    with pytest.raises(ModelError, match="the script has 1 replies, call 2 needs another"):
        await model.complete(HI)


async def test_a_repeated_script_begins_again():
    model = ScriptedModel("one", "two", repeat=True)
    assert [(await model.complete(HI)).content for _ in range(3)] == ["one", "two", "one"]


async def test_every_request_is_kept_as_it_was():
    model = ScriptedModel("one")
    messages = list(HI)
    await model.complete(messages, tools=[{"type": "function"}], temperature=0.5, max_tokens=9)
    messages.append(UserMessage(content="later"))
    [request] = model.requests
    assert (request.messages, request.tools) == (HI, [{"type": "function"}])
    assert (request.temperature, request.max_tokens) == (0.5, 9)


async def test_a_stream_is_the_same_reply_in_pieces():
    script = [ModelResponse(content="to be or", tool_calls=[ToolCall(id="1", name="a")])]
    chunks = [chunk async for chunk in ScriptedModel(*script).stream(HI)]
    assert [chunk.delta for chunk in chunks if chunk.delta] == ["to ", "be ", "or"]
    pieces = [piece for chunk in chunks for piece in chunk.tool_call_deltas]
    assert [(p.index, p.id, p.name, p.arguments) for p in pieces] == [
        (0, "1", "a", ""),
        (0, None, None, ""),
    ]
    assert chunks[-1].finish_reason == "stop"


async def test_each_call_claims_the_usage_it_was_given():
    usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
    result = await run(Agent(name="a"), "hi", provider=ScriptedModel("x", usage=usage))
    assert result.usage == usage
