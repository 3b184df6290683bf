"""How tasks come in, wait for each other, and are seen from outside."""

import itertools
import json
import subprocess
import threading
import time
import uuid

import pytest
from support.world import CROWDED, NAMESPACE, World, echo_task, task

ACTIVE = ("Pending", "Running")


def test_a_task_starts_when_the_one_it_depends_on_is_completed(world: World) -> None:
    second = task("second", '[[result: {"summary": "after"}]]', dependsOn=["first"])
    world.apply(second)
    missing = world.wait("second", "Pending", reason="DependencyMissing")
    assert "first" in missing["message"]
    world.apply(task("first", '[[bash: sleep 1]]\n[[result: {"summary": "before"}]]'))
    after = world.wait("second", "Completed")
    before = world.wait("first", "Completed")
    # Kubernetes tells in whole seconds when a container has started.
    assert before["completionTime"][:19] <= after["startTime"][:19]


def test_tasks_that_wait_for_each_other_fail_with_the_circle_named(world: World) -> None:
    world.apply(
        echo_task("hen", dependsOn=["egg"]),
        echo_task("egg", dependsOn=["hen"]),
    )
    for name in ("hen", "egg"):
        status = world.wait(name, "Failed")
        assert status["reason"] == "DependencyCycle"
        assert "hen" in status["message"]
        assert "egg" in status["message"]


def test_a_task_whose_dependency_failed_does_not_run(world: World) -> None:
    world.apply(
        task("broken", '[[result: {"status": "failure", "summary": "no"}]]'),
        echo_task("hopeless", dependsOn=["broken"]),
    )
    status = world.wait("hopeless", "Failed")
    assert status["reason"] == "DependencyFailed"
    assert "broken" in status["message"]


def test_an_entry_from_outside_becomes_a_task_and_is_answered(world: World) -> None:
    message = {
        "request_id": str(uuid.uuid4()),
        "task_id": f"ticket-{uuid.uuid4().hex}",
        "project_id": "shop",
        "prompt": '[[result: {"summary": "from outside"}]]',
        "timeout": 60,
    }
    with world.redis() as redis:
        redis.xadd("worker:developer:input", {"data": json.dumps(message)})

    def answers() -> list[dict[str, object]]:
        found = (json.loads(fields["data"]) for fields in world.outputs())
        return [output for output in found if output["request_id"] == message["request_id"]]

    output = world.until("an output with the entry's request id", answers)[0]
    assert output["task_id"] == message["task_id"]
    assert output["project_id"] == message["project_id"]
    assert output["status"] == "success"
    adopted = [
        item
        for item in world.cluster.list_all("agenttasks", NAMESPACE)
        if item["spec"].get("taskId") == message["task_id"]
    ]
    assert len(adopted) == 1
    status = world.wait(adopted[0]["metadata"]["name"], "Completed")
    assert status["requestId"] == message["request_id"]


def test_an_entry_nobody_can_read_is_set_aside_with_its_reason(world: World) -> None:
    with world.redis() as redis:
        entry = redis.xadd("worker:developer:input", {"data": '{"prompt": "no task id"}'})

        def dead() -> list[str]:
            letters = redis.xrange("worker:developer:input:dead")
            return [fields["reason"] for _, fields in letters if "no task id" in fields["data"]]

        reasons = world.until("a dead letter", dead)
        assert "task_id" in reasons[0]
        world.until(
            "the entry is off the queue",
            lambda: not redis.xrange("worker:developer:input", entry, entry),
        )


@pytest.mark.timeout(600)
def test_fifty_tasks_run_five_at_a_time(world: World) -> None:
    names = [f"crowd-{n:02d}" for n in range(50)]
    most = 0
    done = threading.Event()

    def count() -> None:
        nonlocal most
        workers = "app.kubernetes.io/managed-by=orbiter"
        while not done.is_set():
            pods = world.cluster.list_all("pods", CROWDED, workers)
            most = max(most, sum(pod["status"]["phase"] in ACTIVE for pod in pods))
            done.wait(0.1)

    counter = threading.Thread(target=count)
    counter.start()
    try:
        world.apply(*(echo_task(name, namespace=CROWDED) for name in names))
        world.until(
            "somebody waits in line",
            lambda: [
                status
                for status in world.tasks(CROWDED).values()
                if status.get("reason") == "ConcurrencyLimit" and "place" in status["message"]
            ],
        )
        world.until(
            "all are completed",
            lambda: {s.get("phase") for s in world.tasks(CROWDED).values()} == {"Completed"},
            400,
        )
    finally:
        done.set()
        counter.join()
    assert most <= 5


def test_watching_shows_one_line_per_change_of_phase(world: World) -> None:
    command = world.cluster.command(
        "kubectl",
        "-n",
        NAMESPACE,
        "get",
        "agenttasks",
        "-w",
        "--field-selector",
        "metadata.name=watched",
    )
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        reader = threading.Thread(target=lambda: lines.extend(child.stdout or []))
        reader.start()
        world.apply(task("watched", '[[bash: sleep 1]]\n[[result: {"summary": "seen"}]]'))
        world.wait("watched", "Completed")
        world.until("its Job has ended too", lambda: not world.pods("watched"))
        time.sleep(3)  # a line too many would come now
        child.terminate()
        reader.join()
    rows = [line.split() for line in lines if line.startswith("watched")]
    # An agent that is slow has a line more: what it does.
    phases = [phase for phase, _ in itertools.groupby(row[1] for row in rows)]
    assert phases[-3:] == ["Pending", "Running", "Completed"], lines
    assert len(rows) <= 5, lines  # the first may be the object before its first status
    assert len(set(lines)) == len(lines), lines


def test_a_finished_task_goes_away_after_its_time(world: World) -> None:
    world.apply(echo_task("short-lived", ttlSecondsAfterFinished=1))
    world.until(
        "it is gone",
        lambda: "short-lived" not in world.tasks(),
    )
