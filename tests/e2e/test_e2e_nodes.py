"""What a node takes with it goes on on the other one."""

import uuid
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

import pytest
from support import history
from support.nodes import FIRST, SECOND, Nodes, two_nodes
from support.session_world import SessionWorld, front_end
from support.world import NAMESPACE, World, busy, echo_task, task, worker_container

pytestmark = pytest.mark.apart
RUN = uuid.uuid4().hex[:4]
SMALL = {"requests": {"cpu": "20m", "memory": "64Mi"}}
TEN = [f"ten-{RUN}-{n}" for n in range(10)]
GO_ON_SECONDS = 10.0


@pytest.fixture(scope="module")
def nodes(world: World) -> Iterator[Nodes]:
    with two_nodes(world) as nodes:
        yield nodes


def at_work(name: str, number: int) -> dict[str, Any]:
    """A task whose agent knows something, and is in the middle of a tool call."""
    script = f"[[remember: blue]]\n[[bash: echo draft > draft.txt]]\n[[bash: {busy(number)}]]"
    template = worker_container(resources=SMALL)
    template["spec"]["terminationGracePeriodSeconds"] = 12
    wish = {"checkpointSeconds": 2}
    return task(name, script, disruption=wish, podTemplate=template, timeoutSeconds=300)


def all_at_work(world: World, names: list[str]) -> None:
    """Wait until every one has a checkpoint with its workspace."""

    def kept() -> bool:
        found = world.tasks()
        states = [(found.get(name, {}).get("checkpoint") or {}) for name in names]
        return all(state.get("workspace") == "Stored" for state in states)

    world.until("all have checkpoints", kept, seconds=180)


def where(world: World, names: list[str]) -> set[str]:
    """The nodes on which the pods of tasks run that have not ended."""
    return {pod["spec"].get("nodeName", "") for name in names for pod in world.pods(name)}


def all_resumed(world: World, names: list[str], reason: str) -> None:
    """Wait until every one works again from its checkpoint."""
    wanted = f"resumed after {reason} (1)"

    def resumed() -> bool:
        found = world.tasks()
        return all(found[name].get("message") == wanted for name in names)

    world.until(f"all {wanted}", resumed, seconds=180)


def seconds_to_go_on(world: World, names: list[str]) -> list[float]:
    """From the start of each one's new pod to the word of its worker that it works."""
    with world.redis() as redis:

        def all_said_it_twice() -> dict[str, Collection[str]] | None:
            found = history.read(redis)
            begun = {name: found[f"{NAMESPACE}/{name}", 1].begun.values() for name in names}
            return begun if all(len(entries) == 2 for entries in begun.values()) else None

        said = world.until("every worker has said that it works again", all_said_it_twice)
    took = []
    for name, entries in said.items():
        again = history.order(max(entries, key=history.order))[0] / 1000
        (pod,) = (p for p in world.pods(name) if "deletionTimestamp" not in p["metadata"])
        (worker,) = (c for c in pod["status"]["containerStatuses"] if c["name"] == "worker")
        started = datetime.fromisoformat(worker["state"]["running"]["startedAt"])
        took.append(again - started.timestamp())
    return sorted(took)


def cancel(world: World, names: list[str]) -> None:
    """Leave the machine to the next test."""
    for name in names:
        world.cluster.patch("agenttask", name, {"spec": {"desiredState": "Cancelled"}}, NAMESPACE)


@pytest.mark.timeout(600)
def test_ten_tasks_of_a_drained_node_go_on_on_the_other(world: World, nodes: Nodes) -> None:
    with nodes.only(SECOND):
        world.apply(*(at_work(name, 700 + n) for n, name in enumerate(TEN)))
        all_at_work(world, TEN)
    assert where(world, TEN) == {SECOND}
    try:
        nodes.drain(SECOND)
        all_resumed(world, TEN, "Evicted")
        assert where(world, TEN) == {FIRST}
    finally:
        nodes.uncordon(SECOND)
    took = seconds_to_go_on(world, TEN)
    print(f"from the pod's start to work: {took[0]:.1f} to {took[-1]:.1f} s")
    cancel(world, TEN)
    assert took[-1] <= GO_ON_SECONDS


@pytest.mark.timeout(600)
def test_a_cordoned_node_gets_no_new_task(world: World, nodes: Nodes) -> None:
    names = [f"cordoned-{RUN}-{n}" for n in range(4)]
    with nodes.only(FIRST):
        world.apply(*(echo_task(name) for name in names))
        for name in names:
            world.wait(name, "Completed")
    pods = world.cluster.list_all("pods", NAMESPACE, "app.kubernetes.io/managed-by=orbiter")
    ran = {
        pod["spec"]["nodeName"]
        for pod in pods
        if pod["metadata"]["labels"].get("orbiter.dev/agenttask") in names
    }
    assert ran == {FIRST}


@pytest.mark.timeout(600)
def test_a_task_and_a_session_of_a_lost_node_go_on_on_the_other(world: World, nodes: Nodes) -> None:
    name, session = f"lost-{RUN}", f"moves-{RUN}"
    with nodes.only(SECOND):
        world.apply(at_work(name, 720))
        with front_end(world) as redis:
            talks = SessionWorld(world, redis)
            talks.apply(session, idle=600)
            talks.ask(session, "[[remember: blue]]")
        all_at_work(world, [name])
    assert where(world, [name]) == {SECOND}
    try:
        nodes.lose()
        all_resumed(world, [name], "NodeLost")
        alive = [p for p in world.pods(name) if "deletionTimestamp" not in p["metadata"]]
        assert [pod["spec"]["nodeName"] for pod in alive] == [FIRST]
        with front_end(world) as redis:
            answer = SessionWorld(world, redis).ask(session, "[[recall]]")
        assert "blue" in answer.text
    finally:
        nodes.bring_back()
    assert world.status(name)["attempts"] == 1
    cancel(world, [name])


@pytest.mark.timeout(600)
def test_a_session_of_a_drained_node_keeps_its_conversation(world: World, nodes: Nodes) -> None:
    session = f"drained-{RUN}"
    with front_end(world) as redis:
        talks = SessionWorld(world, redis)
        with nodes.only(SECOND):
            talks.apply(session, idle=600)
            talks.ask(session, "[[remember: green]]")
            (pod,) = talks.pods(session)
            assert pod["spec"]["nodeName"] == SECOND
        try:
            nodes.drain(SECOND, f"orbiter.dev/posession={session}")
            assert "green" in talks.ask(session, "[[recall]]").text
        finally:
            nodes.uncordon(SECOND)
        assert [pod["spec"]["nodeName"] for pod in talks.pods(session)] == [FIRST]
        status = talks.status(session)
    assert (status["disruptions"], status["lastDisruption"]["reason"]) == (1, "Evicted")
    assert status["lastDisruption"]["podName"] == pod["metadata"]["name"]
