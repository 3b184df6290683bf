"""`helm test`: one task on the cluster, by a model that asks nobody."""

import pytest
from support.cluster import Cluster

pytestmark = pytest.mark.e2e

SYSTEM = "orbiter-system"


def test_helm_tests_the_installation_with_a_task_and_leaves_nothing(cluster: Cluster) -> None:
    said = cluster.helm("test", "orbiter", "-n", SYSTEM, "--timeout", "300s")
    assert "Succeeded" in said
    assert cluster.find("pod", "orbiter-smoke-test", SYSTEM) is None
    tasks = cluster.list_all("agenttasks", "default")
    assert not [task for task in tasks if task["metadata"]["name"].startswith("smoke-test-")]
