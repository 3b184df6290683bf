"""Orbiter's own agents as workers: the default one, one of an agent file, and one that asks."""

from support.cluster import Object
from support.world import NAMESPACE, World, task

AGENT_FILE = """
name: poet
model: anthropic:claude-sonnet-4-5
instructions: You write verses.
tools: [workspace, ask_user]
max_steps: 9
"""


def orbiter_task(name: str, prompt: str, **agent: object) -> Object:
    """A task for an Orbiter agent, with the scripted model behind it."""
    made = task(name, prompt)
    made["spec"]["agent"] |= {"type": "orbiter", **agent}
    return made


def test_an_orbiter_agent_works_in_its_workspace_and_says_what_it_cost(world: World) -> None:
    world.apply(
        orbiter_task(
            "plain", "[[bash: echo verses > poem; cat poem]]\n[[say: {output}]]\n[[result]]"
        )
    )
    status = world.wait("plain", "Completed")
    assert status["result"]["summary"] == "verses"
    assert status["usage"]["turns"] == 2
    assert status["usage"]["costUSD"] > 0
    assert status["usage"]["inputTokens"] > 0


def test_the_agent_file_comes_from_a_configmap_and_its_session_goes_on(world: World) -> None:
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "agents", "namespace": NAMESPACE},
            "data": {"poet": AGENT_FILE},
        },
        orbiter_task(
            "orbiter-asks",
            '[[remember: roses]]\n[[tool: ask_user {"question": "For whom?"}]]\n'
            "[[say: for {output}]]\n[[result]]",
            fileFrom={"configMapKeyRef": {"name": "agents", "key": "poet"}},
        ),
    )
    status = world.wait("orbiter-asks", "InputRequired")
    assert status["message"] == "For whom?"
    given = [{"id": status["inputRequest"]["id"], "text": "Ada"}]
    world.cluster.patch("agenttask", "orbiter-asks", {"spec": {"input": given}}, NAMESPACE)
    status = world.wait("orbiter-asks", "Completed")
    assert status["attempts"] == 2
    assert "Ada" in status["result"]["summary"], "the answer is the result of the call that asked"


def test_a_mistake_in_the_agent_file_is_told_with_its_line(world: World) -> None:
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "broken", "namespace": NAMESPACE},
            "data": {"poet": "name: poet\ntolls: [workspace]\n"},
        },
        orbiter_task("typo", "x", fileFrom={"configMapKeyRef": {"name": "broken", "key": "poet"}}),
    )
    status = world.wait("typo", "Failed")
    assert "agent.yaml:2: tolls" in status["message"]
