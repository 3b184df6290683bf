"""Tasks in queues of a real Kueue: who waits and says so, who is preempted and goes on."""

import uuid
from typing import Any

import pytest
from support import history, kueue
from support.cluster import CommandError, Object
from support.world import CROWDED, NAMESPACE, SYSTEM, World, busy, echo_task, task

RUN = uuid.uuid4().hex[:4]
HIGH, LOW = "tests-high", "tests-low"
NOW = ("--grace-period=0", "--force", "--wait=false")
OPERATOR = "app.kubernetes.io/component=operator"
PREEMPTS = {"preemption": {"withinClusterQueue": "LowerPriority"}}
RESTART = {"policy": "Restart"}
PATIENCE = 300.0


def queue(world: World, name: str, pods: int, *namespaces: str, **spec: Any) -> None:
    """A queue of the cluster, and doors to it of the same name."""
    doors = [kueue.local_queue(name, namespace, name) for namespace in namespaces]
    world.cluster.apply([kueue.cluster_queue(name, pods, **spec), *doors], namespace=None)


def works(name: str, seconds: int, **spec: Any) -> Object:
    """A task whose agent works so long, and begins again where it is preempted.

    It has to leave at once: with the time that workers have otherwise it would end its turn.
    """
    made = echo_task(name, f"work\nsleep {seconds}", disruption=RESTART, **spec)
    made["spec"]["podTemplate"]["spec"]["terminationGracePeriodSeconds"] = 2
    return made


def waits(world: World, name: str, *words: str, namespace: str = NAMESPACE) -> str:
    """Wait until a task says that it waits for Kueue, in these words; returns its message."""

    def says() -> str:
        status = world.status(name, namespace)
        text: str = status.get("message", "")
        waiting = (status.get("phase"), status.get("reason")) == ("Pending", "Suspended")
        said = text.startswith("waits for Kueue") and all(word in text for word in words)
        return text if waiting and said else ""

    return world.until(f"{name} waits for Kueue", says)


def phases(world: World, names: list[str], namespace: str) -> list[str]:
    found = world.tasks(namespace)
    return sorted(found[name].get("phase", "Pending") for name in names)


def once(world: World, *names: str) -> None:
    """Each of these has had one output, of one attempt."""
    with world.redis() as redis:
        found = history.read(redis)
    assert not history.complaints(found, {f"{NAMESPACE}/{name}" for name in names}, 1)


def test_a_quota_keeps_the_others_waiting_and_none_of_them_holds_a_slot(world: World) -> None:
    """Seven where the namespace has five slots: those are for whoever is in no queue."""
    queue(world, "two", 2, CROWDED)
    names = [f"crowd-{number}-{RUN}" for number in range(7)]
    crowd = [works(name, 8, queueName="two") for name in names]
    for one in crowd:
        one["metadata"]["namespace"] = CROWDED
    world.apply(*crowd)
    two = ["Pending"] * 5 + ["Running"] * 2
    world.until("two of them work", lambda: phases(world, names, CROWDED) == two)
    held = [name for name in names if world.status(name, CROWDED).get("phase") == "Pending"]
    waits(world, held[-1], "LocalQueue two", "quota", namespace=CROWDED)
    free = works(f"free-{RUN}", 1)
    free["metadata"]["namespace"] = CROWDED
    world.apply(free)
    world.wait(f"free-{RUN}", "Running", "Completed", namespace=CROWDED)
    assert phases(world, names, CROWDED).count("Completed") < 7
    for name in names:
        status = world.wait(name, "Completed", namespace=CROWDED, seconds=PATIENCE)
        assert (status["attempts"], status.get("disruptions", 0)) == (1, 0)


