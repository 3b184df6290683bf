"""AgentProfile as the API server keeps it: no defaults, what is refused in which words, columns."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster import Cluster, CommandError, Object
from support.manifests import API_VERSION, agent_task

pytestmark = pytest.mark.e2e
BEDROCK = {"roleARN": "arn:aws:iam::123456789012:role/agents", "region": "eu-central-1"}


GIT = {"url": "https://git.example.com/team/skills.git"}


def skill(**changes: Any) -> Object:
    """The spec of a profile with a skill of a repository."""
    return {"agent": {"skills": [{"name": "notes", "git": GIT | changes}]}}


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("chart-crd-agentprofile") as name:
        yield name


def agent_profile(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "AgentProfile",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_profile_keeps_what_it_says_and_nothing_is_filled_in(
    cluster: Cluster, namespace: str
) -> None:
    said = {"agent": {"model": "large"}, "allowOverrides": ["model", "*"]}
    secret = {"name": "git-credentials"}
    skilled = skill(ref="v1.2", path="skills/.house/notes..2", credentialsSecretRef=secret)
    for name, spec in (("empty", {}), ("some", said), ("skilled", skilled)):
        cluster.apply(agent_profile(name, **spec), namespace=namespace)
        assert cluster.get("agentprofile", name, namespace)["spec"] == spec


def test_a_profile_may_be_changed(cluster: Cluster, namespace: str) -> None:
    for kind in ("codex", "claude"):
        cluster.apply(agent_profile("changed", agent={"type": kind}), namespace=namespace)
        assert cluster.get("ap", "changed", namespace)["spec"]["agent"]["type"] == kind


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"agent": {"type": "cursor"}}, "unknown agent type; write one of claude"),
        ({"timeoutSeconds": 0}, "timeoutSeconds must be from 1 to 604800"),
        ({"allowOverrides": ["prompt"]}, "Unsupported value"),
        ({"agent": {"env": [{"name": "REDIS_URL", "value": "x"}]}}, "reserved for the worker"),
        ({"agent": {"mcpServers": [{"name": "Docs", "url": "https://a/"}]}}, "name of a server"),
        ({"agent": {"instructions": {}}}, "exactly one of text and configMapKeyRef"),
        (
            {"agent": {"skills": [{"name": "A", "configMapRef": {"name": "a"}}]}},
            "not the name of a skill",
        ),
        ({"agent": {"skills": [{"name": "a"}]}}, "exactly one of configMapRef and git"),
        ({"agent": {"skills": [{"name": "../../x", "git": GIT}]}}, "not the name of a skill"),
        (skill(url="file:///etc"), "write an https://, http://, ssh:// or git:// URL"),
        (skill(url="https://u:p@example.com/r.git"), "the URL contains credentials"),
        (skill(ref="-x"), "write the name of a branch or tag, or a commit id"),
        (skill(path="../x"), "write a directory of the repository"),
        (skill(path="/etc"), "write a directory of the repository"),
        (
            skill(credentialsSecretRef={"name": "orbiter-redis"}),
            "orbiter-redis is a Secret of Orbiter itself",
        ),
        ({"agent": {"mcpServers": [{"name": "docs"}]}}, "exactly one of url and command"),
        ({"agent": {"mcpServers": [{"name": "docs", "url": "https://u:p@a/"}]}}, "without a user"),
        (
            {"agent": {"mcpServers": [{"name": "a", "url": "https://a/", "args": ["x"]}]}},
            "args and env are for a command",
        ),
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
    cluster: Cluster, namespace: str, spec: Object, sentence: str
) -> None:
    with pytest.raises(CommandError) as refused:
        cluster.apply(agent_profile("refused", **spec), namespace=namespace)
    assert sentence in str(refused.value)


def test_a_task_names_a_profile_by_a_name_that_one_may_have(
    cluster: Cluster, namespace: str
) -> None:
    with pytest.raises(CommandError, match="not the name of a profile"):
        cluster.apply(agent_task("named", profileRef={"name": "../x"}), namespace=namespace)


def test_kubectl_get_shows_what_one_wants_to_know(cluster: Cluster, namespace: str) -> None:
    agent = {"type": "claude", "model": "large", "maxCostUSD": 2.5}
    cluster.apply(agent_profile("columns", agent=agent), namespace=namespace)
    lines = cluster.kubectl("-n", namespace, "get", "agentprofiles", "columns").splitlines()
    assert lines[0].split() == ["NAME", "AGENT", "MODEL", "MAX-COST", "AGE"]
    assert lines[1].split()[:-1] == ["columns", "claude", "large", "2.5"]
