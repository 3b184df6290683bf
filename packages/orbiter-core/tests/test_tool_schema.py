"""Schemas and arguments of tools, compared with what pydantic itself makes of the same types."""

import inspect
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from orbiter import tool
from orbiter._schema.docstrings import parse_docstring
from orbiter._schema.schema import Signature, ToolArgumentsError


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    number: int = 1


@dataclass
class Point:
    x: int
    y: float = 0.5


# a type, a default of it, and JSON values some of which fit
TYPES: list[tuple[Any, Any]] = [
    (str, "x"),
    (int, 3),
    (float, 0.5),
    (bool, True),
    (list[str], ["a"]),
    (list[int], [1]),
    (dict[str, int], {"a": 1}),
    (list, []),
    (dict, {}),
    (Literal["celsius", "fahrenheit"], "celsius"),
    (Colour, Colour.BLUE),
    (int | None, None),
    (int | str, "x"),
    (Address, Address(street="High St")),
    (list[Address], []),
    (Point, Point(1)),
    (tuple[int, str], (1, "a")),
    (Annotated[int, Field(ge=0, le=10)], 5),
    (Any, None),
]
NAMES = ["city", "unit", "schema", "copy", "json", "model_name", "self_", "class_", "p0", "p1"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 15) | st.floats(-5, 5) | st.sampled_from(
        ["", "a", "1", "celsius", "red"]
    ),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.sampled_from(["street", "number", "x", "y", "a"]), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@st.composite
def functions(draw: st.DrawFn) -> tuple[Any, dict[str, tuple[Any, Any]]]:
    """A function with random parameters, and their types and defaults by name."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
    chosen = {}
    for name in names:
        kind, default = draw(st.sampled_from(TYPES))
        chosen[name] = (kind, default if draw(st.booleans()) else inspect.Parameter.empty)

    def fn(**kwargs):
        return kwargs

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in chosen.items()
    ]
    fn.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    fn.__annotations__ = {name: kind for name, (kind, _) in chosen.items()}
    return fn, chosen


def resolved(schema: Any, defs: dict[str, Any]) -> Any:
    """Put definitions in their places and drop titles, to compare schemas."""
    if isinstance(schema, list):
        return [resolved(item, defs) for item in schema]
    if not isinstance(schema, dict):
        return schema
    defs = {**defs, **schema.get("$defs", {})}
    if "$ref" in schema:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return resolved({**defs[schema["$ref"].rsplit("/", 1)[1]], **rest}, defs)
    return {
        key: {name: resolved(part, defs) for name, part in value.items()}
        if key == "properties"
        else resolved(value, defs)
        for key, value in schema.items()
        if key != "$defs" and not (key == "title" and isinstance(value, str))
    }


@given(functions())
def test_a_schema_says_of_each_parameter_what_pydantic_says_of_its_type(made):
    fn, chosen = made
    schema = resolved(Signature(fn, "fn").parameters, {})
    assert list(schema.get("properties", {})) == list(chosen)
    required = [name for name, (_, default) in chosen.items() if default is inspect._empty]
    assert schema.get("required", []) == required
    for name, (kind, default) in chosen.items():
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        expected = resolved(adapter.json_schema(), {})
        if default is not inspect._empty:
            expected["default"] = adapter.dump_python(default, mode="json")
        assert schema["properties"][name] == expected


@given(functions(), st.data())
def test_arguments_are_accepted_and_converted_as_pydantic_does(made, data):
    fn, chosen = made
    sent = {
        name: data.draw(JSON)
        for name, (_, default) in chosen.items()
        if default is inspect._empty or data.draw(st.booleans())
    }
    expected: dict[str, Any] | None = {}
    for name, (kind, default) in chosen.items():
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        try:
            expected[name] = (
                adapter.validate_json(TypeAdapter(Any).dump_json(sent[name]))
                if name in sent
                else default
            )
        except ValidationError:
            expected = None
            break
    text = TypeAdapter(Any).dump_json(sent).decode()
    if expected is None:
        with pytest.raises(ToolArgumentsError):
            Signature(fn, "fn").parse(text)
    else:
        assert Signature(fn, "fn").parse(text) == expected


def test_models_enums_and_dataclasses_arrive_as_such():
    @tool
    def use(where: Address, colour: Colour, point: Point | None = None) -> str:
        """Use."""
        return ""

    got = use.parse('{"where": {"street": "a"}, "colour": "red", "point": {"x": 1}}')
    assert got == {"where": Address(street="a"), "colour": Colour.RED, "point": Point(1, 0.5)}


def test_a_default_that_is_no_json_is_used_but_not_shown():
    @tool
    def use(where: Any = print) -> str:
        """Use."""
        return ""

    assert "default" not in use.parameters["properties"]["where"]
    assert use.parse("{}") == {"where": print}


def test_a_parameter_without_a_hint_takes_anything():
    @tool
    def use(value) -> str:
        """Use."""
        return ""

    assert use.parse('{"value": [1]}') == {"value": [1]}


def test_a_property_called_title_is_kept():
    @tool
    def file(title: str) -> str:
        """File."""
        return ""

    assert file.parameters["properties"] == {"title": {"type": "string"}}


def test_a_partial_shows_what_is_left():
    def add(a: int, *, b: int) -> int:
        """Add."""
        return a + b

    signature = Signature(partial(add, b=2), "add")
    assert signature.parameters["properties"]["a"] == {"type": "integer"}
    assert signature.parse('{"a": 1}') == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        (None, ("", {})),
        ("Add.", ("Add.", {})),
        ("Add.\n\n    More of it,\n    two lines.", ("Add.\n\nMore of it,\ntwo lines.", {})),
        (
            """Add.

            Args:
                a: The first,
                    on two lines.
                b (int): The second: with a colon.
                *rest: More.

            Returns:
                c: no parameter.
            """,
            (
                "Add.",
                {
                    "a": "The first, on two lines.",
                    "b": "The second: with a colon.",
                    "rest": "More.",
                },
            ),
        ),
        ("Args:\n    a: Only this.", ("", {"a": "Only this."})),
    ],
)
def test_docstrings_are_read_in_google_style(docstring, expected):
    assert parse_docstring(docstring) == expected
