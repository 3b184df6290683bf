"""Servers that speak OpenAI's chat completions, by name, against one that minds their ways."""

import pytest
from pydantic import BaseModel, ValidationError
from support.model_wire import Answer, Refusal, WireServer
from support.server_checks import MINDS
from support.vendor_types import check_request

from orbiter import Agent, run, tool
from orbiter.config import ModelSettings
from orbiter.models import (
    ModelError,
    ModelServer,
    forbid_real_calls,
    get_provider,
    model_registry,
    register_server,
)
from orbiter.models.servers import SERVERS
from orbiter.parts import TextPart, ThinkingPart, ToolCallPart
from orbiter.registry import RegistryError
from orbiter.types import AssistantMessage, ToolCall, ToolResult, UserMessage

BY_NAME = {server.name: server for server in SERVERS}
LOCAL = {"ollama", "vllm", "lmstudio"}
MORE = {"mistral": frozenset({"random_seed"})}


class Report(BaseModel):
    title: str


@tool
async def look(at: str) -> str:
    """Look."""
    return f"a tail at {at}"


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    forbid_real_calls(False)
    for server in SERVERS:
        monkeypatch.delenv(server.url_variable, raising=False)
        monkeypatch.delenv(server.key_variable, raising=False)


@pytest.fixture
async def at(monkeypatch):
    """Stand in for a server by name; what it was sent has to fit the SDK's types."""
    async with WireServer().running() as wire:
        made = []

        def make(name, *answers, key="sk-of-theirs"):
            server = BY_NAME[name]
            monkeypatch.setenv(server.url_variable, f"{wire.url}/v1")
            if key:
                monkeypatch.setenv(server.key_variable, key)
            wire.minds = MINDS.get(name)
            wire.answers.extend(answers)
            provider = get_provider(f"{name}:model-x", max_retries=0)
            made.append((name, provider))
            return provider, wire

        yield make
        for name, provider in made:
            await provider.aclose()
            for request in wire.received:
                check_request("openai", request.body, MORE.get(name, frozenset()))


@pytest.mark.parametrize("name", sorted(BY_NAME))
async def test_a_server_is_asked_by_its_name_with_its_own_key(at, name):
    provider, wire = at(name, Answer(text="Hello."))
    result = await run(Agent(name="a", max_tokens=9), "hi", provider=provider)
    [request] = wire.received
    assert result.output == "Hello."
    assert request.headers["authorization"] == "Bearer sk-of-theirs"
    assert request.body["model"] == "model-x"
    assert request.body[BY_NAME[name].tokens_field] == 9


@pytest.mark.parametrize("name", sorted(BY_NAME))
async def test_each_goes_on_with_anybodys_conversation_as_a_stream(at, name):
    """Thoughts of another server, ids of another form, a call and its result."""
    history = [
        UserMessage(content="Look."),
        AssistantMessage(
            tool_calls=[ToolCall(id="call_PTLP8xhu3uwZk4l3nlnrrJha", name="look", arguments="{}")],
            parts=(
                ThinkingPart(text="Hm.", vendor="openai:reasoning_content"),
                ToolCallPart(index=0),
            ),
        ),
        ToolResult(
            tool_call_id="call_PTLP8xhu3uwZk4l3nlnrrJha", tool_name="look", content="a tail"
        ),
    ]
    provider, wire = at(
        name, Answer(calls=(("D681PevKs", "look", {"at": "it"}),)), Answer(text="A cat.")
    )
    settings = ModelSettings(seed=7, top_p=0.5)
    agent = Agent(name="a", tools=[look], settings=settings, max_tokens=50)
    stream = run.stream(agent, "", provider=provider, messages=history)
    async for _ in stream:
        pass
    assert stream.result.output == "A cat."
    assert stream.result.usage.total_tokens == 214
    sent = wire.received[1].body["messages"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]
    assert sent[3]["tool_calls"][0]["id"] == "D681PevKs"
    told = "reasoning_content" in BY_NAME[name].thoughts
    assert ("reasoning_content" in sent[1]) == told


@pytest.mark.parametrize("name", sorted(BY_NAME))
async def test_a_schema_is_sent_where_all_models_take_one_and_is_a_tools_elsewhere(at, name):
    provider, wire = at(name, Answer(text='{"title": "Q"}'))
    result = await run(Agent(name="a", output_type=Report), "go", provider=provider)
    assert result.output == Report(title="Q")
    body = wire.received[0].body
    assert ("response_format" in body) == BY_NAME[name].json_schema
    assert ("title" in str(body.get("tools"))) != BY_NAME[name].json_schema


