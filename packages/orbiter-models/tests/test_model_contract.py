"""The real SDKs against a server that speaks their wire formats and minds them."""

import pytest
from pydantic import BaseModel
from support.model_wire import Answer, Refusal

from orbiter import Agent, Swarm, run, tool
from orbiter.config import ModelConfig
from orbiter.models import ModelError
from orbiter.models.openai import OpenAIProvider
from orbiter.types import AssistantMessage, ToolCall, ToolResult, Usage, UserMessage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]


@tool
async def get_weather(city: str) -> str:
    """Get the weather.

    Args:
        city: The city's name.
    """
    return f"sunny in {city}"


@tool
async def broken() -> str:
    """Fail."""
    raise ValueError("no such city")


class Report(BaseModel):
    title: str
    pages: int


async def streamed(agent, text, **options):
    """Run as a stream, and return the result and the text as it came."""
    stream = run.stream(agent, text, **options)
    said = [event.text async for event in stream if event.type == "text"]
    return stream.result, said


TALK = (
    Answer(
        text="Let me look.",
        calls=(("c1", "get_weather", {"city": "Tokyo"}), ("c2", "get_weather", {"city": "Oslo"})),
        input_tokens=50,
        output_tokens=20,
    ),
    Answer(text="Sunny in both.", input_tokens=120, output_tokens=6, cached_tokens=40),
)
KEPT = {"cache_control": {"type": "ephemeral"}}
WEATHERMAN = Agent(name="weather", instructions="Be brief.", tools=[get_weather], temperature=0.5)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_same_program_has_the_same_result_with_both(vendors, stream):
    results = []
    for name in ("openai", "anthropic"):
        provider = vendors(name).will(*TALK)
        if stream:
            result, said = await streamed(WEATHERMAN, "Weather?", provider=provider)
            assert "".join(said) == "Let me look.Sunny in both."
            assert len(said) > 4
        else:
            result = await run(WEATHERMAN, "Weather?", provider=provider)
        results.append(result)
    assert results[0] == results[1]
    assert results[0].output == "Sunny in both."
    assert results[0].usage == Usage(
        input_tokens=170, output_tokens=26, total_tokens=196, cached_tokens=40
    )
    assert results[0].messages[1] == AssistantMessage(
        content="Let me look.",
        tool_calls=[
            ToolCall(id="c1", name="get_weather", arguments='{"city": "Tokyo"}'),
            ToolCall(id="c2", name="get_weather", arguments='{"city": "Oslo"}'),
        ],
    )


async def test_a_swarm_with_handoffs_has_the_same_result_with_both(vendors):
    target = Agent(name="billing", instructions="Handle billing.", tools=[get_weather, broken])
    triage = Agent(name="triage", instructions="Route.", handoffs=[target])
    closing = Agent(name="closing", instructions="Say goodbye.")
    swarm = Swarm(agents=[triage, closing])
    results = [
        await run(
            swarm,
            "refund",
            provider=vendors(name).will(
                Answer(calls=(("c1", "transfer_to_billing", {}),)),
                Answer(calls=(("c2", "broken", {}),)),
                Answer(text="Refunded."),
                Answer(text="Goodbye."),
            ),
        )
        for name in ("openai", "anthropic")
    ]
    assert results[0] == results[1]
    assert (results[0].output, results[0].steps) == ("Goodbye.", 4)


async def test_a_conversation_goes_on_with_the_other_vendor(vendors):
    first = await run(WEATHERMAN, "Weather?", provider=vendors("openai").will(*TALK))
    anthropic = vendors("anthropic").will(Answer(text="Rain."))
    second = await run(WEATHERMAN, "And now?", provider=anthropic, messages=first.messages)
    back = vendors("openai").will(Answer(text="Snow."))
    third = await run(WEATHERMAN, "And now?", provider=back, messages=second.messages)
    assert third.output == "Snow."


async def test_openai_is_sent_what_it_documents(vendors):
    vendor = vendors("openai")
    agent = Agent(
        name="a", instructions="Be brief.", tools=[get_weather, broken], temperature=0.5,
        max_tokens=99,
    )  # fmt: skip
    await run(agent, "hi", provider=vendor.will(Answer(calls=(("c1", "broken", {}),)), TALK[1]))
    first, second = (request.body for request in vendor.server.received)
    assert vendor.server.received[0].headers["authorization"] == "Bearer sk-test"
    assert first == {
        "model": "test-model",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
        ],
        "tools": [get_weather.to_schema(), broken.to_schema()],
        "temperature": 0.5,
        "max_tokens": 99,
    }
    assert second["messages"][2:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "broken", "arguments": "{}"},
                }
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "Error: Tool 'broken' failed: no such city",
        },
    ]


