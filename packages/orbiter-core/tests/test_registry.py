import pytest

from orbiter import Agent, tool
from orbiter.registry import Registry, RegistryError, agent_registry, tool_registry
from orbiter.types import OrbiterError


@pytest.fixture
def colours() -> Registry[str]:
    registry: Registry[str] = Registry("colour")
    registry.register("red", "#f00")
    return registry


def test_an_item_is_found_by_its_name(colours):
    assert colours.get("red") == "#f00"
    assert "red" in colours
    assert "blue" not in colours


def test_an_unknown_name_is_told_with_the_known_ones(colours):
    colours.register("blue", "#00f")
    with pytest.raises(RegistryError, match="unknown colour 'green'; known: blue, red"):
        colours.get("green")


def test_an_empty_registry_says_that_it_is_empty():
    with pytest.raises(OrbiterError, match="unknown colour 'red'; known: none yet"):
        Registry("colour").get("red")


def test_a_name_is_taken_once(colours):
    with pytest.raises(RegistryError, match="colour 'red' is already registered"):
        colours.register("red", "#e00")


def test_registering_the_same_item_again_changes_nothing(colours):
    colours.register("red", "#f00")
    assert colours.names() == ["red"]


def test_register_decorates_a_class():
    shapes: Registry[type] = Registry("shape")

    @shapes.register("square")
    class Square:
        pass

    assert shapes.get("square") is Square


def test_an_unregistered_name_is_free_again(colours):
    colours.unregister("red")
    colours.register("red", "#e00")
    assert colours.get("red") == "#e00"


def test_unregistering_an_unknown_name_fails(colours):
    with pytest.raises(RegistryError, match="unknown colour 'green'"):
        colours.unregister("green")


def test_names_are_told_in_order_of_registration(colours):
    colours.register("blue", "#00f")
    assert (list(colours), len(colours)) == (["red", "blue"], 2)


def test_agents_and_tools_have_a_registry_each():
    @tool
    def ping() -> str:
        """Answer."""
        return "pong"

    agent = agent_registry.register("test-pinger", Agent(name="pinger", tools=[ping]))
    tool_registry.register("test-ping", ping)
    try:
        assert agent_registry.get("test-pinger") is agent
        assert tool_registry.get("test-ping") is ping
    finally:
        agent_registry.unregister("test-pinger")
        tool_registry.unregister("test-ping")
