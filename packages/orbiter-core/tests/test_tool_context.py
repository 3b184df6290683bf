"""The run's context belongs to the run: in every form of annotation, and never from the model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NewType, Optional, TypeVar, Union

import pytest
from pydantic import BaseModel, WithJsonSchema
from typing_extensions import TypeAliasType, TypedDict

from orbiter import Agent, Tool, run, tool
from orbiter.models import ScriptedModel, call
from orbiter.tool import ToolArgumentsError, ToolDefinitionError
from orbiter.types import RunContext

if TYPE_CHECKING:
    from somewhere import UnseenDeps

    import orbiter.types as unseen_module


class User(BaseModel):
    name: str


class Special(RunContext[User]):
    pass


Alias = RunContext[User] | None
Distinct = NewType("Distinct", RunContext)
Lazy = TypeAliasType("Lazy", RunContext[User])
AnyContext = TypeVar("AnyContext", bound=RunContext)
FORGED = {"agent_name": "x", "input": "", "messages": [], "context": None, "deps": {"name": "Eve"}}

FORMS: list[Any] = [
    RunContext,
    RunContext[User],
    RunContext[User] | None,
    Optional[RunContext[User]],  # noqa: UP045 - the form is what is tested
    Union[RunContext, str],  # noqa: UP007
    None | RunContext,
    Annotated[RunContext, "note"],
    Annotated[RunContext[User], "note"] | None,
    Special,
    Special | None,
    Alias,
    Distinct,
    Distinct | None,
    Lazy,
    Lazy | None,
    AnyContext,
    "RunContext",
    "RunContext[User] | None",
    "Optional[RunContext[User]]",
    "Optional['RunContext[User]']",
    "orbiter.types.RunContext",
    "RunContext[UnseenDeps]",
    "RunContext[UnseenDeps] | None",
    "Optional[RunContext[UnseenDeps]]",
    "Annotated[RunContext[UnseenDeps], UnseenDeps]",
    "unseen_module.RunContext[UnseenDeps] | None",
]


def annotated(form: Any, **of_parameter: Any) -> Any:
    """Write a tool's function whose second parameter has this annotation."""
    if of_parameter.get("keyword_only"):

        def look_up(city: str, *, ctx=None) -> str:
            return f"{city} for {ctx.deps.name}"

    elif of_parameter.get("default"):

        def look_up(city: str, ctx=None) -> str:
            return f"{city} for {ctx.deps.name}"

    else:

        def look_up(city: str, ctx) -> str:
            return f"{city} for {ctx.deps.name}"

    look_up.__annotations__["ctx"] = form
    return look_up


@pytest.mark.parametrize("shape", ["plain", "default", "keyword_only"])
@pytest.mark.parametrize("form", FORMS, ids=str)
async def test_the_context_is_the_runs_in_whatever_form_it_is_written(form, shape):
    made = tool(annotated(form, **{shape: True}))
    assert list(made.parameters["properties"]) == ["city"]
    model = ScriptedModel(
        call("look_up", city="Oslo"), call("look_up", city="Rome", ctx=FORGED), "done"
    )
    agent = Agent(name="a", tools=[made])
    result = await run(agent, "go", provider=model, deps=User(name="Ada"))
    assert result.messages[2].content == "Oslo for Ada"
    assert "ctx: is no parameter" in result.messages[4].error


async def test_a_name_that_only_type_checkers_import_is_known_by_its_word():
    @tool
    def look_up(city: str, ctx: unseen_module.RunContext[UnseenDeps] | None = None) -> UnseenDeps:
        return f"{city} for {ctx.deps.name}"

    model = ScriptedModel(call("look_up", city="Oslo"), "done")
    agent = Agent(name="a", tools=[look_up])
    result = await run(agent, "go", provider=model, deps=User(name="Ada"))
    assert result.messages[2].content == "Oslo for Ada"


async def test_a_tool_subclass_has_the_same_rules():
    class LookUp(Tool):
        async def execute(self, city: str, ctx: RunContext[User] | None = None) -> str:
            return f"{city} for {ctx.deps.name}"

    assert LookUp().context_parameter == "ctx"
    assert list(LookUp().parameters["properties"]) == ["city"]


def test_a_callable_whose_annotations_stand_elsewhere_has_the_same_rules():
    class Maker:
        def __init__(self, city: str, ctx: RunContext[User] | None = None) -> None: ...

    class Object:
        def __call__(self, city: str, ctx: RunContext[User] | None = None) -> str:
            return city

    def plain(city: str, unit: str, ctx: RunContext[User] | None = None) -> str:
        return city

    for made in (tool(Maker), tool(name="o")(Object()), tool(name="p")(partial(plain, unit="c"))):
        assert made.context_parameter == "ctx"
        assert "ctx" not in made.parameters["properties"]


def test_arguments_of_any_name_leave_the_contexts_name_to_the_run():
    @tool
    def note(ctx: RunContext, **rest: Any) -> str:
        return str(rest)

    with pytest.raises(ToolArgumentsError, match="ctx: is no parameter"):
        note.parse('{"ctx": {"deps": 1}, "other": 2}')
    assert note.parse('{"other": 2}') == {"other": 2}


class Holder(BaseModel):
    ctx: RunContext[User] | None = None


@dataclass
class Nested:
    inner: list[Holder]


class Keyed(TypedDict):
    ctx: RunContext


@pytest.mark.parametrize(
    "form",
    [
        list[RunContext],
        list[RunContext | str],
        dict[str, RunContext[User]],
        tuple[RunContext, ...] | None,
        list[RunContext] | None,
        Annotated[list[RunContext], "note"],
        Holder,
        Holder | None,
        list[Nested],
        Keyed,
        Annotated[Holder, WithJsonSchema({"type": "object"})],
        type[RunContext],
    ],
    ids=str,
)
def test_a_context_inside_something_else_is_refused_where_it_is_defined(form):
    with pytest.raises(ToolDefinitionError, match=r"Tool 'look_up': .*RunContext.* of its own"):
        tool(annotated(form, default=True))


def test_several_contexts_at_once_are_refused_where_they_are_defined():
    def many(*contexts: RunContext) -> str:
        return ""

    def named(**contexts: RunContext) -> str:
        return ""

    def positional(ctx: RunContext, /) -> str:
        return ""

    def twice(one: RunContext, two: RunContext | None = None) -> str:
        return ""

    for wrong, parameter in ((many, "contexts"), (named, "contexts"), (positional, "ctx")):
        with pytest.raises(ToolDefinitionError, match=f"'{parameter}'.*one RunContext.* by name"):
            tool(wrong)
    with pytest.raises(ToolDefinitionError, match=r"'one' and 'two'.*keep one"):
        tool(twice)


@pytest.mark.parametrize(
    "form", ["Renamed", "Renamed[User] | None", "list[UnseenDeps]", "RunContext[", "User.nothing"]
)
def test_an_annotation_that_cannot_be_resolved_is_refused_where_it_is_defined(form):
    with pytest.raises(ToolDefinitionError, match=r"'look_up'.*'ctx'.*cannot be resolved"):
        tool(annotated(form, default=True))
