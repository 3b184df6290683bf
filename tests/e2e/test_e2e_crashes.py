"""Whatever is killed: nothing is lost, no attempt runs twice, no two attempts at the same time."""

import random
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from support import history
from support.cluster import CommandError
from support.world import NAMESPACE, SYSTEM, World, busy, echo_task, task

ROOT = Path(__file__).resolve().parents[2]
NOW = ("--grace-period=0", "--force", "--wait=false")
RUN = uuid.uuid4().hex[:4]
"""Part of every name: the streams still hold what earlier runs did under theirs."""
OPERATOR = "app.kubernetes.io/component=operator"


def kill_operators(world: World) -> None:
    """SIGKILL for both replicas, as if their nodes had gone."""
    world.kubectl("-n", SYSTEM, "delete", "pods", "-l", OPERATOR, *NOW)


def kill_redis(world: World) -> None:
    """SIGKILL for Redis; its StatefulSet brings it back with its volume."""
    world.kubectl("-n", SYSTEM, "delete", "pod", "orbiter-redis-0", *NOW)
    redis_is_back(world)


def redis_is_back(world: World) -> None:
    """Wait until the StatefulSet's new pod answers."""
    world.kubectl("-n", SYSTEM, "rollout", "status", "statefulset/orbiter-redis", "--timeout=120s")


def all_completed(world: World, names: list[str], seconds: float) -> None:
    """Wait until all these tasks are completed; one that has failed ends the wait at once."""

    def completed() -> bool:
        tasks = world.tasks()
        failed = {n: tasks[n] for n in names if tasks.get(n, {}).get("phase") == "Failed"}
        assert not failed, failed
        return all(tasks.get(n, {}).get("phase") == "Completed" for n in names)

    world.until("all tasks are completed", completed, seconds)


def judge(world: World, names: list[str]) -> None:
    """Compare with what really happened."""
    with world.redis() as redis:
        found = history.read(redis)
    assert not history.complaints(found, {f"{NAMESPACE}/{name}" for name in names})


@pytest.mark.timeout(600)
def test_an_operator_killed_again_and_again_loses_nothing(world: World) -> None:
    names = [f"killed-{RUN}-{n:02d}" for n in range(20)]
    world.apply(*(echo_task(name, "work\nsleep 2") for name in names))
    chance = random.Random(7)
    for _ in range(6):
        time.sleep(chance.uniform(0.2, 4.0))  # the moment of the kill is the point of the test
        kill_operators(world)
    all_completed(world, names, 400)
    judge(world, names)


@pytest.mark.timeout(600)
def test_a_worker_pod_deleted_in_the_middle_is_replaced_by_the_next_attempt(world: World) -> None:
    """Where the task wants it so: `test_e2e_disruptions` has what it does otherwise."""
    world.apply(
        task(
            f"evicted-{RUN}",
            f"[[attempt: 1]] [[bash: {busy(617)}]]\n"
            '[[attempt: 2]] [[result: {"summary": "again"}]]',
            retry={"limit": 1, "backoffSeconds": 1},
            disruption={"policy": "Fail"},
        )
    )
    world.wait(f"evicted-{RUN}", "Running")
    world.until("the agent works", lambda: busy(617) in world.processes(f"evicted-{RUN}"))
    world.kubectl("-n", NAMESPACE, "delete", "pod", world.status(f"evicted-{RUN}")["podName"], *NOW)
    status = world.wait(f"evicted-{RUN}", "Completed", seconds=180)
    assert status["attempts"] == 2
    assert status["result"]["summary"] == "again"
    judge(world, [f"evicted-{RUN}"])


@pytest.mark.timeout(600)
def test_a_worker_pod_that_is_drained_says_so_before_it_goes(world: World) -> None:
    """Where the task wants it so: otherwise the attempt goes on."""
    wish = {"policy": "Fail"}
    world.apply(task(f"drained-{RUN}", f"[[bash: {busy(618)}]]", disruption=wish))
    world.wait(f"drained-{RUN}", "Running")
    world.until("the agent works", lambda: busy(618) in world.processes(f"drained-{RUN}"))
    pod = world.status(f"drained-{RUN}")["podName"]
    world.kubectl("-n", NAMESPACE, "delete", "pod", pod, "--wait=false")
    status = world.wait(f"drained-{RUN}", "Failed", seconds=90)
    assert status["reason"] == "Terminated"
    judge(world, [f"drained-{RUN}"])


@pytest.mark.timeout(600)
def test_redis_killed_and_restarted_with_its_volume_loses_nothing(world: World) -> None:
    names = [f"redis-{RUN}-{n:02d}" for n in range(10)]
    world.apply(*(echo_task(name, "work\nsleep 3") for name in names))
    world.wait(names[0], "Running")
    kill_redis(world)
    all_completed(world, names, 400)
    judge(world, names)


@pytest.mark.timeout(600)
def test_redis_flushed_loses_no_task(world: World) -> None:
    names = [f"flushed-{RUN}-{n:02d}" for n in range(6)]
    retry = {"limit": 2, "backoffSeconds": 1}
    world.apply(*(echo_task(name, "work\nsleep 3", retry=retry) for name in names))
    world.wait(names[0], "Running")
    wipe = "rm -rf /data/*"
    world.kubectl("-n", SYSTEM, "exec", "orbiter-redis-0", "--", "sh", "-c", wipe)
    kill_redis(world)
    all_completed(world, names, 400)
    for name in names:
        assert world.status(name)["attempts"] <= 3


@pytest.mark.timeout(600)
def test_an_api_server_that_restarts_loses_nothing(world: World) -> None:
    names = [f"api-{RUN}-{n:02d}" for n in range(10)]
    world.apply(*(echo_task(name, "work\nsleep 3") for name in names))
    world.wait(names[0], "Running")
    tool = [sys.executable, str(ROOT / "cluster" / "cluster.py")]
    subprocess.run([*tool, "kill", "apiserver"], check=True)
    subprocess.run([*tool, "start", "apiserver"], check=True)

    def answers() -> bool:
        try:
            return bool(world.kubectl("get", "--raw", "/readyz"))
        except CommandError:
            return False

    world.until("the API server answers", answers)
    all_completed(world, names, 400)
    judge(world, names)


@pytest.mark.timeout(300)
def test_the_standby_takes_over_within_seconds(world: World) -> None:
    def holder() -> str:
        lease = world.cluster.find("lease", "orbiter-operator", SYSTEM)
        return str((lease or {}).get("spec", {}).get("holderIdentity", ""))

    def ready() -> bool:
        pods = world.cluster.list_all("pods", SYSTEM, OPERATOR)
        states = [pod["status"].get("containerStatuses", [{}])[0].get("ready") for pod in pods]
        return len(states) == 2 and all(states)

    world.until("two operators are there", lambda: holder() and ready())
    first = holder()
    pods = [pod["metadata"]["name"] for pod in world.cluster.list_all("pods", SYSTEM, OPERATOR)]
    active = next(name for name in pods if name in first)
    world.kubectl("-n", SYSTEM, "delete", "pod", active, *NOW)
    world.apply(echo_task("after-takeover"))
    world.wait("after-takeover", "Completed", seconds=60)
    assert holder() != first
