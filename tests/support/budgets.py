"""What tests about AgentBudgets say: apply one, and look at what it says of itself."""

from typing import Any

from support.fake_api import FakeApi, Object

NAMESPACE = "team"


def put_budget(api: FakeApi, name: str = "all", **spec: Any) -> Object:
    """What `kubectl apply` does with an AgentBudget."""
    if api.get("agentbudgets", NAMESPACE, name) is not None:
        return api.patch("agentbudgets", NAMESPACE, name, {"spec": spec})
    meta = {"name": name, "namespace": NAMESPACE}
    said = {"period": "Monthly", "maxCostUSD": 0.1, "defaultTaskUSD": 0.05} | spec
    return api.put("agentbudgets", {"metadata": meta, "spec": said})


def ledger(api: FakeApi, name: str = "all") -> Object:
    """The status of a budget, empty before it has one."""
    found: Object = (api.get("agentbudgets", NAMESPACE, name) or {}).get("status") or {}
    return found


def amounts(api: FakeApi, name: str = "all") -> tuple[Any, Any, Any]:
    """What is spent, reserved and left."""
    found = ledger(api, name)
    return found.get("spentUSD"), found.get("reservedUSD"), found.get("availableUSD")


def usd(number: float) -> int:
    """Dollars in millionths, whose sums are exact."""
    return round(number * 1_000_000)
