"""What is given in place of what `serve` and `create_app` take is named, with what to give."""

import pytest

from orbiter import Agent
from orbiter.server import ServerConfig, create_app, serve
from orbiter.types import OrbiterError

AGENT = Agent(name="a")
WRONG = {
    "a class": (Agent, "the class Agent"),
    "an agent without its name": (AGENT, "Agent(name='a'"),
    "a list": ([AGENT], "a list"),
    "a class by name": ({"x": Agent}, "'x': the class Agent"),
    "text by name": ({"x": "calc.yaml"}, "'x': 'calc.yaml'"),
}


@pytest.mark.parametrize("start", [serve, create_app])
@pytest.mark.parametrize(("agents", "value"), WRONG.values(), ids=WRONG)
def test_what_is_no_agent_by_name_is_named_with_what_to_give(start, agents, value, tmp_path):
    with pytest.raises(OrbiterError, match="give agents by name") as refused:
        start(agents, config=ServerConfig(directory=tmp_path))
    assert value in str(refused.value)
    assert '{"helper": Agent(name="helper")}' in str(refused.value)


@pytest.mark.parametrize("start", [serve, create_app])
def test_a_dict_in_place_of_the_configuration_is_told_without_its_values(start):
    with pytest.raises(OrbiterError, match=r"ServerConfig\(token=\.\.\.\)") as refused:
        start({"a": AGENT}, config={"token": "s3cret"})
    assert "s3cret" not in str(refused.value)


async def test_serving_inside_of_an_event_loop_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(OrbiterError, match="inside an event loop") as refused:
        serve({"a": AGENT}, host="0.0.0.0", config=ServerConfig(directory=tmp_path))
    assert "create_app" in str(refused.value)
    assert not list(tmp_path.iterdir())
