"""ClusterAgentProfile as the API server keeps it: in no namespace, what is refused, a reference."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster import Cluster, CommandError, Object
from support.manifests import API_VERSION, agent_task

pytestmark = pytest.mark.e2e
PREFIX = "crd-cluster-"
BEDROCK = {"roleARN": "arn:aws:iam::123456789012:role/agents", "region": "eu-central-1"}


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("chart-crd-clusteragentprofile") as name:
        yield name


@pytest.fixture(autouse=True, scope="module")
def tidy(cluster: Cluster) -> Iterator[None]:
    """They are in no namespace that would take them along."""
    yield
    for name in ("empty", "some", "fixed", "columns"):
        cluster.delete("clusteragentprofile", f"{PREFIX}{name}")


def cluster_profile(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterAgentProfile",
        "metadata": {"name": f"{PREFIX}{name}"},
        "spec": spec,
    }


def test_it_keeps_what_it_says_and_nothing_is_filled_in(cluster: Cluster) -> None:
    auth = {"type": "Bedrock", "bedrock": BEDROCK}
    said = {"agent": {"model": "large", "auth": auth}, "allowOverrides": ["model", "auth", "*"]}
    for name, spec in (("empty", {}), ("some", said)):
        cluster.apply(cluster_profile(name, **spec))
        found = cluster.get("cap", f"{PREFIX}{name}")
        assert found["spec"] == spec
        assert "namespace" not in found["metadata"]


def test_its_podtemplate_says_what_no_tasks_may(cluster: Cluster) -> None:
    template = {
        "spec": {
            "serviceAccountName": "agents",
            "runtimeClassName": "gvisor",
            "volumes": [{"name": "tools", "persistentVolumeClaim": {"claimName": "tools"}}],
        }
    }
    cluster.apply(cluster_profile("fixed", podTemplate=template))
    kept = cluster.get("clusteragentprofile", f"{PREFIX}fixed")["spec"]["podTemplate"]
    assert kept == template


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"agent": {"type": "cursor"}}, "unknown agent type; write one of claude"),
        ({"timeoutSeconds": 0}, "timeoutSeconds must be from 1 to 604800"),
        ({"allowOverrides": ["prompt"]}, "Unsupported value"),
        ({"agent": {"env": [{"name": "REDIS_URL", "value": "x"}]}}, "reserved for the worker"),
        (
            {"agent": {"credentialsSecretRef": {"name": "orbiter-redis"}}},
            "orbiter-redis is a Secret of Orbiter itself",
        ),
        (
            {"agent": {"type": "codex", "auth": {"type": "Bedrock", "bedrock": BEDROCK}}},
            "this agent.type does not have that way to its model",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_the_words_of_a_task(
    cluster: Cluster, spec: Object, sentence: str
) -> None:
    with pytest.raises(CommandError) as refused:
        cluster.apply(cluster_profile("refused", **spec))
    assert sentence in str(refused.value)


def test_a_task_names_a_profile_with_its_kind(cluster: Cluster, namespace: str) -> None:
    for name, said, kind in (
        ("plain", {}, "AgentProfile"),
        ("of-all", {"kind": "ClusterAgentProfile"}, "ClusterAgentProfile"),
    ):
        cluster.apply(agent_task(name, profileRef={"name": "p", **said}), namespace=namespace)
        kept = cluster.get("agenttask", name, namespace)["spec"]["profileRef"]
        assert kept == {"name": "p", "kind": kind}
    refused = agent_task("refused", profileRef={"name": "p", "kind": "ConfigMap"})
    with pytest.raises(CommandError, match="Unsupported value"):
        cluster.apply(refused, namespace=namespace)


def test_kubectl_get_shows_what_one_wants_to_know(cluster: Cluster) -> None:
    agent = {"type": "claude", "model": "large", "maxCostUSD": 2.5}
    cluster.apply(cluster_profile("columns", agent=agent))
    lines = cluster.kubectl("get", "clusteragentprofiles", f"{PREFIX}columns").splitlines()
    assert lines[0].split() == ["NAME", "AGENT", "MODEL", "MAX-COST", "AGE"]
    assert lines[1].split()[:-1] == [f"{PREFIX}columns", "claude", "large", "2.5"]
