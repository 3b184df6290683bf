"""AgentBudget as the API server keeps it: defaults, what is refused in which words, columns."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster import Cluster, CommandError, Object
from support.manifests import API_VERSION

pytestmark = pytest.mark.e2e
ENOUGH = {"maxCostUSD": 10, "defaultTaskUSD": 0.5}


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("chart-crd-agentbudget") as name:
        yield name


def agent_budget(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "AgentBudget",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_budget_is_monthly_in_utc_and_lets_tasks_wait(cluster: Cluster, namespace: str) -> None:
    cluster.apply(agent_budget("plain", **ENOUGH), namespace=namespace)
    assert cluster.get("ab", "plain", namespace)["spec"] == {
        **ENOUGH,
        "period": "Monthly",
        "timeZone": "UTC",
        "onExceeded": "Queue",
    }


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"maxCostUSD": 10}, "spec.defaultTaskUSD: Required value"),
        ({"defaultTaskUSD": 1}, "spec.maxCostUSD: Required value"),
        (ENOUGH | {"maxCostUSD": -1}, "should be greater than or equal to 0"),
        (ENOUGH | {"period": "Yearly"}, "Unsupported value"),
        (ENOUGH | {"onExceeded": "Kill"}, "Unsupported value"),
        (ENOUGH | {"timeZone": "../etc"}, "not the name of a time zone"),
        (ENOUGH | {"warnAtPercent": 101}, "should be less than or equal to 100"),
    ],
)
def test_what_cannot_work_is_refused(
    cluster: Cluster, namespace: str, spec: Object, sentence: str
) -> None:
    with pytest.raises(CommandError) as refused:
        cluster.apply(agent_budget("refused", **spec), namespace=namespace)
    assert sentence in str(refused.value)


def test_kubectl_get_shows_what_one_wants_to_know(cluster: Cluster, namespace: str) -> None:
    cluster.apply(agent_budget("columns", **ENOUGH), namespace=namespace)
    lines = cluster.kubectl("-n", namespace, "get", "agentbudgets", "columns").splitlines()
    assert lines[0].split() == [
        *("NAME", "PERIOD", "MAX", "SPENT", "RESERVED", "AVAILABLE", "ON-EXCEEDED", "AGE"),
    ]
    assert lines[1].split()[:3] == ["columns", "Monthly", "10"]