def test_an_agent_that_is_preempted_goes_on_with_what_it_knew(world: World) -> None:
    queue(world, "one", 1, NAMESPACE, **PREEMPTS)
    low, high = f"low-{RUN}", f"high-{RUN}"
    script = ["[[remember: blue]]", "[[bash: echo draft > draft.txt]]", f"[[bash: {busy(651)}]]"]
    wish = {"checkpointSeconds": 2}
    grace = {"spec": {"terminationGracePeriodSeconds": 12}}
    chosen = {"queueName": "one", "queuePriorityClass": LOW}
    world.apply(task(low, "\n".join(script), disruption=wish, podTemplate=grace, **chosen))
    world.wait(low, "Running", seconds=PATIENCE)
    world.until("the agent works", lambda: busy(651) in world.processes(low), PATIENCE)
    world.until("its work is kept", lambda: _kept(world, low) == "Stored", PATIENCE)
    before = world.status(low)
    world.apply(works(high, 8, queueName="one", queuePriorityClass=HIGH))
    world.wait(high, "Running", seconds=PATIENCE)
    waits(world, low, "LocalQueue one")
    counted = world.status(low)
    assert (counted["attempts"], counted["disruptions"]) == (1, 1)
    assert counted["checkpoint"]["workspace"] == "Stored"
    world.wait(high, "Completed", seconds=PATIENCE)
    status = world.wait(low, "Completed", seconds=PATIENCE)
    assert (status["attempts"], status["disruptions"]) == (1, 1)
    assert status["requestId"] == before["requestId"]
    assert status["jobName"] == before["jobName"] == f"{low}-1"
    assert "resumed after Suspended (1)" in str(world.events(low))
    assert "checkpoint_found" in world.kubectl("-n", NAMESPACE, "logs", status["podName"])
    assert status["usage"]["turns"] <= before.get("checkpoint", {}).get("turns", 3) + 2
    once(world, low, high)


def _kept(world: World, name: str) -> str | None:
    kept: str | None = (world.status(name).get("checkpoint") or {}).get("workspace")
    return kept


def test_an_operator_that_is_killed_meanwhile_goes_on_with_who_was_preempted(world: World) -> None:
    queue(world, "one", 1, NAMESPACE, **PREEMPTS)
    low, high = f"first-{RUN}", f"second-{RUN}"
    world.apply(works(low, 15, queueName="one", queuePriorityClass=LOW))
    world.wait(low, "Running", seconds=PATIENCE)
    world.kubectl("-n", SYSTEM, "delete", "pods", "-l", OPERATOR, *NOW)
    made = works(high, 6, queueName="one", queuePriorityClass=HIGH)
    world.apply(made)
    world.wait(high, "Running", seconds=PATIENCE)
    world.kubectl("-n", SYSTEM, "delete", "pods", "-l", OPERATOR, *NOW)
    for name, count in ((high, 0), (low, 1)):
        status = world.wait(name, "Completed", seconds=PATIENCE)
        assert (status["attempts"], status.get("disruptions", 0)) == (1, count)
    once(world, low, high)


def test_two_namespaces_of_a_cohort_share_what_is_there(world: World) -> None:
    """Nobody has a quota of its own: who comes second gets the half, and the first one waits."""
    fair = {"preemption": {"reclaimWithinCohort": "Any"}}
    world.cluster.apply(kueue.cohort("both", 2), namespace=None)
    queue(world, "ours", 0, NAMESPACE, cohort="both", **fair)
    queue(world, "theirs", 0, CROWDED, cohort="both", **fair)
    names = [f"ours-{number}-{RUN}" for number in range(3)]
    world.apply(*(works(name, 15, queueName="ours") for name in names))
    full = ["Pending", "Running", "Running"]
    world.until("ours have all of it", lambda: phases(world, names, NAMESPACE) == full, PATIENCE)
    other = works(f"theirs-{RUN}", 8, queueName="theirs")
    other["metadata"]["namespace"] = CROWDED
    world.apply(other)
    world.wait(f"theirs-{RUN}", "Running", namespace=CROWDED, seconds=PATIENCE)
    assert phases(world, names, NAMESPACE).count("Running") <= 1
    world.wait(f"theirs-{RUN}", "Completed", namespace=CROWDED, seconds=PATIENCE)
    ended = [world.wait(name, "Completed", seconds=PATIENCE) for name in names]
    assert sum(status.get("disruptions", 0) for status in ended) == 1
    assert {status["attempts"] for status in ended} == {1}
    once(world, *names)


