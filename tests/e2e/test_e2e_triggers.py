"""AgentTriggers on the cluster: tasks of a schedule, and a program that is killed meanwhile."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster import Object
from support.world import NAMESPACE, SYSTEM, World, echo_task

pytestmark = pytest.mark.e2e
RUN = uuid.uuid4().hex[:4]
NOW = ("--grace-period=0", "--force", "--wait=false")
PODS = "app.kubernetes.io/component=triggers"


def trigger(name: str, cron: Object, **spec: Any) -> Object:
    template = {"spec": echo_task("unused")["spec"]}
    return {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "AgentTrigger",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"source": {"cron": cron}, "taskTemplate": template, **spec},
    }


def status(world: World, name: str) -> Object:
    found: Object = world.cluster.get("agenttrigger", name, NAMESPACE).get("status") or {}
    return found


def tasks(world: World, name: str) -> list[Object]:
    return world.cluster.list_all("agenttasks", NAMESPACE, f"orbiter.dev/agenttrigger={name}")


@pytest.fixture(scope="module")
def refused(world: World) -> Iterator[str]:
    """A trigger whose tasks are refused; it waits for its minute beside the other test."""
    name = f"refused-{RUN}"
    made = trigger(name, {"schedule": "* * * * *"})
    made["spec"]["taskTemplate"]["spec"]["agent"] = {"type": "nobody"}
    world.apply(made)
    yield name
    world.kubectl("-n", NAMESPACE, "delete", "agenttrigger", name, "--ignore-not-found")


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("refused")
def test_every_minute_has_one_task_whoever_is_killed(world: World) -> None:
    name = f"minutely-{RUN}"
    world.apply(trigger(name, {"schedule": "* * * * *"}))
    try:
        for count in (1, 2):
            world.until(
                f"{count} are made", lambda count=count: len(tasks(world, name)) >= count, 90
            )
            world.kubectl("-n", SYSTEM, "delete", "pods", "-l", PODS, *NOW)
        world.until(
            "all have ended",
            lambda: all(
                (each.get("status") or {}).get("phase") == "Completed"
                for each in tasks(world, name)
            ),
        )
        times = [
            each["metadata"]["annotations"]["orbiter.dev/scheduled-time"]
            for each in tasks(world, name)
        ]
        assert len(times) == len(set(times))
        told = status(world, name)
        assert told.get("missedRuns", 0) == 0
        assert told["lastEvents"][0]["outcome"] == "Fired"
    finally:
        world.kubectl("-n", NAMESPACE, "delete", "agenttrigger", name, "--ignore-not-found")
    world.until("its tasks have gone with it", lambda: not tasks(world, name))


def test_a_template_that_the_api_server_refuses_is_told_in_the_status(
    world: World, refused: str
) -> None:
    world.until("it is refused", lambda: status(world, refused).get("lastEvents"), 90)
    [ready] = status(world, refused)["conditions"]
    assert (ready["status"], ready["reason"]) == ("False", "TaskRefused")
    assert "unknown agent type" in ready["message"]
    assert tasks(world, refused) == []
