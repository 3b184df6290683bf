import asyncio
import subprocess
import sys
import threading

import pytest

from orbiter import Agent, run
from orbiter.config import ModelConfig
from orbiter.models import (
    ModelCallForbiddenError,
    ModelError,
    ModelProvider,
    ModelResponse,
    forbid_real_calls,
    get_provider,
    model_registry,
)
from orbiter.models.anthropic import AnthropicProvider
from orbiter.models.openai import OpenAIProvider
from orbiter.types import OrbiterError, ToolCall, Usage, UserMessage


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_BASE_URL",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def test_a_model_string_becomes_the_provider_it_names(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    assert isinstance(get_provider("openai:gpt-4o"), OpenAIProvider)
    assert isinstance(get_provider("anthropic:claude-sonnet-4-20250514"), AnthropicProvider)
    assert get_provider("gpt-4o-mini").model == "gpt-4o-mini"


def test_a_key_may_be_given_instead_of_the_environments():
    provider = get_provider("anthropic:claude-sonnet-4-20250514", api_key="sk-other")
    assert isinstance(provider, AnthropicProvider)


def test_anthropics_token_is_a_key_too(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    assert isinstance(get_provider("anthropic:claude-sonnet-4-20250514"), AnthropicProvider)


def test_without_a_key_the_error_names_the_variable_to_set():
    with pytest.raises(ModelError, match=r"\[claude-x\] no API key: set ANTHROPIC_API_KEY"):
        get_provider("anthropic:claude-x")


def test_a_compatible_server_may_need_no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    assert isinstance(get_provider("openai:llama", base_url="http://localhost/v1"), OpenAIProvider)


@pytest.mark.parametrize(
    ("variable", "model", "example"),
    [
        ("OPENAI_BASE_URL", "openai:x", "https://api.openai.com/v1"),
        ("ANTHROPIC_BASE_URL", "anthropic:x", "https://api.anthropic.com"),
    ],
)
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("nonsense", "'nonsense'"),
        ("localhost:8000/v1", "'localhost:8000/v1'"),
        ("http://", "'http://'"),
        ("http://host:port/v1", "'http://host:port/v1'"),
        ("ftp://host/v1", "'ftp://host/v1'"),
        ("http://a host/v1", "'http://a host/v1'"),
        ("ftp://ada:s3cret@host/v1?k=s3cret", "'ftp://host/v1'"),
        ("ada:s3cret@host/v1", "'host/v1'"),
        ("http://[::1", "'http://[::1'"),
    ],
)
def test_an_address_that_is_none_is_refused_by_its_variable(
    monkeypatch, variable, model, example, value, told
):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ModelError) as caught:
        get_provider(model, api_key="sk-test")
    assert str(caught.value).endswith(f"{variable} is {told}: set it to a URL such as {example}")
    assert "s3cret" not in str(caught.value)


def test_a_given_address_that_is_none_is_refused_before_any_request():
    with pytest.raises(ModelError, match="base_url is 'nonsense': set it to a URL such as https:"):
        get_provider("openai:x", api_key="sk-test", base_url="nonsense")


def test_an_unknown_provider_is_named_with_the_known_ones():
    known = r"model provider 'acme'; known: anthropic, .*openai, .*openrouter"
    with pytest.raises(OrbiterError, match=known):
        get_provider("acme:x1")


class Echo(ModelProvider):
    """Says what it was asked."""

    async def complete(self, messages, *, tools=None, temperature=None, max_tokens=None):
        return ModelResponse(
            content=messages[-1].content,
            tool_calls=[ToolCall(id="1", name="a", arguments="{}")],
            usage=Usage(total_tokens=3),
            finish_reason="tool_calls",
        )


async def test_a_registered_provider_is_found_by_its_name():
    class Polite(Echo):
        async def complete(self, messages, **options):
            return ModelResponse(content=f"You said: {messages[-1].content}")

    def make(config: ModelConfig) -> ModelProvider:
        return Polite()

    model_registry.register("polite", make)
    try:
        result = await run(Agent(name="a", model="polite:v1"), "hi")
    finally:
        model_registry.unregister("polite")
    assert result.output == "You said: hi"


async def test_the_scripted_one_says_its_name_to_everything():
    result = await run(Agent(name="a", model="scripted:it-works"), "hi")
    again = await run(Agent(name="a", model="scripted:it-works"), "and now?")
    assert (result.output, again.output) == ("it-works", "it-works")


async def test_a_provider_that_cannot_stream_streams_one_chunk():
    [chunk] = [chunk async for chunk in Echo().stream([UserMessage(content="hi")])]
    assert (chunk.delta, chunk.finish_reason, chunk.usage.total_tokens) == ("hi", "tool_calls", 3)
    [delta] = chunk.tool_call_deltas
    assert (delta.index, delta.id, delta.name, delta.arguments) == (0, "1", "a", "{}")
    await Echo().aclose()


async def test_a_real_model_is_not_called_while_that_is_forbidden():
    with pytest.raises(ModelCallForbiddenError, match="ORBITER_FORBID_MODEL_CALLS"):
        await run(Agent(name="a"), "hi")


async def test_a_real_model_is_not_streamed_either():
    with pytest.raises(ModelCallForbiddenError):
        async for _ in run.stream(Agent(name="a"), "hi"):
            pass


def test_the_switch_reaches_the_programs_a_test_starts():
    forbid_real_calls()
    program = (
        "from orbiter import Agent, run\n"
        "from orbiter.models import ModelCallForbiddenError\n"
        "try:\n    run.sync(Agent(name='a'), 'hi')\n"
        "except ModelCallForbiddenError:\n    print('forbidden')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "forbidden\n", done.stderr


def test_an_sdk_is_imported_only_when_its_model_is_called():
    program = (
        "import sys\n"
        "from orbiter.models import get_provider\n"
        "get_provider('openai:gpt-4o'), get_provider('anthropic:c', api_key='k')\n"
        "print([m for m in ('openai', 'anthropic', 'httpx2') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


async def test_a_missing_sdk_is_an_error_that_says_what_to_install(monkeypatch):
    forbid_real_calls(False)
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ModelError, match=r"install orbiter-models\[openai\]"):
        await run(Agent(name="a"), "hi")


async def test_a_missing_sdk_that_writes_schemas_is_named_too(monkeypatch):
    forbid_real_calls(False)
    monkeypatch.setitem(sys.modules, "anthropic", None)
    provider = get_provider("anthropic:claude-sonnet-5", api_key="k")
    with pytest.raises(ModelError, match=r"install orbiter-models\[anthropic\]"):
        await run(Agent(name="a", output_type=int), "hi", provider=provider)


async def test_an_sdk_is_imported_in_a_thread_and_its_client_made_once(monkeypatch):
    forbid_real_calls(False)
    provider = get_provider("x", api_key="k", base_url="http://127.0.0.1:9/v1", max_retries=0)
    client = provider._client
    imports = client._import
    threads = []

    def note(module: str) -> object:
        threads.append(threading.current_thread())
        return imports(module)

    monkeypatch.setattr(client, "_import", note)
    calls = [provider.complete([UserMessage(content="hi")]) for _ in range(3)]
    failures = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(failure, ModelError) for failure in failures)
    assert threads
    assert threading.main_thread() not in threads
    assert len(client._clients._open) == 1
    await provider.aclose()
