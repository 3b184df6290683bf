"""Models of an application's own, of no class of ours, in a chain and under limits."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from orbiter import Agent, run, tool
from orbiter.config import ModelSettings
from orbiter.models import FallbackModel, LimitedModel, ModelError, ModelLimits, ScriptedModel
from orbiter.types import OrbiterError, ToolCall, Usage

USAGE = Usage(input_tokens=3, output_tokens=4, total_tokens=7)


@dataclass
class Reply:
    """The least that a run needs to know of an answer."""

    content: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    usage: Usage = USAGE


class Least:
    """Has `complete` with its four arguments, and nothing else."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.asked: list[dict[str, Any]] = []

    async def complete(self, messages, *, tools=None, temperature=None, max_tokens=None):
        self.asked.append({"tools": tools, "temperature": temperature, "max_tokens": max_tokens})
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


class Streams(Least):
    """Streams pieces that know no more than they have to, behind an await."""

    async def stream(self, messages, *, tools=None, temperature=None, max_tokens=None):
        reply = await self.complete(
            messages, tools=tools, temperature=temperature, max_tokens=max_tokens
        )
        pieces = [
            SimpleNamespace(delta=reply.content[:2], tool_call_deltas=(), usage=Usage()),
            SimpleNamespace(
                delta=reply.content[2:],
                tool_call_deltas=[
                    SimpleNamespace(index=i, id=call.id, name=call.name, arguments=call.arguments)
                    for i, call in enumerate(reply.tool_calls)
                ],
                usage=reply.usage,
            ),
        ]

        async def told():
            for piece in pieces:
                yield piece

        return told()


def alone(provider: Any) -> Any:
    return provider


def chained(provider: Any) -> Any:
    return FallbackModel(provider)


def limited(provider: Any) -> Any:
    return LimitedModel(provider, ModelLimits())


def both(provider: Any) -> Any:
    return FallbackModel(LimitedModel(provider, ModelLimits()), ScriptedModel(["never"]))


@tool
async def look() -> str:
    """Look."""
    return "a tail"


CALL = Reply(tool_calls=[ToolCall(id="1", name="look", arguments="{}")])
ways = pytest.mark.parametrize("way", [alone, chained, limited, both])
kinds = pytest.mark.parametrize("kind", [Least, Streams])


@ways
@kinds
@pytest.mark.parametrize("stream", [False, True])
async def test_it_answers_calls_and_counts_as_it_does_alone(way, kind, stream):
    model = kind(CALL, Reply("a fox"))
    agent = Agent(name="a", tools=[look])
    if stream:
        events = run.stream(agent, "hi", provider=way(model))
        told = [event.text async for event in events if event.type == "text"]
        result = events.result
        assert "".join(told) == "a fox"
    else:
        result = await run(agent, "hi", provider=way(model))
    assert result.output == "a fox"
    assert result.usage == USAGE + USAGE
    assert [message.role for message in result.messages][-3:] == ["assistant", "tool", "assistant"]


@pytest.mark.parametrize("kind", [Least, Streams])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_next_model_is_asked_when_it_cannot_answer(kind, stream):
    chain = FallbackModel(kind(ModelError("busy", status=503)), kind(Reply("second")))
    if stream:
        events = run.stream(Agent(name="a"), "hi", provider=chain)
        told = [event.text async for event in events if event.type == "text"]
        assert "".join(told) == events.result.output == "second"
    else:
        assert (await run(Agent(name="a"), "hi", provider=chain)).output == "second"


@ways
async def test_temperature_and_tokens_reach_it(way):
    model = Least(Reply("ok"))
    await run(Agent(name="a", temperature=0.2, max_tokens=9), "hi", provider=way(model))
    assert model.asked == [{"tools": None, "temperature": 0.2, "max_tokens": 9}]


@ways
async def test_a_setting_that_it_does_not_take_is_named(way):
    model = Least(Reply("ok"))
    with pytest.raises(OrbiterError, match="top_p"):
        await run(Agent(name="a"), "hi", provider=way(model), settings=ModelSettings(top_p=0.5))
    assert model.asked == []


@ways
@pytest.mark.parametrize("word", ["end_turn", None, 7])
async def test_an_end_of_its_own_words_counts_as_one(way, word):
    reply = Reply("ok")
    reply.finish_reason = word
    result = await run(Agent(name="a"), "hi", provider=way(Least(reply)))
    assert (result.output, result.stop_reason) == ("ok", "completed")


@pytest.mark.parametrize("way", [chained, limited, both])
async def test_closing_a_model_without_connections_is_nothing(way):
    await way(Least()).aclose()
