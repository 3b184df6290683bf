"""A real agent, taken away in the middle of a tool call, goes on with what it knew and had."""

import uuid

import pytest
from support.nodes import node_names
from support.world import NAMESPACE, World, busy, task

RUN = uuid.uuid4().hex[:4]
NOW = ("--grace-period=0", "--force", "--wait=false")
SHORT = {"spec": {"terminationGracePeriodSeconds": 12}}


def working(world: World, name: str, number: int) -> str:
    """A task whose agent has written a file, which a checkpoint has; returns its pod's name."""
    script = ["[[remember: blue]]", "[[bash: echo draft > draft.txt]]", f"[[bash: {busy(number)}]]"]
    wish = {"checkpointSeconds": 2}
    world.apply(task(name, "\n".join(script), disruption=wish, podTemplate=SHORT))
    world.wait(name, "Running")
    world.until("the agent works", lambda: busy(number) in world.processes(name))
    world.until("its work is kept", lambda: _kept(world, name) == "Stored")
    pod: str = world.until("its pod is known", lambda: world.status(name).get("podName"))
    return pod


def _kept(world: World, name: str) -> str | None:
    kept: str | None = (world.status(name).get("checkpoint") or {}).get("workspace")
    return kept


def went_on(world: World, name: str, reason: str) -> None:
    """Wait for the end: one attempt, which went on from its checkpoint behind one disruption."""
    status = world.wait(name, "Completed", seconds=180)
    assert (status["attempts"], status["disruptions"]) == (1, 1)
    told = [event["message"] for event in world.events(name)]
    assert any(f"resumed after {reason} (1)" in text for text in told), told
    assert "checkpoint_found" in log_of(world, name)


def log_of(world: World, name: str) -> str:
    """What the last worker of a task has logged."""
    pod = world.status(name)["podName"]
    return world.kubectl("-n", NAMESPACE, "logs", pod)


@pytest.mark.timeout(600)
def test_an_evicted_agent_goes_on_with_what_it_knew(world: World) -> None:
    name = f"ckpt-evicted-{RUN}"
    pod = working(world, name, 641)
    nodes = node_names(world)
    selector = f"--pod-selector=orbiter.dev/agenttask={name}"
    try:
        flags = ("--delete-emptydir-data", "--force", "--ignore-daemonsets")
        world.kubectl("drain", *nodes, selector, *flags)
    finally:
        world.kubectl("uncordon", *nodes)
    went_on(world, name, "Evicted")
    assert world.status(name)["podName"] != pod


@pytest.mark.timeout(600)
def test_an_agent_killed_at_once_goes_on_from_its_last_checkpoint(world: World) -> None:
    name = f"ckpt-killed-{RUN}"
    world.kubectl("-n", NAMESPACE, "delete", "pod", working(world, name, 642), *NOW)
    went_on(world, name, "PodDeleted")
    assert world.status(name)["jobName"] == f"{name}-1-r1"


@pytest.mark.timeout(600)
def test_a_suspended_job_goes_on_when_it_is_let_in_again(world: World) -> None:
    name = f"ckpt-suspended-{RUN}"
    working(world, name, 643)
    world.cluster.patch("job", f"{name}-1", {"spec": {"suspend": True}}, NAMESPACE)
    world.wait(name, "Pending", reason="Suspended")
    world.cluster.patch("job", f"{name}-1", {"spec": {"suspend": False}}, NAMESPACE)
    status = world.wait(name, "Completed", seconds=180)
    assert (status["attempts"], status["disruptions"]) == (1, 1)
    assert "checkpoint_found" in log_of(world, name)


@pytest.mark.timeout(600)
def test_a_new_task_goes_on_with_what_a_cancelled_one_left(world: World) -> None:
    name = f"ckpt-old-{RUN}"
    working(world, name, 644)
    world.cluster.patch("agenttask", name, {"spec": {"desiredState": "Cancelled"}}, NAMESPACE)
    world.wait(name, "Cancelled")
    world.apply(task(f"ckpt-new-{RUN}", "go on", resumeFrom=name))
    world.wait(f"ckpt-new-{RUN}", "Completed")
    assert "checkpoint_found" in log_of(world, f"ckpt-new-{RUN}")
