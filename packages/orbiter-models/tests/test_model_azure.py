"""Azure's deployments by OpenAI's SDK: addresses, versions, keys and tokens."""

import sys
from types import ModuleType

import pytest
from support.model_wire import Answer, Refusal

from orbiter import Agent, run
from orbiter.config import ModelConfig, ModelSettings
from orbiter.models import ModelError, get_provider
from orbiter.models._internal.openai_chat import Chat
from orbiter.models._internal.openai_responses import Responses
from orbiter.models.azure import AzureProvider
from orbiter.types import UserMessage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

HI = [UserMessage(content="hi")]
VERSION = "2025-04-01-preview"


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in ("ENDPOINT", "API_KEY", "AD_TOKEN", "TOKEN_PROVIDER"):
        monkeypatch.delenv(f"AZURE_OPENAI_{name}", raising=False)
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    # of OpenAI's account, which Azure is not told
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-team: secret")


async def token_of_a_coroutine():
    return "t-async"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("azure", "/openai/deployments/test-model/chat/completions"),
        ("azure-responses", "/openai/responses"),
    ],
)
async def test_a_deployment_is_asked_with_version_and_key(vendors, name, path, stream):
    vendor = vendors(name)
    provider = vendor.will(Answer(text="Hello."))
    events = run.stream(Agent(name="a"), "hi", provider=provider)
    if stream:
        async for _ in events:
            pass
    result = events.result if stream else await run(Agent(name="a"), "hi", provider=provider)
    assert result.output == "Hello."
    [request] = vendor.server.received
    assert (request.path, request.query) == (path, f"api-version={VERSION}")
    assert request.headers["api-key"] == "sk-test"
    assert request.body["model"] == "test-model"
    for secret in ("sk-openai", "org-secret", "x-team"):
        assert secret not in str(request.headers)


async def test_a_deployment_is_asked_in_openais_newer_words_and_strict_mode(vendors):
    vendor = vendors("azure")
    agent = Agent(name="a", output_type=int, max_tokens=7)
    provider = vendor.will(Answer(text='{"result": 5}'))
    assert (await run(agent, "hi", provider=provider)).output == 5
    body = vendor.server.received[0].body
    assert body["max_completion_tokens"] == 7
    assert body["response_format"]["json_schema"]["strict"] is True


def a_function():
    return "t-sync"


@pytest.mark.parametrize("give", ["argument", "variable"])
@pytest.mark.parametrize(
    ("function", "token"), [(a_function, "t-sync"), (token_of_a_coroutine, "t-async")]
)
async def test_a_token_provider_is_asked_for_each_call(vendors, monkeypatch, function, token, give):
    vendor = vendors("azure")
    module = ModuleType("tokens_of_a_test")
    module.get = function
    monkeypatch.setitem(sys.modules, "tokens_of_a_test", module)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY" if give == "argument" else "UNUSED", "sk-of-the-env")
    monkeypatch.setenv("AZURE_OPENAI_TOKEN_PROVIDER", "tokens_of_a_test:get")
    given = {"token_provider": function} if give == "argument" else {}
    config = ModelConfig(provider="azure", model_name="m", base_url=vendor.server.url)
    provider = AzureProvider(config, api_version=VERSION, **given)
    vendor.will(Answer(text="x"), Answer(text="y"))
    await provider.complete(HI)
    await provider.complete(HI)
    await provider.aclose()
    for request in vendor.server.received:
        assert request.headers["authorization"] == f"Bearer {token}"
        assert "api-key" not in request.headers


def failing():
    raise PermissionError("log in first")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (failing, "the token provider failed: log in first"),
        (lambda: "", "the token provider gave str, not a token"),
        (lambda: 7, "the token provider gave int, not a token"),
        ("no_such_module_here:get", "the token provider 'no_such_module_here:get' is no 'module:"),
        ("sys", "the token provider failed"),
    ],
)
async def test_a_token_provider_that_gives_none_is_an_error_that_says_so(vendors, given, told):
    vendor = vendors("azure")
    config = ModelConfig(provider="azure", model_name="m", base_url=vendor.server.url)
    provider = AzureProvider(config, api_version=VERSION, token_provider=given)
    with pytest.raises(ModelError, match=rf"^\[m\] {told}") as caught:
        await provider.complete(HI)
    assert not caught.value.retryable
    assert vendor.server.received == []
    await provider.aclose()


async def test_a_refused_call_names_address_and_request(vendors):
    vendor = vendors("azure")
    vendor.will(Refusal(404, "DeploymentNotFound", headers={"apim-request-id": "apim-1"}))
    told = r"azure answered 404: .*DeploymentNotFound.*; asked at http://127\S+ \(base_url\)$"
    with pytest.raises(ModelError, match=told) as caught:
        await vendor.provider.complete(HI)
    assert caught.value.request_id == "req_1"


async def test_an_http_client_of_ones_own_is_told_nothing_of_openai_either(vendors):
    from openai import DefaultAsyncHttpxClient

    vendor = vendors("azure")
    async with DefaultAsyncHttpxClient() as client:
        settings = ModelSettings(http_client=client)
        await vendor.will(Answer(text="x")).complete(HI, settings=settings)
    [request] = vendor.server.received
    assert request.headers["api-key"] == "sk-test"
    assert "org-secret" not in str(request.headers)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "no address: set AZURE_OPENAI_ENDPOINT or give base_url="),
        ({"AZURE_OPENAI_ENDPOINT": "nonsense"}, "AZURE_OPENAI_ENDPOINT is 'nonsense'"),
        ({"AZURE_OPENAI_ENDPOINT": "https://a"}, "no version of the API: set OPENAI_API_VERSION"),
        (
            {"AZURE_OPENAI_ENDPOINT": "https://a", "OPENAI_API_VERSION": VERSION},
            "no credential: set AZURE_OPENAI_API_KEY, or AZURE_OPENAI_TOKEN_PROVIDER to",
        ),
    ],
)
def test_what_is_missing_is_named(monkeypatch, environment, told):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ModelError, match=rf"^\[gpt-5\] {told}") as caught:
        get_provider("azure:gpt-5")
    assert caught.value.provider == "azure"


def test_a_key_and_a_token_provider_are_one_too_many(monkeypatch):
    config = ModelConfig(provider="azure", api_key="k", base_url="https://a")
    with pytest.raises(ModelError, match="api_key= and token_provider= are both given"):
        AzureProvider(config, api_version=VERSION, token_provider=a_function)


@pytest.mark.parametrize(
    ("model", "api"),
    [
        ("azure:gpt-4o", Chat),
        ("azure:gpt-5-mini", Responses),
        ("azure:our-deployment", Chat),
        ("azure-responses:our-deployment", Responses),
        ("azure-chat:gpt-5-mini", Chat),
    ],
)
def test_a_deployments_name_or_the_prefix_says_which_api(monkeypatch, model, api):
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://acme.openai.azure.com")
    monkeypatch.setenv("OPENAI_API_VERSION", VERSION)
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "token")
    provider = get_provider(model)
    assert type(provider._api) is api
    assert provider._client.config.provider == "azure"
