"""How an answer ended is told truly, by the real SDKs as by the run: whole, cut, refused."""

import pytest
from pydantic import BaseModel
from support.model_wire import Answer, Refusal

from orbiter import Agent, run, tool
from orbiter.models import FallbackModel, ModelError, ScriptedModel
from orbiter.runner import OutputValidationError
from orbiter.types import AssistantMessage, Usage, UserMessage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

HI = [UserMessage(content="hi")]
OPENAI = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    # compatible servers
    "model_length": "length",
    "abort": "incomplete",
    "insufficient_system_resource": "incomplete",
    "error": "incomplete",
    "eos": "stop",
}
ANTHROPIC = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
ALL = [("openai", *pair) for pair in OPENAI.items()]
ALL += [("anthropic", *pair) for pair in ANTHROPIC.items()]


class City(BaseModel):
    name: str


@tool
async def launch(count: int = 3) -> str:
    """Launch rockets."""
    raise AssertionError("a call that may be cut off must not be made")


async def finish_of(provider, *, stream):
    """Ask, and return how the answer ended."""
    if not stream:
        return (await provider.complete(HI)).finish_reason
    told = [chunk.finish_reason async for chunk in provider.stream(HI)]
    return [reason for reason in told if reason is not None][-1]


async def result_of(agent, provider, *, stream):
    """Run, and return the result."""
    if not stream:
        return await run(agent, "go", provider=provider)
    events = run.stream(agent, "go", provider=provider)
    async for _ in events:
        pass
    return events.result


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("name", "word", "reason"), ALL)
async def test_every_word_a_vendor_ends_with_has_its_meaning(vendors, name, word, reason, stream):
    provider = vendors(name).will(Answer(text="x", finish=word))
    assert await finish_of(provider, stream=stream) == reason


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_in_openais_own_field_is_a_refusal(vendors, stream):
    provider = vendors("openai").will(Answer(refusal="I cannot help with that."))
    result = await result_of(Agent(name="a"), provider, stream=stream)
    assert (result.output, result.stop_reason) == ("I cannot help with that.", "refusal")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("name", "word", "reason"),
    [
        ("openai", "length", "length"),
        ("openai", "content_filter", "content_filter"),
        ("anthropic", "max_tokens", "length"),
        ("anthropic", "refusal", "refusal"),
    ],
)
async def test_a_run_whose_answer_was_cut_says_why_and_keeps_what_was_said(
    vendors, name, word, reason, stream
):
    provider = vendors(name).will(Answer(text="Once upon", finish=word))
    result = await result_of(Agent(name="a"), provider, stream=stream)
    assert (result.output, result.stop_reason, result.steps) == ("Once upon", reason, 1)
    assert result.messages[-1] == AssistantMessage(content="Once upon")
    assert result.usage.total_tokens == 107


async def test_a_stream_without_its_end_is_incomplete_keeps_its_words_and_is_not_repeated(vendor):
    provider = vendor.will(Answer(text="Once upon", ends_early="after text"), Answer(text="No."))
    result = await result_of(Agent(name="a"), provider, stream=True)
    assert (result.output, result.stop_reason) == ("Once upon", "incomplete")
    assert len(vendor.server.received) == 1


async def test_a_stream_without_its_last_marker_is_incomplete(vendor):
    early = Answer(text="Once upon", ends_early="before the end marker")
    result = await result_of(Agent(name="a"), vendor.will(early), stream=True)
    assert (result.output, result.stop_reason) == ("Once upon", "incomplete")


