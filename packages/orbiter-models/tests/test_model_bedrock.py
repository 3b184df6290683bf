"""Claude on Bedrock by Anthropic's SDK: addresses, signatures and frames as botocore has them."""

import sys
from types import SimpleNamespace

import pytest
from support.bedrock_wire import check_operation, check_signature, service
from support.model_wire import Answer, Refusal

from orbiter import Agent, run, tool
from orbiter.config import ModelConfig, ModelSettings
from orbiter.models import ModelError, get_provider
from orbiter.models._internal.failures import status_of
from orbiter.models.bedrock import BedrockProvider
from orbiter.parts import TextPart, ThinkingPart, ToolCallPart
from orbiter.types import Usage, UserMessage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

HI = [UserMessage(content="hi")]
MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
ARN = "arn:aws:bedrock:eu-central-1:1234:application-inference-profile/abc"
KEY, SECRET, REGION = "AKIDEXAMPLE", "wJalr+secret/key", "eu-central-1"


@tool
async def get_weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path):
    from anthropic.lib.aws import _auth

    # the SDK keeps its sessions for the whole process
    _auth._get_session.cache_clear()
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "ANTHROPIC_BEDROCK_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-anthropic")


def signing(vendor, model=MODEL):
    """Return a provider that has AWS credentials and no key."""
    config = ModelConfig(
        provider="bedrock", model_name=model, base_url=vendor.server.url, max_retries=0
    )
    return BedrockProvider(config)


async def asked(vendor, *answers, stream=False, provider=None, **options):
    provider = provider or vendor.provider
    vendor.will(*answers)
    agent = Agent(name="a", instructions="Be brief.", tools=[get_weather], temperature=0.5)
    if not stream:
        return await run(agent, "hi", provider=provider, **options)
    events = run.stream(agent, "hi", provider=provider, **options)
    async for _ in events:
        pass
    return events.result


TALK = (
    Answer(
        thinking="Oslo, so",
        text="Let me look.",
        calls=(("c1", "get_weather", {"city": "Oslo"}),),
        input_tokens=50,
        output_tokens=20,
    ),
    Answer(text="Sunny.", input_tokens=120, output_tokens=6, cached_tokens=40),
)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", [MODEL, ARN])
async def test_requests_are_signed_and_are_the_services_operations(vendors, model, stream):
    vendor = vendors("bedrock")
    provider = signing(vendor, model)
    settings = ModelSettings(thinking_budget=2000)
    result = await asked(vendor, *TALK, stream=stream, provider=provider, settings=settings)
    await provider.aclose()
    assert (result.output, result.steps) == ("Sunny.", 2)
    assert result.usage == Usage(
        input_tokens=170, output_tokens=26, total_tokens=196, cached_tokens=40
    )
    signature = TALK[0].signature
    assert result.messages[1].parts == (
        ThinkingPart(text="Oslo, so", signature=signature, vendor="anthropic"),
        TextPart(text="Let me look."),
        ToolCallPart(index=0),
    )
    assert len(vendor.server.received) == 2
    for request in vendor.server.received:
        check_signature(request, vendor.server.url, key=KEY, secret=SECRET, region=REGION)
        check_operation(request, model, stream=stream)
        assert "sk-anthropic" not in str(request.headers)
    thought = vendor.server.received[1].body["messages"][1]["content"][0]
    assert thought == {"type": "thinking", "thinking": "Oslo, so", "signature": signature}


async def test_a_changed_request_has_another_signature(vendors):
    vendor = vendors("bedrock")
    provider = signing(vendor)
    vendor.will(Answer(text="x"))
    await provider.complete(HI)
    await provider.aclose()
    [request] = vendor.server.received
    changed = SimpleNamespace(**{**vars(request), "raw": request.raw + b" "})
    with pytest.raises(AssertionError):
        check_signature(changed, vendor.server.url, key=KEY, secret=SECRET, region=REGION)


async def test_a_key_of_bedrocks_goes_before_credentials(vendors):
    vendor = vendors("bedrock")
    await asked(vendor, Answer(text="ok"))
    [request] = vendor.server.received
    assert request.headers["authorization"] == "Bearer sk-test"
    assert request.path == "/model/test-model/invoke"
    assert request.body["temperature"] == 0.5


