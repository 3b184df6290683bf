"""`@tool` inside a class: as with any function, `self` is whatever it is reached through."""

import sys

import pytest

from orbiter import Agent, run, tool
from orbiter.models import ScriptedModel, call
from orbiter.tool import ToolDefinitionError
from orbiter.types import OrbiterError, RunContext


@tool
async def shared(city: str) -> str:
    """Belong to nobody."""
    return f"shared {city}"


class Weather:
    """Knows a unit."""

    borrowed = shared

    def __init__(self, unit: str) -> None:
        self.unit = unit

    @tool
    async def forecast(self, city: str) -> str:
        """Get the forecast.

        Args:
            city: The city's name.
        """
        return f"{city}: 22 {self.unit}"

    @tool(name="measured")
    def measure(self, city: str, ctx: RunContext[str] | None = None) -> str:
        """Measure."""
        return f"{city}: 21 {self.unit} for {ctx.deps if ctx else 'nobody'}"

    @tool
    def unconventional(this, city: str) -> str:  # noqa: N805
        """Name `self` otherwise."""
        return f"{city} {this.unit}"

    @staticmethod
    @tool
    def static(city: str) -> str:
        """Need nothing."""
        return f"static {city}"

    @tool
    @staticmethod
    def static_too(city: str) -> str:
        """Need nothing."""
        return f"static too {city}"

    @tool
    @classmethod
    def of_class(cls, city: str) -> str:
        """Need the class."""
        return f"{cls.__name__} {city}"

    @tool
    @classmethod
    async def of_class_async(cls, city: str) -> str:
        """Need the class."""
        return f"async {cls.__name__} {city}"


class Better(Weather):
    @tool
    async def forecast(self, city: str) -> str:
        """Get a better forecast."""
        return "better " + await super().forecast(city)


METHODS = {
    "forecast": "Oslo: 22 C",
    "measure": "Oslo: 21 C for ada",
    "unconventional": "Oslo C",
    "static": "static Oslo",
    "static_too": "static too Oslo",
    "of_class": "Weather Oslo",
    "of_class_async": "async Weather Oslo",
    "borrowed": "shared Oslo",
}


async def asked(made, **options) -> str:
    """Let a model call the tool and return what it is told."""
    model = ScriptedModel(call(made.name, city="Oslo"), "done")
    result = await run(Agent(name="a", tools=[made]), "go", provider=model, **options)
    return result.messages[2].content or result.messages[2].error


@pytest.mark.parametrize("name", METHODS)
async def test_reached_through_an_instance_a_method_is_a_tool_of_that_instance(name):
    made = getattr(Weather("C"), name)
    assert list(made.parameters["properties"]) == ["city"]
    assert await asked(made, deps="ada") == METHODS[name]


async def test_two_instances_have_two_tools():
    celsius, kelvin = Weather("C"), Weather("K")
    assert await asked(celsius.forecast) == "Oslo: 22 C"
    assert await asked(kelvin.forecast) == "Oslo: 22 K"


async def test_a_method_keeps_its_name_description_and_parameters():
    made = Weather("C").measure
    assert (made.name, made.description) == ("measured", "Measure.")
    described = Weather("C").forecast.parameters["properties"]["city"]
    assert described == {"type": "string", "description": "The city's name."}


async def test_a_method_can_be_called_as_if_it_were_not_decorated():
    weather = Weather("C")
    assert await weather.forecast("Rome") == "Rome: 22 C"
    assert weather.measure("Rome") == "Rome: 21 C for nobody"
    assert Weather.measure(weather, city="Rome") == "Rome: 21 C for nobody"
    assert Weather.static("Rome") == "static Rome"
    assert Weather.static_too("Rome") == "static too Rome"
    assert Weather.of_class("Rome") == "Weather Rome"


async def test_a_subclass_overrides_and_calls_what_it_inherits():
    assert await asked(Better("C").forecast) == "better Oslo: 22 C"
    assert await asked(Better("C").of_class) == "Better Oslo"
    assert await asked(Better("C").measure, deps="ada") == "Oslo: 21 C for ada"


@pytest.mark.parametrize("name", ["static", "static_too", "of_class", "of_class_async"])
async def test_what_needs_no_instance_is_reached_through_the_class(name):
    assert await asked(getattr(Weather, name)) == METHODS[name]


@pytest.mark.parametrize("name", ["forecast", "measure", "unconventional"])
async def test_a_method_without_its_instance_is_refused_by_the_agent(name):
    with pytest.raises(OrbiterError, match=rf"Weather\(\.\.\.\)\.{name}"):
        Agent(name="a", tools=[getattr(Weather, name)])
    agent = Agent(name="a")
    agent.tools.append(getattr(Weather, name))
    with pytest.raises(OrbiterError, match=rf"Weather\(\.\.\.\)\.{name}"):
        await run(agent, "go", provider=ScriptedModel("never asked"))


def test_a_method_without_self_is_refused_where_it_is_defined():
    # how Python tells errors of __set_name__ differs
    wrapped = RuntimeError if sys.version_info < (3, 12) else ToolDefinitionError
    with pytest.raises(wrapped) as caught:

        class Wrong:
            @tool
            def nothing() -> str:
                """Take nothing."""
                return ""

    told = caught.value.__cause__ or caught.value
    assert "Tool 'nothing': a method needs `self`" in str(told)


async def test_a_class_method_decorated_the_other_way_round_is_bound_or_refused_with_a_sentence():
    class Other:
        @classmethod
        @tool
        def look(cls, city: str) -> str:
            """Look."""
            return f"{cls.__name__} {city}"

    if sys.version_info < (3, 13):
        assert await asked(Other.look) == "Other Oslo"
    else:
        with pytest.raises(OrbiterError, match="@tool above @classmethod"):
            Agent(name="a", tools=[Other.look])
