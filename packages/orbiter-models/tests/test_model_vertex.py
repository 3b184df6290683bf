"""Claude and Gemini on Vertex by their vendors' SDKs; the exchange of tokens is scripted."""

import sys

import pytest
from support.model_wire import Answer, Refusal
from support.token_server import ACCOUNT, write_account

from orbiter import Agent, run, tool
from orbiter.config import ModelConfig
from orbiter.models import ModelError, get_provider
from orbiter.models.vertex import VertexClaudeProvider, VertexGeminiProvider
from orbiter.types import Usage, UserMessage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

HI = [UserMessage(content="hi")]
BOTH = pytest.mark.parametrize("name", ["vertex-claude", "vertex-gemini"])
WHERE = "projects/acme/locations/europe-west1/publishers"


@tool
async def get_weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path):
    for name in ("GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("VERTEX_BASE_URL", raising=False)
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west1")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    # of other accounts, which Vertex is not told
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-anthropic")
    monkeypatch.setenv("GOOGLE_API_KEY", "key-of-gemini")


@pytest.fixture
def account(monkeypatch, tmp_path):
    """Log in as a service account whose tokens come from the vendor's own server."""

    def log_in(vendor):
        path = write_account(tmp_path / "account.json", vendor.server.url)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        kind = type(vendor.provider)
        config = ModelConfig(
            provider="vertex",
            model_name=vendor.provider.model,
            base_url=vendor.server.url,
            max_retries=0,
        )
        return kind(config)

    return log_in


async def asked(vendor, *answers, stream=False, provider=None):
    provider = provider or vendor.provider
    vendor.will(*answers)
    agent = Agent(name="a", instructions="Be brief.", tools=[get_weather], temperature=0.5)
    if not stream:
        return await run(agent, "hi", provider=provider)
    events = run.stream(agent, "hi", provider=provider)
    async for _ in events:
        pass
    return events.result


TALK = (
    Answer(
        text="Let me look.",
        calls=(("c1", "get_weather", {"city": "Oslo"}),),
        input_tokens=50,
        output_tokens=20,
    ),
    Answer(text="Sunny.", input_tokens=120, output_tokens=6, cached_tokens=40),
)


@BOTH
@pytest.mark.parametrize("stream", [False, True])
async def test_a_service_account_exchanges_its_signature_for_a_token(
    vendors, account, name, stream
):
    vendor = vendors(name)
    provider = account(vendor)
    result = await asked(vendor, *TALK, stream=stream, provider=provider)
    await provider.aclose()
    assert (result.output, result.steps) == ("Sunny.", 2)
    assert result.usage == Usage(
        input_tokens=170, output_tokens=26, total_tokens=196, cached_tokens=40
    )
    # the server has computed the signature anew; one token does for both calls
    [claims] = vendor.server.tokens.claims
    assert claims["iss"] == ACCOUNT
    assert claims["aud"].endswith("/token")
    assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
    verb = {"vertex-claude": "rawPredict", "vertex-gemini": "generateContent"}[name]
    verb = f"stream{verb[0].upper()}{verb[1:]}" if stream else verb
    place = "v1/" + WHERE + "/anthropic" if name == "vertex-claude" else f"v1beta1/{WHERE}/google"
    for request in vendor.server.received:
        assert request.path == f"/{place}/models/test-model:{verb}"
        assert request.headers["authorization"] == "Bearer token-1"
        for secret in ("sk-anthropic", "key-of-gemini"):
            assert secret not in str(request.headers)


@BOTH
async def test_a_token_that_has_run_out_is_exchanged_anew(vendors, account, name):
    vendor = vendors(name)
    vendor.server.tokens.lifetime = 1
    provider = account(vendor)
    vendor.will(Answer(text="x"), Answer(text="y"))
    await provider.complete(HI)
    await provider.complete(HI)
    await provider.aclose()
    sent = [request.headers["authorization"] for request in vendor.server.received]
    assert sent[0] != sent[1]
    assert len(vendor.server.tokens.given) >= 2


@BOTH
async def test_a_key_is_an_access_token(vendors, monkeypatch, name):
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "other")
    vendor = vendors(name)
    await asked(vendor, Answer(text="ok"))
    [request] = vendor.server.received
    assert request.headers["authorization"] == "Bearer sk-test"
    assert "/projects/other/locations/europe-west1/" in request.path
    assert vendor.server.tokens.given == []


@BOTH
@pytest.mark.parametrize(
    ("refusal", "retryable"),
    [((400, {"error": "invalid_grant"}), False), ((503, {"error": "internal_failure"}), True)],
)
async def test_a_refused_exchange_says_so(vendors, account, monkeypatch, name, refusal, retryable):
    from google.auth import _exponential_backoff

    # Google's own library asks again, with pauses
    monkeypatch.setattr(_exponential_backoff.time, "sleep", lambda seconds: None)
    vendor = vendors(name)
    provider = account(vendor)
    vendor.server.tokens.refusal = refusal
    with pytest.raises(ModelError, match=rf"vertex: no token: .*{refusal[1]['error']}") as caught:
        await provider.complete(HI)
    await provider.aclose()
    assert caught.value.retryable is retryable
    assert vendor.server.received == []


@BOTH
async def test_without_credentials_or_a_project_the_error_names_what_to_set(vendors, name):
    vendor = vendors(name)
    kind = type(vendor.provider)
    config = ModelConfig(provider="vertex", model_name="m", base_url=vendor.server.url)
    with pytest.raises(ModelError, match=r"vertex: .*set GOOGLE_APPLICATION_CREDENTIALS"):
        await kind(config).complete(HI)
    with pytest.raises(ModelError, match="no project: set GOOGLE_CLOUD_PROJECT"):
        await kind(config.model_copy(update={"api_key": "token"})).complete(HI)
    assert vendor.server.received == []


@BOTH
async def test_a_busy_service_is_asked_again(vendors, monkeypatch, name):
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "acme")
    vendor = vendors(name)
    result = await asked(vendor, Refusal(429), Answer(text="at last"))
    assert (result.output, vendor.pauses) == ("at last", [0.5])


@BOTH
async def test_an_sdk_that_is_missing_is_named_with_its_extra(vendors, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "google.auth.transport.requests", None)
    with pytest.raises(ModelError, match=r"is not installed: install orbiter-models\[vertex\]"):
        await vendors(name).provider.complete(HI)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("vertex:claude-sonnet-4-5@20250929", VertexClaudeProvider),
        ("vertex:gemini-2.5-flash", VertexGeminiProvider),
    ],
)
def test_a_models_name_says_whose_it_is(model, kind):
    provider = get_provider(model)
    assert isinstance(provider, kind)
    assert f"vertex:{provider.model}" == model
    assert not getattr(provider, "takes_schema", lambda schema: False)({})