def test_openai_itself_is_asked_in_its_newer_word_for_tokens(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    provider = OpenAIProvider(ModelConfig(api_key="k"))
    request = provider._request([UserMessage(content="hi")], None, None, 99, None)
    assert request["max_completion_tokens"] == 99
    assert "max_tokens" not in request


async def test_anthropic_is_sent_what_it_documents(vendors):
    vendor = vendors("anthropic")
    agent = Agent(name="a", instructions="Be brief.", tools=[broken], temperature=0.5)
    await run(agent, "hi", provider=vendor.will(Answer(calls=(("c1", "broken", {}),)), TALK[1]))
    first, second = (request.body for request in vendor.server.received)
    assert "sk-test" in str(vendor.server.received[0].headers)
    assert first == {
        "model": "test-model",
        "system": [{"type": "text", "text": "Be brief.", **KEPT}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", **KEPT}]}],
        "tools": [
            {
                "name": "broken",
                "description": "Fail.",
                "input_schema": broken.parameters,
                **KEPT,
            }
        ],
        "temperature": 0.5,
        "max_tokens": 4096,
    }
    assert second["messages"][1:] == [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "broken", "input": {}}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": "Tool 'broken' failed: no such city",
                    "is_error": True,
                    **KEPT,
                }
            ],
        },
    ]


async def test_anthropics_own_temperature_is_not_sent(vendors):
    vendor = vendors("anthropic")
    await run(Agent(name="a"), "hi", provider=vendor.will(Answer(text="x")))
    assert "temperature" not in vendor.server.received[0].body


async def test_arguments_that_are_no_json_object_can_be_sent_back(vendor):
    bad = ToolCall(id="c1", name="get_weather", arguments='{"city": ')
    history = [
        UserMessage(content="hi"),
        AssistantMessage(tool_calls=[bad]),
        ToolResult(tool_call_id="c1", tool_name="get_weather", error="not valid JSON"),
    ]
    result = await run(
        WEATHERMAN, "", provider=vendor.will(Answer(text="Sorry.")), messages=history
    )
    assert result.output == "Sorry."


async def test_a_history_that_begins_with_the_assistant_can_be_sent(vendor):
    history = [AssistantMessage(content="As I said."), AssistantMessage(content="Go on.")]
    provider = vendor.will(Answer(text="ok"))
    assert (await run(WEATHERMAN, "hi", provider=provider, messages=history)).output == "ok"


async def test_structured_output_works_with_both(vendor):
    agent = Agent(name="a", output_type=Report)
    provider = vendor.will(Answer(text='{"title": "Q", "pages": 3}'))
    result = await run(agent, "go", provider=provider)
    assert result.output == Report(title="Q", pages=3)
    body = vendor.server.received[0].body
    if vendor.name == "openai":
        assert body["response_format"] == {
            "type": "json_schema",
            "json_schema": {"name": "Report", "schema": Report.model_json_schema()},
        }
    else:
        # a model that is not known to take schemas has the answer as a tool
        (answer,) = body["tools"]
        assert answer["name"] == "final_answer"
        assert answer["input_schema"] == Report.model_json_schema()
        assert "`final_answer`" in body["system"][0]["text"]


@pytest.mark.parametrize(
    ("word", "reason"), [("length", "length"), ("content_filter", "content_filter")]
)
async def test_openais_finish_reasons_are_ours(vendors, word, reason):
    provider = vendors("openai").will(Answer(text="x", finish=word))
    assert (await provider.complete([UserMessage(content="hi")])).finish_reason == reason


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
    ],
)
async def test_anthropics_finish_reasons_are_translated(vendors, word, reason):
    provider = vendors("anthropic").will(Answer(text="x", finish=word))
    assert (await provider.complete([UserMessage(content="hi")])).finish_reason == reason


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_a_busy_server_is_asked_again_with_growing_pauses(vendor, status, stream):
    provider = vendor.will(Refusal(status), Refusal(status), Answer(text="at last"))
    agent = Agent(name="a")
    if stream:
        result, _ = await streamed(agent, "hi", provider=provider)
    else:
        result = await run(agent, "hi", provider=provider)
    assert result.output == "at last"
    assert vendor.pauses == [0.5, 1.0]


async def test_the_server_says_how_long_to_wait(vendor):
    provider = vendor.will(Refusal(429, headers={"retry-after": "7"}), Answer(text="at last"))
    await run(Agent(name="a"), "hi", provider=provider)
    assert vendor.pauses == [7.0]


