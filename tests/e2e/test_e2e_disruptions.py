"""What the cluster takes away goes on by itself: one attempt, one output, and no retry is spent."""

import json
import uuid
from datetime import datetime
from typing import Any

import pytest
from support import history
from support.nodes import node_names
from support.world import ECHO_IMAGE, NAMESPACE, SYSTEM, World, task, worker_container

RUN = uuid.uuid4().hex[:4]
NOW = ("--grace-period=0", "--force", "--wait=false")
OPERATOR = "app.kubernetes.io/component=operator"
WORK = "work\nsleep 9"
SLOT = "example.com/slot"
ONE_SLOT = {"requests": {SLOT: "1"}, "limits": {SLOT: "1"}}


def working(world: World, name: str, grace: int | None = None, **worker: Any) -> str:
    """A task whose agent works for nine seconds; returns its pod's name.

    It begins again: what goes on from a checkpoint is in `test_e2e_checkpoints`.
    """
    pod = worker_container(image=ECHO_IMAGE, **worker)
    if grace is not None:
        pod["spec"]["terminationGracePeriodSeconds"] = grace
    world.apply(task(name, WORK, disruption={"policy": "Restart"}, podTemplate=pod))
    world.wait(name, "Running")
    named: str = world.until("its pod is known", lambda: world.status(name).get("podName"))
    world.until("its agent works", lambda: "sleep" in world.processes(name))
    return named