async def test_a_body_of_ones_own_may_name_another_version(vendors):
    vendor = vendors("bedrock")
    provider = signing(vendor)
    vendor.will(Answer(text="x"), Answer(text="y"))
    newer = ModelSettings(extra_body={"anthropic_version": "2026-10-21"})
    await provider.complete(HI, settings=newer)
    await provider.complete(HI)
    await provider.aclose()
    sent = [request.body["anthropic_version"] for request in vendor.server.received]
    assert sent == ["2026-10-21", "bedrock-2023-05-31"]
    # the fixture holds requests against the version that the service documents
    vendor.server.received.pop(0)


async def test_a_typed_answer_is_a_tool_call(vendors):
    vendor = vendors("bedrock")
    made = Answer(calls=(("c1", "final_answer", {"result": 5}),))
    result = await run(Agent(name="a", output_type=int), "hi", provider=vendor.will(made))
    assert result.output == 5
    assert "output_config" not in vendor.server.received[0].body
    assert not BedrockProvider(ModelConfig(model_name=MODEL)).takes_schema({})


@pytest.mark.parametrize(
    ("kind", "status", "retryable"),
    [
        ("overloaded_error", 429, True),
        ("api_error", 500, True),
        ("invalid_request_error", 400, False),
    ],
)
async def test_an_exception_in_a_stream_says_what_it_is(vendors, kind, status, retryable):
    vendor = vendors("bedrock")
    with pytest.raises(ModelError, match="not now") as caught:
        await asked(vendor, Answer(error=kind), stream=True)
    assert (caught.value.status, caught.value.retryable) == (status, retryable)


def test_every_exception_of_the_service_model_has_its_status():
    members = service().shape_for("ResponseStream").members
    exceptions = {name: shape for name, shape in members.items() if shape.metadata.get("exception")}
    assert len(exceptions) >= 5
    for name, shape in exceptions.items():
        failure = SimpleNamespace(status_code=200, body={"error": {"type": name}})
        assert status_of(failure) == shape.metadata["error"]["httpStatusCode"], name


@pytest.mark.parametrize("stream", [False, True])
async def test_a_throttled_call_is_made_again_and_an_error_names_its_request(vendors, stream):
    vendor = vendors("bedrock")
    result = await asked(vendor, Refusal(429), Answer(text="at last"), stream=stream)
    assert (result.output, vendor.pauses) == ("at last", [0.5])
    refusal = Refusal(403, "not yours", headers={"x-amzn-requestid": "aws-7"})
    with pytest.raises(ModelError, match=r"bedrock answered 403: .*not yours.*request") as caught:
        await asked(vendor, refusal, stream=stream)
    assert caught.value.provider == "bedrock"


async def test_a_stream_that_breaks_off_is_an_error(vendors):
    with pytest.raises(ModelError, match="test-model"):
        await asked(vendors("bedrock"), Answer(text="Once upon", breaks_off=True), stream=True)


async def test_a_region_may_be_a_profiles(vendors, monkeypatch, tmp_path):
    monkeypatch.delenv("AWS_REGION")
    (tmp_path / "config").write_text("[profile acme]\nregion = eu-north-1\n")
    (tmp_path / "credentials").write_text(
        "[acme]\naws_access_key_id = AKIDACME\naws_secret_access_key = other\n"
    )
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_PROFILE", "acme")
    vendor = vendors("bedrock")
    provider = signing(vendor)
    vendor.will(Answer(text="x"))
    await provider.complete(HI)
    await provider.aclose()
    given = {"key": "AKIDACME", "secret": "other", "region": "eu-north-1"}
    check_signature(vendor.server.received[0], vendor.server.url, **given)


@pytest.mark.parametrize(
    ("without", "environment", "told"),
    [
        (["AWS_REGION"], {}, "no region: set AWS_REGION"),
        (["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"], {}, "no credentials of AWS: set AWS_"),
        ([], {"AWS_PROFILE": "nobody"}, "bedrock: .*nobody.*; set AWS_ACCESS_KEY_ID"),
    ],
)
async def test_what_is_missing_is_named(vendors, monkeypatch, without, environment, told):
    for name in without:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    vendor = vendors("bedrock")
    with pytest.raises(ModelError, match=told) as caught:
        await signing(vendor).complete(HI)
    assert not caught.value.retryable
    assert vendor.server.received == []


async def test_an_sdk_that_is_missing_is_named_with_its_extra(vendors, monkeypatch):
    vendor = vendors("bedrock")
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(
        ModelError, match=r"boto3 SDK is not installed: .*orbiter-models\[bedrock\]"
    ):
        await signing(vendor).complete(HI)


def test_a_model_string_names_it():
    provider = get_provider(f"bedrock:{MODEL}")
    assert isinstance(provider, BedrockProvider)
    assert provider.model == MODEL
