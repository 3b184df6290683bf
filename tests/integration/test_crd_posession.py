"""POSession as the API server keeps it: what it refuses and why, defaults, what may change."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster import Cluster, CommandError, Object
from support.manifests import po_session

pytestmark = pytest.mark.e2e

CLAIM = {"persistentVolumeClaim": {"claimName": "memory"}}
BEDROCK = {"roleARN": "arn:aws:iam::123456789012:role/agents", "region": "eu-central-1"}


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("chart-crd-posession") as name:
        yield name


REFUSED_SPECS: dict[str, tuple[Object, str]] = {
    "no user": ({"userId": None}, "spec.userId: Required value"),
    "unknown agent": (
        {"agent": {"type": "gtp"}},
        "unknown agent type; write one of claude, codex,",
    ),
    "a worker id with a colon": (
        {"workerId": "default.a:b"},
        "write the session's own namespace, a dot, and letters, digits, '.', '_' and '-', for "
        "instance default.alice",
    ),
    "a worker id without a namespace": (
        {"workerId": "alice"},
        "write the session's own namespace, a dot, and letters",
    ),
    "a worker id of a namespace alone": (
        {"workerId": "default."},
        "write the session's own namespace, a dot, and letters",
    ),
    "our own secret as credentials": (
        {"agent": {"credentialsSecretRef": {"name": "orbiter-redis"}}},
        "orbiter-redis is a Secret of Orbiter itself; name one of your own",
    ),
    "a way that the agent does not have": (
        {"agent": {"type": "codex", "auth": {"type": "Bedrock", "bedrock": BEDROCK}}},
        "this agent.type does not have that way to its model; write APIKey or Gateway, or",
    ),
    "a command without a slash": (
        {"rotation": {"commands": ["new"]}},
        "write one word that starts with /, for instance /new",
    ),
    "a similarity above 1": (
        {"rotation": {"topicSimilarity": 1.5}},
        "spec.rotation.topicSimilarity in body should be less than or equal to 1",
    ),
    "no idle time": (
        {"idle": {"scaleToZeroAfterSeconds": 0}},
        "spec.idle.scaleToZeroAfterSeconds in body should be greater than or equal to 1",
    ),
    "a volume without a claim": (
        {"persistence": {"type": "PersistentVolumeClaim"}},
        "type PersistentVolumeClaim needs persistentVolumeClaim.claimName; write the name",
    ),
    "a claim that is not used": (
        {"persistence": CLAIM},
        "persistentVolumeClaim is used with type PersistentVolumeClaim only",
    ),
    "unknown mode": (
        {"operatingMode": "Paused"},
        'Unsupported value: "Paused": supported values: "Running", "Suspended"',
    ),
    "misspelt field": ({"usreId": 2}, 'unknown field "spec.usreId"'),
}


@pytest.mark.parametrize("case", REFUSED_SPECS)
def test_a_mistake_is_refused_with_a_sentence(cluster: Cluster, namespace: str, case: str) -> None:
    spec, sentence = REFUSED_SPECS[case]
    manifest = po_session("refused", **spec)
    with pytest.raises(CommandError) as refused:
        cluster.apply(manifest, "--dry-run=server", "--validate=strict", namespace=namespace)
    assert sentence in str(refused.value)


def test_a_user_alone_is_a_session_and_the_defaults_are_filled_in(
    cluster: Cluster, namespace: str
) -> None:
    cluster.apply(po_session("defaults", userId=7), namespace=namespace)
    assert cluster.get("pos", "defaults", namespace)["spec"] == {
        "userId": 7,
        "agent": {"type": "claude"},
        "operatingMode": "Running",
        "idle": {"scaleToZeroAfterSeconds": 900},
        "rotation": {"afterIdleSeconds": 1800, "maxTokens": 100000, "commands": ["/new"]},
        "streaming": "Disabled",
        "persistence": {"type": "Snapshot"},
        "retainPolicy": "Delete",
    }


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"userId": 2}, "userId cannot be changed; create a new POSession for another user"),
        (
            {"workerId": "default.other"},
            "workerId cannot be changed because the streams are named after it",
        ),
        ({"sessionId": "other"}, "sessionId cannot be changed; create a new POSession"),
        ({"agent": {"type": "codex"}}, "agent.type cannot be changed because another agent"),
        (
            {"persistence": {"type": "None"}},
            "persistence cannot be changed; create a new POSession",
        ),
    ],
)
def test_who_talks_to_whom_cannot_be_changed(
    cluster: Cluster, namespace: str, change: Object, sentence: str
) -> None:
    cluster.apply(po_session("fixed"), namespace=namespace)
    with pytest.raises(CommandError) as refused:
        cluster.patch("pos", "fixed", {"spec": change}, namespace)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        {"operatingMode": "Suspended"},
        {"agent": {"model": "another"}},
        {"idle": {"scaleToZeroAfterSeconds": 60}},
        {"streaming": "Enabled"},
    ],
)
def test_how_the_conversation_is_kept_may_change(
    cluster: Cluster, namespace: str, change: dict[str, Any]
) -> None:
    cluster.apply(po_session("free"), namespace=namespace)
    cluster.patch("pos", "free", {"spec": change}, namespace)
    [(field, value)] = change.items()
    stored = cluster.get("pos", "free", namespace)["spec"][field]
    assert stored == (stored | value if isinstance(value, dict) else value)


def test_another_profile_can_be_named(cluster: Cluster, namespace: str) -> None:
    cluster.apply(po_session("profiled", profileRef={"name": "house"}), namespace=namespace)
    kept = cluster.get("pos", "profiled", namespace)["spec"]["profileRef"]
    assert kept == {"kind": "AgentProfile", "name": "house"}
    other = {"kind": "ClusterAgentProfile", "name": "strict"}
    cluster.patch("pos", "profiled", {"spec": {"profileRef": other}}, namespace)
    assert cluster.get("pos", "profiled", namespace)["spec"]["profileRef"] == other


def test_kubectl_get_tells_the_story(cluster: Cluster, namespace: str) -> None:
    status = {
        "phase": "Asleep",
        "pendingMessages": 0,
        "turns": 3,
        "sessionId": "s-1",
        "replicas": 0,
        "lastActivityTime": "2026-01-01T00:00:00Z",
        "usage": {"costUSD": 0.5},
        "disruptions": 2,
    }
    cluster.apply(po_session("columns", userId=42), namespace=namespace)
    cluster.patch("pos", "columns", {"status": status}, namespace, "--subresource=status")
    wide = cluster.kubectl("-n", namespace, "get", "pos", "columns", "-o", "wide").splitlines()
    narrow = cluster.kubectl("-n", namespace, "get", "pos", "columns").splitlines()
    words = ["NAME", "PHASE", "USER", "AGENT", "PENDING", "TURNS", "LAST-ACTIVITY", "AGE"]
    assert narrow[0].split() == words
    assert narrow[1].split()[:6] == ["columns", "Asleep", "42", "claude", "0", "3"]
    assert wide[0].split() == [*words, "REASON", "SESSION", "REPLICAS", "COST", "DISRUPTIONS"]
    assert wide[1].split()[-4:] == ["s-1", "0", "0.5", "2"]
