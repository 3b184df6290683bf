"""Tasks under AgentBudgets through the real program, a real Redis and a fake API server."""

import pytest

pytestmark = pytest.mark.integration
NAMESPACE = "team"
AGENT = {"type": "claude", "maxCostUSD": 0.01}
"""A worker of `fake_node` says that it has cost 0.01 USD."""


def put_budget(world, name="all", **spec):
    """What `kubectl apply` does with an AgentBudget."""
    if world.api.get("agentbudgets", NAMESPACE, name) is not None:
        return world.api.patch("agentbudgets", NAMESPACE, name, {"spec": spec})
    meta = {"name": name, "namespace": NAMESPACE}
    said = {"period": "Monthly", "maxCostUSD": 0.1, "defaultTaskUSD": 0.05} | spec
    return world.api.put("agentbudgets", {"metadata": meta, "spec": said})


def ledger(world, name="all"):
    return world.api.get("agentbudgets", NAMESPACE, name).get("status") or {}


def condition(world, name, kind="BudgetReserved"):
    found = world.status(name).get("conditions", [])
    return next((item for item in found if item["type"] == kind), None)


def amounts(world, name="all"):
    found = ledger(world, name)
    return found.get("spentUSD"), found.get("reservedUSD"), found.get("availableUSD")


async def test_a_task_reserves_its_limit_and_spends_what_it_has_cost(world):
    await world.start_operator()
    put_budget(world, maxCostUSD=1)
    obj = world.apply("fix", "ok sleep=0.3", agent={"type": "claude", "maxCostUSD": 0.5})
    await world.until("fix", "Running")
    assert amounts(world) == (0.0, 0.5, 0.5)
    [(uid, held)] = ledger(world)["reservations"].items()
    assert uid == obj["metadata"]["uid"]
    assert held == {"task": "fix", "attempt": 1, "usd": 0.5, "over": False}
    said = condition(world, "fix")
    assert (said["status"], said["message"]) == ("True", "0.5 USD of AgentBudget all")
    await world.until("fix", "Completed")
    assert amounts(world) == (0.01, 0.0, 0.99)
    assert not ledger(world)["reservations"]


async def test_a_task_that_does_not_fit_waits_and_begins_when_there_is_more(world):
    await world.start_operator()
    put_budget(world, maxCostUSD=0.015)
    world.apply("first", agent=AGENT)
    await world.until("first", "Completed")
    world.apply("second", agent=AGENT)
    status = await world.until_reason("second", "BudgetExceeded")
    assert status["phase"] == "Pending"
    end = ledger(world)["periodEnd"].partition(".")[0].removesuffix(":00")
    assert status["message"] == (
        f"needs 0.01 USD, more than AgentBudget all has left of its 0.015 USD until {end}Z"
    )
    assert condition(world, "second")["status"] == "False"
    assert world.events("second") == ["BudgetExceeded"]
    put_budget(world, maxCostUSD=0.02)
    await world.until("second", "Completed")
    assert amounts(world) == (0.02, 0.0, 0.0)
