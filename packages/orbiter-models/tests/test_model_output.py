"""Typed answers at the vendors: their strict modes where they have one, a tool call elsewhere."""

import json
from dataclasses import dataclass, field
from importlib import import_module
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from support.model_wire import Answer
from support.vendor_types import check_request

from orbiter import Agent, run
from orbiter.config import ModelConfig, ModelSettings
from orbiter.models import ModelError, forbid_real_calls
from orbiter.models.anthropic import AnthropicProvider
from orbiter.models.openai import OpenAIProvider

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(default=9, ge=0)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: Annotated[str, Field(max_length=20, pattern="(?i)^a")] | None = None


class Home(BaseModel):
    """Where they live."""

    pet: Annotated[Cat | Dog, Field(discriminator="kind", description="Who lives there.")]
    since: Annotated[str, Field(json_schema_extra={"format": "date"})] = "2020-01-01"
    rooms: list[str] = Field(default=[], max_length=3)


@dataclass
class Tree:
    name: str
    branches: list["Tree"] = field(default_factory=list)


CLOSED = {"model": Home, "int": int, "list": list[Cat], "union": Cat | int, "optional": Cat | None}
OPEN = {"dict": dict[str, int], "any": Any, "tuple": tuple[int, str], "list of any": list[Any]}


async def sent(provider: Any, output_type: Any, settings: ModelSettings | None = None) -> Any:
    """Run once against a recording transport, and return the body that the SDK has sent."""
    found: list[dict[str, Any]] = []
    vendor = "anthropic" if isinstance(provider, AnthropicProvider) else "openai"
    # each SDK takes the clients of its own library
    httpx = import_module({"anthropic": "httpx2", "openai": "httpx"}[vendor])

    def answer(request: Any) -> Any:
        found.append(json.loads(request.content))
        return httpx.Response(400, json={"error": {"message": "enough"}})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        told = ModelSettings(http_client=client)
        told = told if settings is None else settings.merged(told)
        with pytest.raises(ModelError, match="enough"):
            await run(
                Agent(name="a", output_type=output_type), "go", provider=provider, settings=told
            )
    await provider.aclose()
    check_request("responses" if "input" in found[0] else vendor, found[0])
    return found[0]


@pytest.fixture(autouse=True)
def _own_addresses(monkeypatch):
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    # nothing leaves: the transport answers
    forbid_real_calls(False)


def openai(model: str = "gpt-4o", **options: Any) -> OpenAIProvider:
    return OpenAIProvider(ModelConfig(model_name=model, api_key="sk", **options))


def anthropic(model: str = "claude-sonnet-5") -> AnthropicProvider:
    return AnthropicProvider(ModelConfig(provider="anthropic", model_name=model, api_key="sk"))


