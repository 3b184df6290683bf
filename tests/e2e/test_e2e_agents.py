"""The agents whose images are built on request, on the cluster: a task, and one cut off."""

import subprocess
import sys
from functools import cache

import pytest
from support.cluster import ROOT, Object
from support.installation import MODEL_URL
from support.world import NAMESPACE, World, task

pytestmark = pytest.mark.apart
BUILD_SECONDS = 590
SETTINGS = {
    "gemini": {"GEMINI_API_KEY": "scripted-key", "GOOGLE_GEMINI_BASE_URL": MODEL_URL},
    "opencode": {"ANTHROPIC_API_KEY": "scripted-key", "ANTHROPIC_BASE_URL": MODEL_URL},
}
MODELS = {"gemini": "gemini-2.5-pro", "opencode": "scripted"}
AGENTS = pytest.mark.parametrize("agent", sorted(SETTINGS))


@cache
def built(agent: str) -> None:
    """Have the agent's image on the cluster, which `make images` does not build."""
    command = [sys.executable, "images/build.py", "--only", f"worker-{agent}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert done.returncode == 0, f"{' '.join(command)} failed: {done.stderr}"


def credentials(agent: str) -> Object:
    """The Secret that the agent's tasks name."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{agent}-credentials", "namespace": NAMESPACE},
        "stringData": SETTINGS[agent],
    }


def agent_task(agent: str, name: str, prompt: str, **spec: object) -> Object:
    """A task for this agent, with the scripted model behind it."""
    made = task(name, prompt, **spec)
    made["spec"]["agent"] = {
        "type": agent,
        "model": MODELS[agent],
        "credentialsSecretRef": {"name": f"{agent}-credentials"},
    }
    return made


@AGENTS
def test_an_agent_works_in_its_workspace_and_says_what_it_used(world: World, agent: str) -> None:
    built(agent)
    prompt = "[[bash: echo verses > poem; cat poem]]\n[[say: {output}]]\n[[result]]"
    world.apply(credentials(agent), agent_task(agent, f"{agent}-works", prompt))
    status = world.wait(f"{agent}-works", "Completed")
    assert "verses" in status["result"]["summary"]
    assert status["usage"]["inputTokens"] > 0


@AGENTS
def test_an_agent_whose_pod_is_deleted_goes_on_with_its_conversation(
    world: World, agent: str
) -> None:
    built(agent)
    name = f"{agent}-goes-on"
    hold = "[[bash: while [ ! -e released ]; do sleep 20; done]]"
    prompt = f"[[remember: roses]]\n{hold}\n[[recall]]\n[[result]]"
    world.apply(credentials(agent), agent_task(agent, name, prompt))
    world.wait(name, "Running")
    (pod,) = world.until(f"{name} is held", lambda: held(world, name))
    world.cluster.kubectl("-n", NAMESPACE, "delete", "pod", pod, "--wait=false")
    status = world.wait(name, "Completed", seconds=240)
    assert (status["attempts"], status["disruptions"]) == (1, 1)


def held(world: World, name: str) -> list[str]:
    """The pods of a task whose agent is in its tool call."""
    return [
        pod["metadata"]["name"]
        for pod in world.pods(name)
        if pod["status"].get("phase") == "Running" and "sleep 20" in world.processes(name)
    ]
