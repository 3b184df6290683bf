"""Half a character in what a model says: whichever vendor says it, results are UTF-8."""

import pytest
from support.model_wire import Answer

from orbiter import Agent, run, tool
from orbiter.history import to_json
from orbiter.models import ModelResponse, ScriptedModel, StreamChunk, ToolCallDelta
from orbiter.parts import OpaquePart, TextPart, ThinkingPart
from orbiter.types import ToolCall

pytest_plugins = ["support.model_vendors"]
HALF = "half \ud83d of a face"
WHOLE = "half \ufffd of a face"


@tool
def look(city: str) -> str:
    """Look."""
    return f"{city}: fog"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["openai", "responses", "anthropic", "google"])
async def test_text_and_arguments_of_every_vendor_are_utf_8(vendors, name, stream):
    provider = vendors(name).will(
        Answer(text=HALF, calls=(("c1", "look", {"city": HALF}),)), Answer(text=HALF)
    )
    agent = Agent(name="a", tools=[look])
    if stream:
        flow = run.stream(agent, "Go", provider=provider)
        events = [event async for event in flow]
        assert all(event.model_dump_json().encode() for event in events)
        assert "".join(e.text for e in events if e.type == "text") == WHOLE * 2
        result = flow.result
    else:
        result = await run(agent, "Go", provider=provider)
    assert result.output == WHOLE
    assert result.messages[1].content == WHOLE
    assert to_json(result.messages).encode()
    assert result.model_dump_json().encode()


def test_all_that_a_provider_can_say_is_utf_8():
    call = ToolCall(id=HALF, name=HALF, arguments=HALF)
    parts = (
        TextPart(text=HALF),
        ThinkingPart(text=HALF, vendor="v"),
        OpaquePart(vendor="v", data={HALF: [HALF, {"raw": b"\xff"}]}),
    )
    said = ModelResponse(content=HALF, tool_calls=[call], reasoning_content=HALF, parts=parts)
    assert said.content == said.reasoning_content == WHOLE
    assert said.tool_calls == [ToolCall(id=WHOLE, name=WHOLE, arguments=WHOLE)]
    assert said.parts[0].text == said.parts[1].text == WHOLE
    assert said.parts[2].data == {WHOLE: [WHOLE, {"raw": b"\xff"}]}
    piece = ToolCallDelta(id=HALF, name=HALF, arguments=HALF)
    chunk = StreamChunk(delta=HALF, thinking=HALF, tool_call_deltas=[piece], parts=parts)
    assert (chunk.delta, chunk.thinking, chunk.parts) == (WHOLE, WHOLE, said.parts)
    assert chunk.tool_call_deltas == [ToolCallDelta(id=WHOLE, name=WHOLE, arguments=WHOLE)]


async def test_a_model_of_ones_own_is_no_exception():
    result = await run(Agent(name="a"), "Go", provider=ScriptedModel(HALF))
    assert result.output == WHOLE