def objects(schema: Any) -> list[dict[str, Any]]:
    """Return all objects that a schema describes."""
    if isinstance(schema, list):
        return [found for part in schema for found in objects(part)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if schema.get("type") == "object" else []
    return own + [found for part in schema.values() for found in objects(part)]


@pytest.mark.parametrize("output_type", [*CLOSED.values(), Tree], ids=[*CLOSED, "recursive"])
async def test_openai_is_asked_in_its_strict_mode(output_type):
    asked = (await sent(openai(), output_type))["response_format"]["json_schema"]
    assert asked["strict"] is True
    assert asked["schema"]["type"] == "object"
    for one in objects(asked["schema"]):
        assert one["required"] == list(one["properties"])
        assert one["additionalProperties"] is False
    text = json.dumps(asked["schema"])
    for word in ('"oneOf"', '"discriminator"', '"default"', '"maxLength"'):
        assert word not in text


async def test_what_the_strict_mode_cannot_check_is_described():
    schema = (await sent(openai(), Home))["response_format"]["json_schema"]["schema"]
    name = schema["$defs"]["Dog"]["properties"]["name"]["anyOf"][0]
    assert name == {"type": "string", "description": "(maxLength: 20, pattern: (?i)^a)"}
    assert schema["properties"]["since"]["format"] == "date"
    assert schema["properties"]["rooms"]["maxItems"] == 3
    assert schema["$defs"]["Cat"]["properties"]["lives"]["minimum"] == 0


@pytest.mark.parametrize("output_type", OPEN.values(), ids=OPEN)
async def test_what_lists_not_all_there_can_be_is_no_matter_of_strict_modes(output_type):
    asked = (await sent(openai(), output_type))["response_format"]["json_schema"]
    assert "strict" not in asked
    body = await sent(anthropic(), output_type)
    assert [tool["name"] for tool in body["tools"]] == ["final_answer"]
    assert "output_config" not in body


async def test_the_name_of_a_schema_is_one_that_the_api_takes():
    name = (await sent(openai(), dict[str, list[int]]))["response_format"]["json_schema"]["name"]
    assert name.replace("_", "").isalnum()


async def test_a_compatible_server_is_sent_the_schema_as_it_is(vendors):
    vendor = vendors("openai")
    await run(Agent(name="a", output_type=int), "go", provider=vendor.will(Answer(text="5")))
    asked = vendor.server.received[0].body["response_format"]["json_schema"]
    assert "strict" not in asked


@pytest.mark.parametrize("model", ["gpt-4", "gpt-4-turbo", "gpt-3.5-turbo", "gpt-4o-2024-05-13"])
async def test_openais_first_models_answer_by_a_tool_call(model):
    body = await sent(openai(model), Home)
    assert "response_format" not in body
    assert [tool["function"]["name"] for tool in body["tools"]] == ["final_answer"]


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "o3", "gpt-5"])
async def test_openais_others_take_the_schema(model):
    body = await sent(openai(model), Home)
    asked = body["text"]["format"] if "input" in body else body["response_format"]["json_schema"]
    assert (asked["name"], asked["strict"]) == ("Home", True)
    assert asked["schema"]["additionalProperties"] is False
    assert ("input" in body) == (model in ("o3", "gpt-5"))


@pytest.mark.parametrize("output_type", CLOSED.values(), ids=CLOSED)
async def test_claude_is_held_to_the_schema(output_type):
    body = await sent(anthropic(), output_type)
    asked = body["output_config"]["format"]
    assert asked["type"] == "json_schema"
    assert all(one["additionalProperties"] is False for one in objects(asked["schema"]))
    assert "tools" not in body
    assert "system" not in body


async def test_claude_thinks_as_hard_as_it_is_told_beside_it():
    body = await sent(anthropic(), Home, ModelSettings(reasoning_effort="high"))
    assert body["output_config"]["effort"] == "high"
    assert body["output_config"]["format"]["type"] == "json_schema"


async def test_a_schema_that_holds_itself_is_a_tool_of_claudes():
    body = await sent(anthropic(), Tree)
    assert body["tools"][0]["input_schema"]["type"] == "object"


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        ("claude-3-5-sonnet-20241022", False),
        ("claude-sonnet-4-20250514", False),
        ("claude-opus-4-0", False),
        ("claude-opus-4-1-20250805", False),
        ("claude-haiku-4-5", True),
        ("claude-opus-4-6", True),
        ("claude-sonnet-5", True),
        ("my-proxys-model", False),
    ],
)
def test_only_models_that_know_schemas_are_sent_one(model, takes):
    assert anthropic(model).takes_schema(Home.model_json_schema()) is takes


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_by_tool_call_comes_back_whole(vendors, stream):
    made = {"result": [{"kind": "cat", "lives": 7}]}
    provider = vendors("anthropic").will(Answer(calls=(("c1", "final_answer", made),)))
    agent = Agent(name="a", output_type=list[Cat])
    if stream:
        running = run.stream(agent, "go", provider=provider)
        said = [event.text async for event in running if event.type == "text"]
        assert json.loads("".join(said)) == made
        result = running.result
    else:
        result = await run(agent, "go", provider=provider)
    assert result.output == [Cat(kind="cat", lives=7)]
