"""What is given in place of what a parameter takes is named, with what to give instead."""

import pytest
from pydantic import BaseModel

from orbiter import Agent, Swarm, run, tool
from orbiter.types import OrbiterError

AGENT = Agent(name="a")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Answer(BaseModel):
    text: str


RUNS = {
    "a name": (("a", "hi"), {}, "'a' (str)", "Agent(name="),
    "a class": ((Agent, "hi"), {}, "the class Agent", "Agent(name="),
    "no text": ((AGENT, 5), {}, "5 (int)", "text"),
    "a dict of limits": (
        (AGENT, "hi"),
        {"config": {"timeout": 3}},
        "a dict with timeout",
        "TaskConfig(",
    ),
    "a dict of what was spent": ((AGENT, "hi"), {"spent": {}}, "nothing in it", "Spent("),
    "a model's name": (
        (AGENT, "hi"),
        {"provider": "openai:gpt-4o"},
        "'openai:gpt-4o' (str)",
        'get_provider("',
    ),
    "text among messages": ((AGENT, "hi"), {"messages": ["hello"]}, "'hello' (str)", "messages"),
    "text as messages": ((AGENT, "hi"), {"messages": "hello"}, "'hello' (str)", "messages"),
}


@pytest.mark.parametrize(("given", "options", "value", "instead"), RUNS.values(), ids=RUNS)
async def test_a_run_names_what_it_cannot_run_and_what_it_takes(given, options, value, instead):
    with pytest.raises(OrbiterError) as refused:
        await run(*given, **options)
    assert value in str(refused.value)
    assert instead in str(refused.value)
    with pytest.raises(OrbiterError, match="run"):
        run.stream(*given, **options)


def test_a_run_of_code_that_is_not_async_names_it_too():
    with pytest.raises(OrbiterError, match=r"run\(\.\.\.\) got 'a' \(str\): give an Agent"):
        run.sync("a", "hi")


def test_what_a_dict_holds_is_not_told():
    with pytest.raises(OrbiterError) as refused:
        run.sync(AGENT, "hi", config={"token": "s3cret"})
    assert "s3cret" not in str(refused.value)


AGENTS = {
    "a tool that is not in a list": ({"tools": add}, "tools", "[tool]"),
    "an agent's name": ({"handoffs": ["b"]}, "'b' (str)", "an Agent"),
    "an agent that is not in a list": ({"handoffs": AGENT}, "Agent(name='a'", "[agent]"),
    "the name of a type": ({"output_type": "Answer"}, "'Answer' (str)", "pydantic model"),
    "an instance of a type": ({"output_type": Answer(text="")}, "Answer(text='')", "class"),
    "a switch for memory": ({"memory": True}, "True (bool)", "ShortTermMemory()"),
    "a dict as context": ({"context": {}}, "nothing in it", "Context("),
}


@pytest.mark.parametrize(("options", "value", "instead"), AGENTS.values(), ids=AGENTS)
def test_an_agent_names_what_it_cannot_have_and_what_it_takes(options, value, instead):
    with pytest.raises(OrbiterError, match=r"^Agent 'x': ") as refused:
        Agent(name="x", **options)
    assert value in str(refused.value)
    assert instead in str(refused.value)


@pytest.mark.parametrize("agents", [AGENT, ["a"], [Agent]], ids=["one", "a name", "a class"])
def test_a_swarm_names_what_is_no_agent(agents):
    with pytest.raises(OrbiterError, match=r"Swarm\(agents=\.\.\.\) got .*: give "):
        Swarm(agents=agents)
