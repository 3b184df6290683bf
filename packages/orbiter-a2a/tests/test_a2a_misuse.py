import pytest

from orbiter import Agent
from orbiter.a2a import A2AServer
from orbiter.types import OrbiterError


@pytest.mark.parametrize(("given", "value"), [(Agent, "the class Agent"), ("a", "'a'")])
@pytest.mark.parametrize("options", [{}, {"name": "x"}])
def test_what_is_no_agent_is_named_with_what_to_give(given, value, options):
    with pytest.raises(OrbiterError, match=r"give an Agent or a Swarm") as refused:
        A2AServer(given, **options)
    assert value in str(refused.value)


async def test_serving_inside_of_an_event_loop_is_refused_with_the_way_out():
    with pytest.raises(OrbiterError, match=r"inside an event loop.*\.app"):
        A2AServer(Agent(name="a")).serve(port=0)