@pytest.mark.parametrize("stream", [False, True])
async def test_thoughts_in_pieces_of_the_content_are_thoughts(at, stream):
    answer = Answer(text="A cat.", thinking="A tail, so", thinking_field="content")
    provider, _ = at("mistral", answer)
    if stream:
        events = run.stream(Agent(name="a"), "What?", provider=provider)
        thoughts = [event.text async for event in events if event.type == "thinking"]
        result = events.result
        assert "".join(thoughts) == "A tail, so"
    else:
        result = await run(Agent(name="a"), "What?", provider=provider)
    assert result.output == "A cat."
    assert result.messages[-1].parts == (
        ThinkingPart(text="A tail, so", vendor="openai:thinking"),
        TextPart(text="A cat."),
    )


async def test_what_is_openais_own_is_not_told_to_others(at, monkeypatch):
    import openai

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer secret\nx-mine: secret")
    provider, wire = at("ollama", Answer(text="x"), Answer(text="y"), key=None)
    await run(Agent(name="a"), "hi", provider=provider)
    async with openai.DefaultAsyncHttpxClient() as client:
        settings = ModelSettings(http_client=client)
        await run(Agent(name="a"), "hi", provider=provider, settings=settings)
    assert len(wire.received) == 2
    assert "secret" not in str([request.headers for request in wire.received])


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - LOCAL))
def test_a_hosted_server_needs_its_key(name):
    variable = BY_NAME[name].key_variable
    with pytest.raises(ModelError, match=rf"^\[model-x\] no API key: set {variable} or"):
        get_provider(f"{name}:model-x")


@pytest.mark.parametrize("name", sorted(LOCAL))
def test_a_server_of_ones_own_needs_none(name):
    assert get_provider(f"{name}:qwen3:8b").model == "qwen3:8b"


async def test_a_server_that_is_not_there_is_named_with_the_variable_of_its_address(monkeypatch):
    monkeypatch.setenv("VLLM_BASE_URL", "http://127.0.0.1:9/v1")
    provider = get_provider("vllm:qwen3", max_retries=0)
    with pytest.raises(ModelError, match=r"^\[qwen3\] vllm: Connection error") as caught:
        await provider.complete([UserMessage(content="hi")])
    assert str(caught.value).endswith("asked at http://127.0.0.1:9/v1 (VLLM_BASE_URL)")
    assert caught.value.provider == "vllm"
    await provider.aclose()


async def test_a_refusal_names_the_server_that_refused(at):
    provider, _ = at("groq", Refusal(401, "Invalid API Key"))
    with pytest.raises(ModelError, match=r"groq answered 401: .*Invalid API Key"):
        await provider.complete([UserMessage(content="hi")])


async def test_a_server_of_ones_own_is_one_more_entry(at, monkeypatch):
    acme = ModelServer(
        name="acme-ai", base_url="https://models.acme.example/v1", key_variable="ACME_KEY"
    )
    register_server(acme)
    try:
        with pytest.raises(RegistryError, match="'acme-ai' is already registered"):
            register_server(acme)
        with pytest.raises(ModelError, match="set ACME_KEY"):
            get_provider("acme-ai:m")
        _, wire = at("vllm", Answer(text="Hi."))
        monkeypatch.setenv("ACME_AI_BASE_URL", f"{wire.url}/v1")
        result = await run(Agent(name="a", model="acme-ai:m"), "hi")
        assert result.output == "Hi."
    finally:
        model_registry.unregister("acme-ai")


def test_an_entry_with_an_unknown_field_is_refused():
    with pytest.raises(ValidationError, match="json_mode"):
        ModelServer(name="a", base_url=None, key_variable="K", json_mode=True)


def test_the_table_has_the_addresses_that_the_vendors_document():
    assert {name: server.base_url for name, server in BY_NAME.items()} == {
        "ollama": "http://localhost:11434/v1",
        "vllm": "http://localhost:8000/v1",
        "lmstudio": "http://localhost:1234/v1",
        "cerebras": "https://api.cerebras.ai/v1",
        "deepseek": "https://api.deepseek.com",
        "fireworks": "https://api.fireworks.ai/inference/v1",
        "groq": "https://api.groq.com/openai/v1",
        "mistral": "https://api.mistral.ai/v1",
        "moonshot": "https://api.moonshot.ai/v1",
        "openrouter": "https://openrouter.ai/api/v1",
        "together": "https://api.together.xyz/v1",
        "xai": "https://api.x.ai/v1",
    }
