"""An AgentBudget on the cluster: a crowd of tasks, little money, and operators that are killed."""

import uuid
from functools import partial

import pytest
from support.cluster import Object
from support.world import NAMESPACE, SYSTEM, World, echo_task

pytestmark = pytest.mark.e2e
RUN = uuid.uuid4().hex[:4]
TASKS, ENOUGH_FOR = 50, 10
NOW = ("--grace-period=0", "--force", "--wait=false")
OPERATORS = "app.kubernetes.io/component=operator"


def budget(name: str, most: float) -> Object:
    return {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "AgentBudget",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "period": "Monthly",
            "timeZone": "Europe/Berlin",
            "maxCostUSD": most,
            "defaultTaskUSD": 1,
            "onExceeded": "Queue",
        },
    }


@pytest.mark.timeout(400)
def test_no_more_is_reserved_than_there_is_whoever_is_killed(world: World) -> None:
    """Each reserves a dollar and costs next to nothing: all have their turn, ten at once."""
    name = f"few-{RUN}"
    names = [f"paid-{RUN}-{number:02d}" for number in range(TASKS)]
    seen: list[float] = []
    reasons: set[str] = set()

    def used() -> Object:
        status: Object = world.cluster.get("agentbudget", name, NAMESPACE).get("status") or {}
        seen.append(float(status.get("spentUSD") or 0) + float(status.get("reservedUSD") or 0))
        return status

    def done(count: int) -> bool:
        used()
        found = world.tasks()
        tasks = [found.get(each, {}) for each in names]
        reasons.update(str(each.get("reason")) for each in tasks)
        return sum(each.get("phase") == "Completed" for each in tasks) >= count

    world.apply(budget(name, ENOUGH_FOR))
    try:
        world.apply(*(echo_task(each, "work\nsleep 2") for each in names))
        for count in (1, 15, 30):
            world.until(f"{count} are done", partial(done, count))
            world.kubectl("-n", SYSTEM, "delete", "pods", "-l", OPERATORS, *NOW)
        world.until("all are done", partial(done, TASKS), 200)
        assert max(seen) <= ENOUGH_FOR
        assert max(seen) > ENOUGH_FOR - 1
        assert "BudgetExceeded" in reasons
        world.until("nothing is reserved", lambda: not used().get("reservedUSD"))
        assert 0 < used()["spentUSD"] < 1
    finally:
        world.kubectl("-n", NAMESPACE, "delete", "agentbudget", name)
