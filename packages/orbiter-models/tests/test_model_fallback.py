"""A chain of models: who is asked next, after what, and who is said to have answered."""

import pytest
from pydantic import BaseModel
from support.model_wire import Answer, Refusal

from orbiter import Agent, run, tool
from orbiter.config import ModelConfig, ModelSettings
from orbiter.models import (
    FallbackError,
    FallbackModel,
    LimitedModel,
    ModelError,
    ModelLimits,
    ModelProvider,
    ModelResponse,
    ScriptedModel,
    StreamChunk,
    call,
    model_registry,
)
from orbiter.models.openai import OpenAIProvider
from orbiter.types import OrbiterError, Usage, UserMessage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

HI = [UserMessage(content="hi")]
AGENT = Agent(name="a")
BUSY = ModelError("overloaded", model="first", status=529)


class City(BaseModel):
    name: str


@tool
async def look() -> str:
    """Look."""
    return "a tail"


async def asked(provider, *, stream, agent=AGENT, **options):
    """Run, and return the result and the usage events' models."""
    if not stream:
        return await run(agent, "hi", provider=provider, **options), []
    events = run.stream(agent, "hi", provider=provider, **options)
    models = [event.model async for event in events if event.type == "usage"]
    return events.result, models


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        ModelError("slow down", status=429),
        ModelError("broken", status=500),
        BUSY,
        ModelError("timed out", status=408),
        ModelError("no answer", retryable=True),
        ConnectionError("reset"),
        TimeoutError("too slow"),
    ],
)
async def test_the_next_model_is_asked_when_one_is_not_available(error, stream):
    first, second = ScriptedModel(error), ScriptedModel("Hello.")
    result, _ = await asked(FallbackModel(first, second), stream=stream)
    assert (result.output, result.steps) == ("Hello.", 1)
    assert second.requests[0].messages == first.requests[0].messages


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        ModelError("the setting 'seed' is not possible"),
        ModelError("bad request", status=400),
        ModelError("invalid key", status=401),
        ModelError("no such model", status=404),
        ValueError("a mistake of ours"),
    ],
)
async def test_a_mistake_is_not_hidden_by_another_model(error, stream):
    second = ScriptedModel("Hello.")
    with pytest.raises(type(error), match=str(error)):
        await asked(FallbackModel(ScriptedModel(error), second), stream=stream)
    assert second.requests == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reason", ["refusal", "content_filter", "length"])
async def test_an_answer_is_an_answer_however_it_ended(reason, stream):
    second = ScriptedModel("Hello.")
    refused = ModelResponse(content="No.", finish_reason=reason)
    result, _ = await asked(FallbackModel(ScriptedModel(refused), second), stream=stream)
    assert (result.output, result.stop_reason, second.requests) == ("No.", reason, [])


@pytest.mark.parametrize("stream", [False, True])
async def test_when_none_can_answer_one_error_holds_each_reason(stream):
    last = ModelError("slow down", model="second", status=429, retry_after=7.0)
    chain = FallbackModel(ScriptedModel(BUSY), ScriptedModel(last))
    with pytest.raises(FallbackError) as caught:
        await asked(chain, stream=stream)
    assert caught.value.errors == (BUSY, last)
    assert str(caught.value) == (
        "none of 2 models could answer:\n  [first] overloaded\n  [second] slow down"
    )
    assert caught.value.retryable
    assert caught.value.retry_after is None


async def test_a_chain_may_be_a_link_of_another_one():
    inner = FallbackModel(ScriptedModel(BUSY), ScriptedModel(BUSY))
    assert (await FallbackModel(inner, ScriptedModel("x")).complete(HI)).content == "x"


async def test_a_mistake_at_the_second_model_tells_why_the_first_was_left():
    wrong = ModelError("bad request", model="second", status=400)
    with pytest.raises(ModelError, match="bad request") as caught:
        await FallbackModel(ScriptedModel(BUSY), ScriptedModel(wrong)).complete(HI)
    assert caught.value.__notes__ == ["before that: [first] overloaded"]


class Halting(ModelProvider):
    """Streams what it is given and then fails."""

    model = "halting"

    def __init__(self, *chunks):
        self.chunks = chunks

    async def complete(self, messages, **options):
        raise BUSY

    async def stream(self, messages, **options):
        for chunk in self.chunks:
            yield chunk
        raise BUSY


@pytest.mark.parametrize("chunk", [{"delta": "Once"}, {"thinking": "Hm"}])
async def test_a_stream_that_has_begun_is_not_begun_by_another_model(chunk):
    second = ScriptedModel("Hello.")
    with pytest.raises(ModelError, match="overloaded"):
        await asked(FallbackModel(Halting(StreamChunk(**chunk)), second), stream=True)
    assert second.requests == []


async def test_what_a_stream_took_before_its_first_word_is_counted():
    spent = Usage(input_tokens=50, total_tokens=50)
    first = Halting(StreamChunk(), StreamChunk(usage=spent))
    result, models = await asked(FallbackModel(first, ScriptedModel("Hello.")), stream=True)
    assert (result.output, models) == ("Hello.", ["scripted"])
    assert result.usage == Usage(input_tokens=60, output_tokens=5, total_tokens=65)


