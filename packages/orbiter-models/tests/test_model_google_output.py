"""Typed answers of Gemini: by its strict mode where no tools are, by a tool call elsewhere."""

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from support.google_wire import camel
from support.model_wire import Answer

from orbiter import Agent, run, tool
from orbiter.config import ModelConfig, ModelSettings
from orbiter.models import ScriptedModel
from orbiter.models.google import GoogleProvider
from orbiter.types import UserMessage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

GEMINI = "gemini-2.5-flash"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(default=9, gt=0)
    mood: Literal["calm", None] = None


class Home(BaseModel):
    """Where they live."""

    pet: Annotated[Cat, Field(description="Who lives there.")]
    since: Annotated[str, Field(pattern="^2", json_schema_extra={"format": "date"})] = "2020-01-01"
    rooms: list[str] = Field(default=[], max_length=3)


@dataclass
class Tree:
    name: str
    branches: list["Tree"] = field(default_factory=list)


@tool
async def look(place: str) -> str:
    """Look somewhere.

    Args:
        place: Where.
    """
    return f"a cat in {place}"


@tool
async def final_answer() -> str:
    """Have a name that others want."""
    return "42"


HOME: dict[str, Any] = {"pet": {"kind": "cat", "lives": 7}}


@pytest.fixture(params=["google", "vertex-gemini"])
def gemini(request, vendors, tmp_path, monkeypatch):
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "acme")
    vendor = vendors(request.param)
    vendor.provider.model = GEMINI
    return vendor


async def asked(vendor, agent, *answers, stream=False, **options):
    provider = vendor.will(*answers)
    if not stream:
        return await run(agent, "go", provider=provider, **options)
    events = run.stream(agent, "go", provider=provider, **options)
    said = [event async for event in events]
    text = "".join(event.text for event in said if event.type == "text")
    assert agent.expected.parse(text) == events.result.output
    assert "final_answer" not in {e.tool_name for e in said if e.type == "tool_call"}
    return events.result


def generation(vendor):
    return vendor.server.received[0].body.get("generationConfig", {})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("output_type", "said", "output"),
    [
        (Home, HOME, Home.model_validate(HOME)),
        (int, {"result": 5}, 5),
        (list[Cat], {"result": [HOME["pet"]]}, [Cat(kind="cat", lives=7)]),
        (Cat | int, {"result": 5}, 5),
    ],
    ids=["model", "int", "list", "union"],
)
async def test_gemini_is_held_to_the_schema_where_no_tools_are(
    gemini, output_type, said, output, stream
):
    agent = Agent(name="a", output_type=output_type)
    result = await asked(gemini, agent, Answer(text=json.dumps(said)), stream=stream)
    assert result.output == output
    sent = generation(gemini)
    assert sent["responseMimeType"] == "application/json"
    assert sent["responseJsonSchema"]["type"] == "object"
    body = gemini.server.received[0].body
    assert "tools" not in body
    assert "systemInstruction" not in body


async def test_what_its_strict_mode_cannot_check_is_described(gemini):
    await asked(gemini, Agent(name="a", output_type=Home), Answer(text=json.dumps(HOME)))
    schema = generation(gemini)["responseJsonSchema"]
    assert schema["description"] == "Where they live."
    assert schema["required"] == ["pet"]
    assert schema["properties"] == {
        "pet": {"anyOf": [{"$ref": "#/$defs/Cat"}], "description": "Who lives there."},
        "since": {
            "type": "string", "title": "Since", "format": "date",
            "description": "(default: 2020-01-01, pattern: ^2)",
        },
        "rooms": {
            "type": "array", "title": "Rooms", "items": {"type": "string"}, "maxItems": 3,
            "description": "(default: [])",
        },
    }  # fmt: skip
    cat = schema["$defs"]["Cat"]["properties"]
    assert cat["kind"] == {"type": "string", "title": "Kind", "enum": ["cat"]}
    assert cat["lives"]["description"] == "(default: 9, exclusiveMinimum: 0)"
    assert cat["mood"]["anyOf"] == [{"type": "string", "enum": ["calm"]}, {"type": "null"}]