def test_a_task_that_waits_can_be_cancelled(world: World) -> None:
    queue(world, "none", 0, NAMESPACE)
    name = f"cancelled-{RUN}"
    world.apply(works(name, 1, queueName="none"))
    waits(world, name, "LocalQueue none")
    world.cluster.patch("agenttask", name, {"spec": {"desiredState": "Cancelled"}}, NAMESPACE)
    status = world.wait(name, "Cancelled")
    assert status["reason"] == "Cancelled"
    assert "startTime" not in status
    world.until("its Job is gone", lambda: not world.jobs(name))
    world.until("Kueue forgets it", lambda: not world.cluster.list_all("workloads", NAMESPACE))


def test_a_queue_that_is_not_there_is_named_and_may_come_later(world: World) -> None:
    name = f"early-{RUN}"
    world.apply(works(name, 1, queueName="later"))
    text = waits(world, name, "LocalQueue later doesn't exist")
    assert text == "waits for Kueue, LocalQueue later: LocalQueue later doesn't exist"
    queue(world, "later", 1, NAMESPACE)
    assert world.wait(name, "Completed", seconds=PATIENCE)["attempts"] == 1


def test_the_default_queue_of_a_namespace_takes_tasks_that_name_none(world: World) -> None:
    """Kueue itself gives each Job without a queue to the LocalQueue `default`."""
    queue(world, "default", 1, CROWDED)
    names = [f"unnamed-{number}-{RUN}" for number in range(7)]
    crowd = [works(name, 3) for name in names]
    for one in crowd:
        one["metadata"]["namespace"] = CROWDED
    world.apply(*crowd)
    one_of_seven = ["Pending"] * 6 + ["Running"]
    world.until("one works", lambda: phases(world, names, CROWDED) == one_of_seven, PATIENCE)

    def all_wait() -> bool:
        said = [status.get("message", "") for status in world.tasks(CROWDED).values()]
        return sum(text.startswith("waits for Kueue, LocalQueue default") for text in said) >= 5

    world.until("no other waits for a slot of ours", all_wait, PATIENCE)
    for name in names:
        status = world.wait(name, "Completed", namespace=CROWDED, seconds=PATIENCE)
        assert status.get("disruptions", 0) == 0


def test_a_task_begins_when_kueue_is_there_again(world: World) -> None:
    """Its webhook has to see every Job: without it none can be made, of whoever."""
    queue(world, "one", 1, NAMESPACE)
    name = f"away-{RUN}"
    kueue.scale(world.cluster, 0)
    try:
        world.apply(works(name, 1, queueName="one"))
        world.until("its Job is refused", lambda: world.status(name).get("message"))
        assert world.status(name)["phase"] == "Pending"
        assert not world.jobs(name)
    finally:
        kueue.scale(world.cluster, 1)
    assert world.wait(name, "Completed", seconds=PATIENCE)["attempts"] == 1
    once(world, name)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"queueName": "one", "queuePriorityClass": "mine"}, "workers.queuePriorityClassNames"),
        ({"queuePriorityClass": HIGH}, "write queueName too"),
        (
            {"podTemplate": {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": HIGH}}}},
            "spec.queuePriorityClass",
        ),
        (
            {"podTemplate": {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "one"}}}},
            "spec.queueName",
        ),
    ],
)
def test_what_a_tenant_may_not_choose_is_refused_with_what_to_do(
    world: World, spec: Object, sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        world.apply(task(f"refused-{RUN}", "nothing", **spec))