async def test_what_an_incomplete_stream_has_taken_is_counted(vendors):
    provider = vendors("anthropic").will(Answer(text="Once", ends_early="after text"))
    result = await result_of(Agent(name="a"), provider, stream=True)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (100, 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_in_a_cut_reply_is_not_made(vendors, stream):
    for name, word in (("openai", "length"), ("anthropic", "max_tokens")):
        provider = vendors(name).will(Answer(calls=(("c1", "launch", {}),), finish=word))
        result = await result_of(Agent(name="a", tools=[launch]), provider, stream=stream)
        assert result.stop_reason == "length"
        assert "not called: the reply was cut off" in result.messages[-1].error


async def test_a_stream_that_ends_after_its_call_does_not_make_it(vendor):
    early = Answer(calls=(("c1", "launch", {}),), ends_early="before the end marker")
    result = await result_of(Agent(name="a", tools=[launch]), vendor.will(early), stream=True)
    assert result.stop_reason == "incomplete"
    assert [message.role for message in result.messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("stream", [False, True])
async def test_structured_output_that_was_cut_says_raise_max_tokens(vendors, stream):
    for name, word in (("openai", "length"), ("anthropic", "max_tokens")):
        vendor = vendors(name)
        provider = vendor.will(Answer(text='{"name": "Os', finish=word))
        agent = Agent(name="a", output_type=City, max_tokens=7)
        with pytest.raises(OutputValidationError, match="cut off at 7 output tokens") as caught:
            await result_of(agent, provider, stream=stream)
        assert "raise max_tokens" in str(caught.value)
        assert "JSON" not in str(caught.value)
        assert caught.value.stop_reason == "length"
        assert len(vendor.server.received) == 1


@pytest.mark.parametrize(
    ("answer", "reason", "told"),
    [
        (Answer(refusal="No."), "refusal", "the model refused: 'No.'"),
        (Answer(text="{", finish="content_filter"), "content_filter", "content filter"),
        (Answer(text="{", ends_early="after text"), "incomplete", "ended before the answer did"),
    ],
)
async def test_structured_output_that_ended_otherwise_says_how(vendors, answer, reason, told):
    provider = vendors("openai").will(answer)
    with pytest.raises(OutputValidationError, match=told) as caught:
        await result_of(Agent(name="a", output_type=City), provider, stream=True)
    assert caught.value.stop_reason == reason


HOSTED = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "cats"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn_that_claude_pauses_goes_on_and_is_one_answer(vendors, stream):
    vendor = vendors("anthropic")
    made = []

    @tool
    async def note(cat: str) -> str:
        """Note a cat."""
        made.append(cat)
        return "noted"

    provider = vendor.will(
        Answer(thinking="Cats.", text="I look. ", blocks=(HOSTED,), finish="pause_turn"),
        Answer(blocks=(FOUND,), finish="pause_turn"),
        Answer(text="A tabby.", calls=(("c1", "note", {"cat": "tabby"}),)),
        Answer(text="Noted."),
    )
    result = await result_of(Agent(name="a", tools=[note]), provider, stream=stream)
    assert (result.output, result.stop_reason, result.steps) == ("Noted.", "completed", 2)
    assert made == ["tabby"]
    said = result.messages[1]
    assert said.content == "I look. A tabby."
    assert [part.type for part in said.parts] == [
        "thinking", "opaque", "text", "opaque", "text", "tool_call"
    ]  # fmt: skip
    assert result.usage.total_tokens == 4 * 107
    first, second, third, _ = [received.body["messages"] for received in vendor.server.received]
    assert (second[: len(first)], len(second)) == (first, len(first) + 1)
    kinds = [block["type"] for block in third[-1]["content"]]
    assert kinds == ["thinking", "server_tool_use", "text", "web_search_tool_result"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("answers_at_last", [False, True])
async def test_what_a_paused_turn_has_used_counts_when_it_cannot_go_on(
    vendors, stream, answers_at_last
):
    vendor = vendors("anthropic")
    provider = vendor.will(Answer(blocks=(HOSTED,), finish="pause_turn"), *[Refusal(503)] * 4)
    if answers_at_last:
        chain = FallbackModel(provider, ScriptedModel("At last.", usage=Usage(total_tokens=15)))
        result = await result_of(Agent(name="a"), chain, stream=stream)
        assert (result.output, result.usage.total_tokens) == ("At last.", 107 + 15)
        return
    with pytest.raises(ModelError) as caught:
        await result_of(Agent(name="a"), provider, stream=stream)
    assert caught.value.usage.total_tokens == 107


@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn_that_pauses_again_and_again_is_incomplete(vendors, stream):
    vendor = vendors("anthropic")
    provider = vendor.will(*[Answer(text="x", finish="pause_turn")] * 20)
    result = await result_of(Agent(name="a"), provider, stream=stream)
    assert (result.output, result.stop_reason) == ("x" * 9, "incomplete")
    assert len(vendor.server.received) == 9
