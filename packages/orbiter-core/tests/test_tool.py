import asyncio
import threading
from contextvars import ContextVar

import pytest
from pydantic import BaseModel

from orbiter import Agent, Tool, run, tool
from orbiter.models import ScriptedModel, call  # pyright: ignore[reportMissingImports]
from orbiter.tool import FunctionTool, ToolArgumentsError, ToolDefinitionError
from orbiter.types import RunContext, ToolExecutionError, ToolResult


@tool
def get_weather(city: str, unit: str = "celsius") -> str:
    """Get current weather for a city.

    Args:
        city: The city name.
        unit: Temperature unit.
    """
    return f"22°C and sunny in {city}"


class DatabaseQuery(Tool):
    name = "query_database"
    description = "Execute a SQL query against the database."

    async def execute(self, sql: str, params: dict | None = None) -> str:
        return f"{sql} with {params}"


async def results_of(tools: list[Tool], *calls, deps=None) -> list[ToolResult]:
    """Let a model make these calls at once and return what it is told."""
    model = ScriptedModel(list(calls), "done")
    result = await run(Agent(name="a", tools=tools), "go", provider=model, deps=deps)
    return [message for message in result.messages if isinstance(message, ToolResult)]


def test_a_decorated_function_tells_its_name_purpose_and_parameters():
    assert isinstance(get_weather, FunctionTool)
    assert get_weather.to_schema() == {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get current weather for a city.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "The city name."},
                    "unit": {
                        "type": "string",
                        "default": "celsius",
                        "description": "Temperature unit.",
                    },
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }


def test_a_decorated_function_can_still_be_called():
    assert get_weather("Tokyo") == "22°C and sunny in Tokyo"


def test_name_and_description_can_be_overridden():
    @tool(name="override", description="Something else.")
    def original() -> str:
        """Doc."""
        return ""

    assert (original.name, original.description) == ("override", "Something else.")


def test_a_subclass_gets_its_schema_from_execute():
    schema = DatabaseQuery().to_schema()["function"]
    assert schema["name"] == "query_database"
    assert schema["description"] == "Execute a SQL query against the database."
    assert schema["parameters"]["required"] == ["sql"]
    assert list(schema["parameters"]["properties"]) == ["sql", "params"]


def test_a_subclass_without_a_description_is_described_by_its_docstring():
    class Clock(Tool):
        """Tell the time."""

        async def execute(self) -> str:
            return "12:00"

    assert (Clock().name, Clock().description) == ("Clock", "Tell the time.")


async def test_a_subclass_runs_with_the_models_arguments():
    [result] = await results_of([DatabaseQuery()], call("query_database", sql="SELECT 1"))
    assert result.content == "SELECT 1 with None"


async def test_a_sync_function_runs_in_a_thread_with_the_callers_context_variables():
    user: ContextVar[str] = ContextVar("user", default="nobody")
    user.set("ada")

    @tool
    def whoami() -> str:
        """Say who asks."""
        return f"{user.get()}, main thread: {threading.current_thread() is main}"

    main = threading.current_thread()
    assert await whoami.execute() == "ada, main thread: False"


async def test_an_async_function_runs_on_the_event_loop():
    @tool
    async def same_loop() -> bool:
        """Say where it runs."""
        return asyncio.get_running_loop() is loop

    loop = asyncio.get_running_loop()
    assert await same_loop.execute() == "true"


async def test_a_callable_object_and_a_bound_method_are_tools_too():
    class Counter:
        count = 0

        async def __call__(self, by: int) -> int:
            """Count."""
            self.count += by
            return self.count

        def reset(self) -> str:
            """Start over."""
            self.count = 0
            return "reset"

    counter = Counter()
    count = tool(name="count")(counter)
    reset = tool(counter.reset)
    assert await count.execute(by=2) == "2"
    assert await reset.execute() == "reset"
    assert counter.count == 0
    assert list(count.parameters["properties"]) == ["by"]


class Point(BaseModel):
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (5, "5"),
        (None, "null"),
        (True, "true"),
        (["a", "b"], '["a","b"]'),
        ({"a": 1}, '{"a":1}'),
        (Point(x=1, y=2), '{"x":1,"y":2}'),
        ([Point(x=1, y=2)], '[{"x":1,"y":2}]'),
        (object, "\"<class 'object'>\""),
    ],
)
async def test_any_value_becomes_text_for_the_model(value, text):
    @tool
    async def give():
        """Give."""
        return value

    [result] = await results_of([give], call("give"))
    assert (result.content, result.error) == (text, None)


async def test_execute_gives_text_or_a_dict():
    @tool
    async def number() -> int:
        """Give."""
        return 5

    @tool
    async def mapping() -> dict[str, int]:
        """Give."""
        return {"a": 1}

    assert await number.execute() == "5"
    assert await mapping.execute() == {"a": 1}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"city": ', "not valid JSON"),
        ("5", "give a JSON object"),
        ("[]", "city: is required"),
        ("{}", "city: is required"),
        ('{"city": ["a"]}', "city: Input should be a valid string"),
        ('{"city": "a", "planet": "Mars"}', "planet: is no parameter"),
    ],
)
async def test_arguments_that_do_not_fit_become_an_error_the_model_sees(arguments, problem):
    bad = call("get_weather").model_copy(update={"arguments": arguments})
    [result] = await results_of([get_weather], bad)
    assert result.error is not None
    assert result.error.startswith("Tool 'get_weather' was not called, arguments: ")
    assert problem in result.error
    with pytest.raises(ToolArgumentsError):
        get_weather.parse(arguments)