def evict(world: World, pod: str, grace: int) -> None:
    """What a drain does, with less grace: this is about what follows."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": NAMESPACE},
        "deleteOptions": {"gracePeriodSeconds": grace},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
    world.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


def goes_on(world: World, name: str, *reasons: str, jobs: list[str]) -> None:
    """Wait for the end; one attempt, one disruption, these Jobs, and one output."""
    words = [f"began again after {reason} (1)" for reason in reasons]
    world.until("it works again", lambda: world.status(name).get("message") in words)
    told = {event["reason"]: event["firstTimestamp"] for event in world.events(name)}
    counted = next(told[reason] for reason in reasons if reason in told)
    away = datetime.fromisoformat(told["Resumed"]) - datetime.fromisoformat(counted)
    print(f"{name}: works again {away.total_seconds():.0f} s after it was counted")
    status = world.wait(name, "Completed", seconds=180)
    assert (status["attempts"], status["disruptions"]) == (1, 1)
    assert [job["metadata"]["name"] for job in world.jobs(name)] == jobs
    with world.redis() as redis:
        assert not history.complaints(history.read(redis), {f"{NAMESPACE}/{name}"}, 1)


@pytest.mark.timeout(600)
def test_the_job_of_an_evicted_pod_makes_another_one(world: World) -> None:
    """`backoffLimit: 0` and a podFailurePolicy that ignores DisruptionTarget."""
    name = f"evicted-{RUN}"
    evict(world, working(world, name), 1)
    goes_on(world, name, "Evicted", jobs=[f"{name}-1"])


@pytest.mark.timeout(600)
def test_a_second_eviction_does_not_wait_for_the_jobs_pauses(world: World) -> None:
    """They double from 10 s on: behind the second the operator makes a Job instead."""
    name = f"twice-{RUN}"
    evict(world, working(world, name), 1)
    again = "began again after Evicted (1)"
    world.until("it works again", lambda: world.status(name).get("message") == again)
    world.until("its agent works", lambda: "sleep" in world.processes(name))
    evict(world, world.status(name)["podName"], 1)
    status = world.wait(name, "Completed", seconds=120)
    assert (status["attempts"], status["disruptions"]) == (1, 2)
    assert [job["metadata"]["name"] for job in world.jobs(name)] == [f"{name}-1-r2"]
    told = {event["message"]: event["firstTimestamp"] for event in world.events(name)}
    gone = next(when for text, when in told.items() if "disruption 2" in text)
    back = next(when for text, when in told.items() if "after Evicted (2)" in text)
    away = datetime.fromisoformat(back) - datetime.fromisoformat(gone)
    print(f"{name}: works again {away.total_seconds():.0f} s after the second was counted")


@pytest.mark.timeout(600)
def test_a_pod_killed_at_once_is_followed_by_a_job_of_the_same_attempt(world: World) -> None:
    name = f"killed-{RUN}"
    world.kubectl("-n", NAMESPACE, "delete", "pod", working(world, name), *NOW)
    goes_on(world, name, "PodDeleted", jobs=[f"{name}-1", f"{name}-1-r1"])


@pytest.mark.timeout(600)
def test_a_deleted_job_is_followed_by_another_one(world: World) -> None:
    name = f"jobless-{RUN}"
    pod = working(world, name)
    world.kubectl("-n", NAMESPACE, "delete", "job", f"{name}-1", "--wait=false")
    world.kubectl("-n", NAMESPACE, "delete", "pod", pod, *NOW)
    goes_on(world, name, "JobDeleted", "PodDeleted", jobs=[f"{name}-1-r1"])


@pytest.mark.timeout(600)
def test_a_drained_node_that_comes_back_goes_on_with_its_task(world: World) -> None:
    name = f"drained-{RUN}"
    working(world, name)
    nodes = node_names(world)
    selector = f"--pod-selector=orbiter.dev/agenttask={name}"
    try:
        world.kubectl(
            *("drain", *nodes, selector, "--grace-period=1", "--delete-emptydir-data", "--force"),
            "--ignore-daemonsets",
        )
        world.wait(name, "Pending", reason="Unschedulable")
    finally:
        world.kubectl("uncordon", *nodes)
    goes_on(world, name, "Evicted", jobs=[f"{name}-1"])


@pytest.mark.timeout(600)
def test_a_preempted_pod_goes_on_when_there_is_room_again(world: World) -> None:
    """By the scheduler itself: a pod of a higher priority needs the only one there is."""
    name, urgent = f"preempted-{RUN}", f"urgent-{RUN}"
    try:
        slots(world, {"op": "add", "value": "1"})
        pod = working(world, name, grace=1, resources=ONE_SLOT)
        world.kubectl("create", "priorityclass", urgent, "--value=1000")
        world.kubectl("apply", "-f", "-", stdin=json.dumps(needing_a_slot(world, urgent, pod)))
        world.wait(name, "Pending", reason="Unschedulable")
    finally:
        world.kubectl("-n", NAMESPACE, "delete", "pod", urgent, "--ignore-not-found", *NOW)
        world.kubectl("delete", "priorityclass", urgent, "--ignore-not-found")
    try:
        goes_on(world, name, "Evicted", jobs=[f"{name}-1"])
    finally:
        slots(world, {"op": "remove"})


def slots(world: World, change: dict[str, str]) -> None:
    """Say that there is one of something on the first node, or none."""
    path = "/status/capacity/" + SLOT.replace("/", "~1")
    patch = json.dumps([{"path": path, **change}])
    node = node_names(world)[0]
    world.kubectl("patch", "node", node, "--subresource=status", "--type=json", "-p", patch)


def needing_a_slot(world: World, urgent: str, like: str) -> dict[str, Any]:
    """A pod of this priority class that waits for the slot; it is as restricted as that one."""
    found = json.loads(world.kubectl("-n", NAMESPACE, "get", "pod", like, "-o", "json"))
    worker = next(c for c in found["spec"]["containers"] if c["name"] == "worker")
    kept = {key: worker[key] for key in ("image", "securityContext")}
    container = {"name": "waits", "command": ["sleep", "600"], "resources": ONE_SLOT, **kept}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": urgent, "namespace": NAMESPACE},
        "spec": {
            "priorityClassName": urgent,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": found["spec"]["securityContext"],
            "containers": [container],
        },
    }


@pytest.mark.timeout(600)
def test_an_operator_that_is_killed_meanwhile_goes_on_with_the_task(world: World) -> None:
    name = f"both-{RUN}"
    pod = working(world, name)
    world.kubectl("-n", SYSTEM, "delete", "pods", "-l", OPERATOR, *NOW)
    world.kubectl("-n", NAMESPACE, "delete", "pod", pod, *NOW)
    goes_on(world, name, "PodDeleted", jobs=[f"{name}-1", f"{name}-1-r1"])


@pytest.mark.timeout(600)
def test_an_agent_that_ends_its_worker_buys_no_free_run(world: World) -> None:
    name = f"freerun-{RUN}"
    ten = "for n in 1 2 3 4 5 6 7 8 9 10; do kill 1; sleep 0.5; done"
    world.apply(task(name, f"[[bash: {ten}; sleep 60; true]]"))
    status = world.wait(name, "Failed", seconds=120)
    assert status.get("disruptions", 0) == 0
    assert len(world.jobs(name)) == 1
