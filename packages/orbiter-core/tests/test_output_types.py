"""What an output type may be, and what a run makes of a model's answer to it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NewType, Optional, TypeVar

import jsonschema
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from orbiter import Agent, Swarm, run
from orbiter._output import MAX_ANSWER, MAX_PROBLEM, OutputSchema
from orbiter.models import ScriptedModel
from orbiter.runner import OutputValidationError
from orbiter.types import OrbiterError

T = TypeVar("T")


class City(BaseModel):
    name: str


class Page(BaseModel, Generic[T]):
    items: list[T]


class Node(BaseModel):
    children: list["Node"] = []


@dataclass
class Point:
    x: int
    y: int = 0


class Movie(TypedDict):
    title: str


class Color(Enum):
    RED = "red"


class Opaque: ...


UserId = NewType("UserId", int)
RED, PARIS = '"red"', '{"name": "Paris"}'

TYPES = {
    "int": (int, "5", 5),
    "bool": (bool, "true", True),
    "list": (list[str], '["a"]', ["a"]),
    "list of models": (list[City], f"[{PARIS}]", [City(name="Paris")]),
    "tuple": (tuple[int, str], '[1, "a"]', (1, "a")),
    "union": (int | list[str], '["a"]', ["a"]),
    "union of models": (City | Point, '{"x": 1}', Point(1)),
    "optional": (Optional[City], "null", None),  # noqa: UP045
    "literal": (Literal["yes", "no"], '"yes"', "yes"),
    "enum": (Color, RED, Color.RED),
    "annotated": (Annotated[int, Field(ge=3)], "3", 3),
    "new type": (UserId, "7", 7),
    "recursive model": (Node, '{"children": [{}]}', Node(children=[Node()])),
    "set": (set[int], "[1]", {1}),
}
OBJECTS = {
    "model": (City, PARIS, City(name="Paris")),
    "dataclass": (Point, '{"x": 1}', Point(1)),
    "typed dict": (Movie, '{"title": "M"}', {"title": "M"}),
    "generic model": (Page[int], '{"items": [1]}', Page[int](items=[1])),
    "dict": (dict[str, int], '{"a": 1}', {"a": 1}),
}


@pytest.mark.parametrize(("kind", "text", "value"), TYPES.values(), ids=TYPES)
async def test_what_is_no_object_is_wrapped_in_one_field(kind, text, value):
    agent = Agent(name="a", output_type=kind)
    wrapped = f'{{"result": {text}}}'
    assert agent.output_schema["type"] == "object"
    assert list(agent.output_schema["properties"]) == ["result"]
    jsonschema.validate(json.loads(wrapped), agent.output_schema)
    result = await run(agent, "go", provider=ScriptedModel(wrapped))
    assert result.output == value
    assert type(result.output) is type(value)


@pytest.mark.parametrize(("kind", "text", "value"), TYPES.values(), ids=TYPES)
async def test_an_answer_that_forgot_the_wrapping_is_taken(kind, text, value):
    agent = Agent(name="a", output_type=kind)
    assert (await run(agent, "go", provider=ScriptedModel(text))).output == value


@pytest.mark.parametrize(("kind", "text", "value"), OBJECTS.values(), ids=OBJECTS)
async def test_an_object_is_asked_for_as_it_is(kind, text, value):
    agent = Agent(name="a", output_type=kind)
    jsonschema.validate(json.loads(text), agent.output_schema)
    assert "result" not in agent.output_schema.get("properties", {})
    assert (await run(agent, "go", provider=ScriptedModel(text))).output == value


async def test_text_is_what_an_agent_answers_anyhow():
    agent = Agent(name="a", output_type=str)
    assert agent.output_schema is None
    assert (await run(agent, "go", provider=ScriptedModel("hi"))).output == "hi"


async def test_the_model_is_told_what_does_not_fit():
    agent = Agent(name="a", output_type=list[int])
    model = ScriptedModel('{"result": ["x"]}', "[1]")
    assert (await run(agent, "go", provider=model)).output == [1]
    assert "result.0: Input should be a valid integer" in model.requests[1].messages[-1].content


async def test_an_answer_without_end_is_not_read():
    agent = Agent(name="a", output_type=list[int])
    endless = "[" + "1," * MAX_ANSWER
    with pytest.raises(OutputValidationError, match=r"list\[int\]: the answer has 2,097,153 char"):
        await run(agent, "go", provider=ScriptedModel(endless, repeat=True))


def test_what_the_model_is_told_is_bounded():
    with pytest.raises(OrbiterError) as misfit:
        OutputSchema(list[int], "x").parse(json.dumps(["x"] * 1000))
    assert len(str(misfit.value)) <= MAX_PROBLEM + 1


@pytest.mark.parametrize("text", ["[" * 100_000, '{"result": ' * 5000, "\ud800", "9" * 5000, ""])
def test_strange_text_is_a_misfit_like_any_other(text):
    with pytest.raises(OrbiterError):
        OutputSchema(list[City], "x").parse(text)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Callable[[int], int], "Callable"),
        (Opaque, "Opaque"),
        (list["Nowhere"], "Nowhere"),  # noqa: F821
        (5, r"5 \(int\)"),
        ([int], r"\[<class 'int'>\] \(list\)"),
        (lambda: 1, "lambda"),
    ],
    ids=["callable", "class", "unknown name", "number", "list", "function"],
)
def test_a_type_without_a_json_form_is_named_with_what_to_give(kind, told):
    with pytest.raises(OrbiterError, match=rf"^Agent 'a': output_type= got .*{told}.*give the cl"):
        Agent(name="a", output_type=kind)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (City, "City"),
        (list[City], "list[City]"),
        (int | Point, "int | Point"),
        (dict[str, Any], "dict[str, Any]"),
        (Page[int], "Page[int]"),
        (Optional[Literal["a.b"]], "Literal['a.b'] | None"),  # noqa: UP045
    ],
)
def test_errors_name_the_type_as_it_is_written(kind, name):
    assert OutputSchema(kind, "x").name == name


async def test_a_swarm_hands_any_output_on_as_json():
    first = Agent(name="first", output_type=list[int])
    swarm = Swarm(agents=[first, Agent(name="second")], flow="first >> second")
    model = ScriptedModel('{"result": [1, 2]}', "fine")
    assert (await run(swarm, "go", provider=model)).output == "fine"
    assert model.requests[1].messages[-1].content == "[1,2]"