async def test_no_arguments_at_all_are_an_empty_object():
    @tool
    async def ping() -> str:
        """Answer."""
        return "pong"

    [result] = await results_of([ping], call("ping").model_copy(update={"arguments": ""}))
    assert result.content == "pong"


async def test_an_unknown_tool_becomes_an_error_that_lists_the_known_ones():
    [result] = await results_of([get_weather], call("get_whether", city="Oslo"))
    assert result.error == "There is no tool 'get_whether'; the tools are: get_weather"


async def test_a_raising_tool_becomes_an_error_and_its_sisters_go_on():
    finished = []

    @tool
    async def broken() -> str:
        """Fail."""
        raise ValueError("no such city")

    @tool
    async def slow() -> str:
        """Take a moment."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        finished.append("slow")
        return "fine"

    results = await results_of([broken, slow], call("broken"), call("slow"))
    assert [r.error for r in results] == ["Tool 'broken' failed: no such city", None]
    assert finished == ["slow"]


async def test_a_tool_that_cancels_itself_does_not_end_the_run():
    @tool
    async def gives_up() -> str:
        """Give up."""
        raise asyncio.CancelledError

    [result] = await results_of([gives_up], call("gives_up"))
    assert result.error == "Tool 'gives_up' failed: cancelled"


async def test_called_directly_a_tool_raises_with_its_cause():
    @tool
    def broken() -> str:
        """Fail."""
        raise ValueError("no such city")

    with pytest.raises(ToolExecutionError, match="Tool 'broken' failed") as caught:
        await broken.execute()
    assert isinstance(caught.value.__cause__, ValueError)


async def test_several_calls_of_one_step_run_at_the_same_time():
    meet = asyncio.Barrier(3)

    @tool
    async def wait(name: str) -> str:
        """Wait for the others."""
        await meet.wait()
        return name

    results = await results_of([wait], *(call("wait", name=n) for n in "abc"))
    assert [result.content for result in results] == ["a", "b", "c"]


async def test_the_run_context_is_given_and_not_shown():
    @tool
    async def whoami(question: str, run_context: RunContext[str]) -> str:
        """Say who asks."""
        return f"{run_context.deps} asks {run_context.agent_name}: {question}"

    class Whoami(Tool):
        name = "whoami_too"

        async def execute(self, where: RunContext) -> str:
            """Say who asks."""
            return f"{where.input} {len(where.messages)}"

    assert list(whoami.parameters["properties"]) == ["question"]
    results = await results_of(
        [whoami, Whoami()], call("whoami", question="who?"), call("whoami_too"), deps="ada"
    )
    assert [result.content for result in results] == ["ada asks a: who?", "go 2"]


def test_a_tool_with_positional_parameters_is_refused_where_it_is_defined():
    with pytest.raises(ToolDefinitionError, match="Tool 'many': parameter 'numbers'"):

        @tool
        def many(*numbers: int) -> int:
            """Add."""
            return sum(numbers)


def test_a_parameter_without_a_json_form_is_refused_where_it_is_defined():
    class Handle:
        pass

    with pytest.raises(ToolDefinitionError, match="Tool 'use': a parameter's type has no JSON"):

        @tool
        def use(handle: Handle) -> str:
            """Use."""
            return ""


def test_a_subclass_with_a_sync_execute_is_refused_where_it_is_defined():
    with pytest.raises(ToolDefinitionError, match="Tool 'Slow': write `async def execute`"):

        class Slow(Tool):
            def execute(self) -> str:
                return ""


async def test_a_tool_may_bring_a_schema_of_its_own():
    class Remote(Tool):
        def __init__(self, name: str, parameters: dict) -> None:
            self.name = name
            self.parameters = parameters

        async def execute(self, **arguments) -> dict:
            return arguments

    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    remote = Remote("forecast", schema)
    assert remote.to_schema()["function"]["parameters"] is schema
    [result] = await results_of([remote], call("forecast", city="Oslo"))
    assert result.content == '{"city":"Oslo"}'


async def test_keyword_arguments_take_whatever_the_model_sends():
    @tool
    async def tag(name: str, **labels: str) -> str:
        """Tag."""
        return f"{name} {labels}"

    [result] = await results_of([tag], call("tag", name="x", colour="red"))
    assert result.content == "x {'colour': 'red'}"


def test_annotations_that_are_text_are_found_where_the_tool_is_written():
    class Local(BaseModel):
        x: int

    @tool
    def use(point: "Local") -> str:
        """Use."""
        return str(point.x)

    assert use.parse('{"point": {"x": 1}}') == {"point": Local(x=1)}