@pytest.mark.parametrize("stream", [False, True])
async def test_each_call_begins_with_the_preferred_model(stream):
    agent = Agent(name="a", tools=[look])
    first = ScriptedModel(BUSY, "A cat.")
    second = ScriptedModel(call("look"))
    result, _ = await asked(FallbackModel(first, second), stream=stream, agent=agent)
    assert (result.output, result.steps) == ("A cat.", 2)
    assert len(first.requests) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_over_the_real_sdks_the_reply_names_who_answered(vendors, stream):
    openai, anthropic = vendors("openai"), vendors("anthropic")
    openai.will(*[Refusal(503)] * 4)
    anthropic.will(Answer(text="Hello."))
    chain = FallbackModel(openai.provider, anthropic.provider)
    settings = ModelSettings(top_p=0.5)
    result, models = await asked(chain, stream=stream, settings=settings)
    assert result.output == "Hello."
    assert models == (["anthropic:test-model"] if stream else [])
    reply = await FallbackModel(anthropic.will(Answer(text="x"))).complete(HI)
    assert (reply.provider, reply.model) == ("anthropic", "test-model")
    assert len(openai.server.received) == 4


@pytest.mark.parametrize(
    ("name", "error", "status"),
    [
        ("anthropic", "overloaded_error", 529),
        ("anthropic", "rate_limit_error", 429),
        ("anthropic", "api_error", 500),
        ("openai", "server_error", None),
    ],
)
async def test_an_error_that_a_stream_tells_before_its_text_leads_on(vendors, name, error, status):
    vendor = vendors(name)
    told = []

    def note(failure):
        told.append((failure.status, failure.retryable))
        return failure.retryable

    chain = FallbackModel(
        vendor.will(Answer(error=error)), ScriptedModel("Hello."), fallback_on=note
    )
    result, _ = await asked(chain, stream=True)
    assert (result.output, told) == ("Hello.", [(status, True)])


@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_a_request_that_a_stream_calls_invalid_does_not(vendors, name):
    vendor = vendors(name)
    chain = FallbackModel(vendor.will(Answer(error="invalid_request_error")), ScriptedModel("x"))
    with pytest.raises(ModelError, match="not now") as caught:
        await asked(chain, stream=True)
    assert (caught.value.status, caught.value.retryable) == (400, False)


async def test_a_server_that_is_not_there_is_not_available(vendors):
    vendor = vendors("openai")
    config = ModelConfig(api_key="k", base_url="http://127.0.0.1:9/v1", max_retries=0)
    gone = OpenAIProvider(config, clock=vendor.provider._client.clock)
    chain = FallbackModel(gone, vendor.will(Answer(text="Hello.")))
    assert (await run(AGENT, "hi", provider=chain)).output == "Hello."
    await chain.aclose()


async def test_retry_after_is_part_of_the_error(vendor):
    provider = vendor.will(*[Refusal(429, headers={"retry-after": "90"})])
    with pytest.raises(ModelError) as caught:
        await provider.complete(HI)
    assert (caught.value.retry_after, caught.value.retryable) == (90.0, True)


async def test_a_schema_is_bound_only_if_all_models_can(vendors):
    openai, anthropic = vendors("openai"), vendors("anthropic")
    answer = Answer(text='{"name": "Oslo"}')
    agent = Agent(name="a", output_type=City)
    both = FallbackModel(openai.will(answer), anthropic.provider)
    assert (await run(agent, "go", provider=both)).output == City(name="Oslo")
    assert "response_format" not in openai.server.received[0].body
    one = FallbackModel(openai.will(answer))
    assert (await run(agent, "go", provider=one)).output == City(name="Oslo")
    assert "response_format" in openai.server.received[1].body


async def test_errors_of_ones_own_choice_lead_to_the_next_model():
    wrong = ModelError("invalid key", status=401)
    chain = FallbackModel(
        ScriptedModel(wrong), ScriptedModel("x"), fallback_on=lambda e: e is wrong
    )
    assert (await chain.complete(HI)).content == "x"


async def test_models_may_be_strings_and_a_chain_a_name(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    chain = FallbackModel("openai:gpt-4o", "vllm:qwen3")
    assert chain.model == "gpt-4o"
    model_registry.register("ours", lambda config: FallbackModel(ScriptedModel("x")))
    try:
        assert (await run(Agent(name="a", model="ours:best"), "hi")).output == "x"
    finally:
        model_registry.unregister("ours")


@pytest.mark.parametrize(
    ("models", "told"),
    [((), "has no models"), ((7,), "got 7: give model strings"), ((ScriptedModel,), "got <class")],
)
def test_what_is_no_model_is_refused(models, told):
    with pytest.raises(OrbiterError, match=told):
        FallbackModel(*models)


@pytest.mark.parametrize(
    ("second", "takes"), [("openai:gpt-4o", True), ("openai:gpt-3.5-turbo", False)]
)
def test_a_chain_and_limits_hold_an_answer_to_a_schema_if_each_model_can(
    monkeypatch, second, takes
):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    chain = FallbackModel("openai:gpt-4o-mini", second)
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    assert chain.takes_schema(schema) is takes
    assert LimitedModel(chain, ModelLimits(concurrent=1)).takes_schema(schema) is takes


@pytest.mark.parametrize(
    ("second", "beside"), [("openai:gpt-4o", True), ("google:gemini-2.5-pro", False)]
)
def test_a_chain_and_limits_take_a_schema_beside_tools_if_each_model_does(
    monkeypatch, second, beside
):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    chain = FallbackModel(ScriptedModel(), second)
    assert chain.schema_beside_tools is beside
    assert LimitedModel(chain, ModelLimits(concurrent=1)).schema_beside_tools is beside