@pytest.mark.parametrize("stream", [False, True])
async def test_beside_tools_the_answer_is_a_tool_call(gemini, stream):
    agent = Agent(name="a", instructions="Be brief.", tools=[look], output_type=Home)
    result = await asked(
        gemini,
        agent,
        Answer(calls=(("", "look", {"place": "Oslo"}),)),
        Answer(thinking="A cat.", calls=(("", "final_answer", HOME),)),
        stream=stream,
    )
    assert result.output == Home.model_validate(HOME)
    assert result.stop_reason == "completed"
    assert json.loads(result.messages[-2].tool_calls[0].arguments) == HOME
    assert result.messages[-1].content == "This is the final answer."
    for request in gemini.server.received:
        [functions] = request.body["tools"]
        names = [one["name"] for one in functions["functionDeclarations"]]
        assert names == ["look", "final_answer"]
        assert not request.body.get("generationConfig")
        [told] = request.body["systemInstruction"]["parts"]
        assert told["text"].startswith("Be brief.\n\nGive your final answer by calling the tool `")
    # what was said goes on in a conversation, anywhere
    await asked(gemini, agent, Answer(text=json.dumps(HOME)), messages=result.messages)
    await run(agent, "on", provider=ScriptedModel(json.dumps(HOME)), messages=result.messages)


async def test_an_answer_that_does_not_fit_is_asked_for_again(gemini):
    agent = Agent(name="a", tools=[look], output_type=int)
    answers = [Answer(calls=(("", "final_answer", {"result": said}),)) for said in ("x", 5)]
    result = await asked(gemini, agent, *answers)
    assert (result.output, result.steps) == (5, 2)


async def test_calls_beside_an_answer_are_not_made_as_with_any_model(gemini):
    agent = Agent(name="a", tools=[look], output_type=int)
    both = (("", "final_answer", {"result": 1}), ("", "look", {"place": "Rome"}))
    result = await asked(gemini, agent, Answer(calls=both))
    assert (result.output, result.steps) == (1, 1)
    [beside] = [m for m in result.messages if m.role == "tool" and m.tool_name == "look"]
    assert "the final answer came with it" in beside.error


async def test_the_answers_tool_is_called_like_no_other(gemini):
    agent = Agent(name="a", tools=[final_answer], output_type=int)
    result = await asked(
        gemini,
        agent,
        Answer(calls=(("", "final_answer", {}),)),
        Answer(calls=(("", "final_answer_", {"result": 42}),)),
    )
    assert (result.output, result.messages[2].content) == (42, "42")


@pytest.mark.parametrize(
    ("choice", "mode", "names"),
    [
        ("required", "ANY", ["look"]),
        ("look", "ANY", ["look"]),
        ("none", None, ["final_answer"]),
        ("auto", "AUTO", ["look", "final_answer"]),
    ],
)
async def test_a_choice_of_tools_is_one_of_the_agents_own(gemini, choice, mode, names):
    settings = ModelSettings(tool_choice=choice)
    agent = Agent(name="a", tools=[look], output_type=int)
    await asked(gemini, agent, Answer(text='{"result": 2}'), settings=settings)
    body = gemini.server.received[0].body
    chosen = camel(body.get("toolConfig", {})).get("functionCallingConfig", {})
    declared = [one["name"] for one in body["tools"][0]["functionDeclarations"]]
    assert (chosen.get("mode"), chosen.get("allowedFunctionNames", declared)) == (mode, names)


@pytest.mark.parametrize("output_type", [Tree, dict[str, int], Any], ids=["tree", "dict", "any"])
async def test_what_the_strict_mode_cannot_express_is_a_tool_call(gemini, output_type):
    agent = Agent(name="a", output_type=output_type)
    said = {"name": "x"} if output_type is Tree else {"result": {"a": 1}}
    said = {"a": 1} if output_type == dict[str, int] else said
    result = await asked(gemini, agent, Answer(calls=(("", "final_answer", said),)))
    assert result.output in (Tree("x"), {"a": 1})
    assert not generation(gemini)


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        ("gemini-2.5-pro", True),
        ("gemini-3-pro-preview", True),
        ("gemini-1.5-flash", False),
        ("my-proxys-model", False),
    ],
)
def test_only_models_that_know_schemas_are_sent_one(model, takes):
    provider = GoogleProvider(ModelConfig(provider="google", model_name=model, api_key="k"))
    assert provider.takes_schema(Home.model_json_schema()) is takes


async def test_models_that_know_neither_are_told_in_their_prompt(vendors):
    config = ModelConfig(
        provider="google",
        model_name="gemma-3-27b-it",
        api_key="k",
        base_url=(vendor := vendors("google")).server.url,
    )
    vendor.will(Answer(text='{"result": 5}'))
    provider = GoogleProvider(config)
    result = await run(Agent(name="a", output_type=int), "go", provider=provider)
    await provider.aclose()
    assert result.output == 5
    body = vendor.server.received[0].body
    assert "tools" not in body
    assert '"result"' in body["systemInstruction"]["parts"][0]["text"]


async def test_a_schema_and_tools_may_come_from_anybody(gemini):
    gemini.will(Answer(text="{}"))
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    reply = await gemini.provider.complete([UserMessage(content="x")], output_schema=schema)
    assert reply.content == "{}"
    assert generation(gemini)["responseJsonSchema"]["properties"] == schema["properties"]