async def test_an_error_names_provider_model_status_and_request(vendor):
    provider = vendor.will(*[Refusal(503)] * 4)
    with pytest.raises(ModelError) as caught:
        await run(Agent(name="a"), "hi", provider=provider)
    error = caught.value
    assert (error.provider, error.model) == (vendor.name, "test-model")
    assert (error.status, error.request_id) == (503, "req_4")
    assert str(error).startswith(f"[test-model] {vendor.name} answered 503: ")
    assert "the model is tired" in str(error)
    assert str(error).endswith("(request req_4)")
    assert vendor.pauses == [0.5, 1.0, 2.0]


async def test_a_wait_of_more_than_a_minute_is_left_to_the_user(vendor):
    provider = vendor.will(Refusal(429, headers={"retry-after": "3600"}))
    with pytest.raises(ModelError) as caught:
        await run(Agent(name="a"), "hi", provider=provider)
    assert (caught.value.status, vendor.pauses) == (429, [])


async def test_a_refused_request_is_not_sent_again(vendor):
    provider = vendor.will(Refusal(401, "invalid key"))
    with pytest.raises(ModelError, match="invalid key") as caught:
        await run(Agent(name="a"), "hi", provider=provider)
    assert (caught.value.status, vendor.pauses) == (401, [])


async def test_a_server_that_is_not_there_is_tried_again_and_named(vendors):
    vendor = vendors("openai")
    config = ModelConfig(api_key="k", base_url="http://127.0.0.1:9/v1", max_retries=1)
    provider = OpenAIProvider(config, clock=vendor.provider._client.clock)
    with pytest.raises(ModelError, match=r"\[gpt-4o\] openai: Connection error") as caught:
        await run(Agent(name="a"), "hi", provider=provider)
    assert (caught.value.status, vendor.pauses) == (None, [0.5])
    assert str(caught.value).endswith("; asked at http://127.0.0.1:9/v1 (base_url)")
    await provider.aclose()


async def test_the_address_is_told_with_its_variable_and_without_a_password(vendors, monkeypatch):
    vendor = vendors("openai")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:secret@127.0.0.1:9/v1?key=secret")
    config = ModelConfig(api_key="k", max_retries=0)
    provider = OpenAIProvider(config, clock=vendor.provider._client.clock)
    with pytest.raises(
        ModelError, match=r"(?m)http://127\.0\.0\.1:9/v1 \(OPENAI_BASE_URL\)$"
    ) as caught:
        await run(Agent(name="a"), "hi", provider=provider)
    assert "secret" not in str(caught.value)
    await provider.aclose()


async def test_a_refusal_without_a_key_names_the_variable(vendors, monkeypatch):
    vendor = vendors("openai")
    vendor.will(Refusal(401, "who are you?"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    config = ModelConfig(base_url=vendor.provider._client.base_url, max_retries=0)
    provider = OpenAIProvider(config, clock=vendor.provider._client.clock)
    with pytest.raises(ModelError, match=r"(?m)OPENAI_API_KEY is not set$"):
        await run(Agent(name="a"), "hi", provider=provider)
    await provider.aclose()


async def test_a_stream_that_breaks_off_is_an_error_and_not_repeated(vendor):
    provider = vendor.will(Answer(text="Once upon a time", breaks_off=True))
    said = []

    async def read() -> None:
        async for chunk in provider.stream([UserMessage(content="go")]):
            said.append(chunk.delta)  # noqa: PERF401

    with pytest.raises(ModelError, match="test-model"):
        await read()
    assert "".join(said) == "Once upon a time"
    assert len(vendor.server.received) == 1


async def test_leaving_a_stream_closes_its_connection(vendor):
    provider = vendor.will(Answer(text="a long story " * 50))
    async with run.stream(Agent(name="a"), "go", provider=provider) as stream:
        async for event in stream:
            if event.type == "text":
                break
    assert stream.result.stop_reason == "cancelled"


async def test_a_streamed_reply_has_the_id_the_model_and_the_end_of_one_in_one_piece(vendor):
    provider = vendor.will(Answer(text="hi"), Answer(text="hi"))
    whole = await provider.complete([UserMessage(content="hi")])
    chunks = [chunk async for chunk in provider.stream([UserMessage(content="hi")])]
    assert whole.id
    for name in ("id", "model", "provider", "finish_reason"):
        told = [getattr(chunk, name) for chunk in chunks if getattr(chunk, name)]
        assert told[-1] == getattr(whole, name), name
