"""AgentTask as the API server keeps it: defaults, what may change, status, columns."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster import Cluster, CommandError, Object
from support.manifests import agent_task

from orbiter_operator.tasks.plan.events import headline

pytestmark = pytest.mark.e2e

PROMPT_FROM = {"configMapKeyRef": {"name": "prompts", "key": "first"}}


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("chart-crd-agenttask") as name:
        yield name


def test_a_prompt_alone_is_a_task_and_the_defaults_are_filled_in(
    cluster: Cluster, namespace: str
) -> None:
    cluster.apply(agent_task("defaults"), namespace=namespace)
    assert cluster.get("agenttask", "defaults", namespace)["spec"] == {
        "prompt": "Say hello.",
        "agent": {},
        "inputTimeoutSeconds": 259200,
        "retry": {"limit": 0, "backoffSeconds": 10},
        "disruption": {"policy": "Resume", "limit": 10, "checkpointSeconds": 60},
        "priority": 0,
        "desiredState": "Running",
    }


def test_unknown_fields_are_dropped_when_nobody_insists(cluster: Cluster, namespace: str) -> None:
    cluster.apply(agent_task("pruned", promt="x"), "--validate=ignore", namespace=namespace)
    assert "promt" not in cluster.get("at", "pruned", namespace)["spec"]


def test_a_workspace_of_nothing_but_a_setup_is_an_empty_directory(
    cluster: Cluster, namespace: str
) -> None:
    cluster.apply(agent_task("set-up", workspace={"setup": "make"}), namespace=namespace)
    spec = cluster.get("agenttask", "set-up", namespace)["spec"]
    assert spec["workspace"] == {"setup": "make"}


UNCHANGEABLE: dict[str, Any] = {
    "prompt": "Say goodbye.",
    "agent": {"type": "codex"},
    "workspace": {"emptyDir": {}},
    "profileRef": {"name": "house"},
    "timeoutSeconds": 5,
    "retry": {"limit": 3},
    "disruption": {"policy": "Fail"},
    "resumeFrom": "another",
    "artifacts": ["out"],
    "notify": [{"url": "https://a.example.com", "secretRef": {"name": "orbiter-notify"}}],
    "projectId": "p",
    "taskId": "t",
    "dependsOn": ["another"],
    "concurrencyKey": "main",
    "queueName": "q",
    "managedBy": "example.com/runner",
    "podTemplate": {"spec": {"nodeSelector": {"disk": "ssd"}}},
}


@pytest.mark.parametrize("field", UNCHANGEABLE)
def test_a_tasks_work_cannot_be_changed(cluster: Cluster, namespace: str, field: str) -> None:
    cluster.apply(agent_task("fixed"), namespace=namespace)
    with pytest.raises(CommandError) as refused:
        cluster.patch("at", "fixed", {"spec": {field: UNCHANGEABLE[field]}}, namespace)
    assert f"{field} cannot be changed; create a new AgentTask" in str(refused.value)


def test_a_field_once_given_cannot_be_removed(cluster: Cluster, namespace: str) -> None:
    cluster.apply(agent_task("given", podTemplate={"spec": {"hostname": "a"}}), namespace=namespace)
    with pytest.raises(CommandError, match="podTemplate cannot be changed"):
        cluster.patch("at", "given", {"spec": {"podTemplate": None}}, namespace)


def test_a_prompt_cannot_move_into_a_configmap(cluster: Cluster, namespace: str) -> None:
    cluster.apply(agent_task("moved"), namespace=namespace)
    change = {"spec": {"prompt": None, "promptFrom": PROMPT_FROM}}
    with pytest.raises(CommandError, match="promptFrom cannot be changed; create a new AgentTask"):
        cluster.patch("at", "moved", change, namespace)


def test_how_long_a_finished_task_is_kept_may_change(cluster: Cluster, namespace: str) -> None:
    cluster.apply(agent_task("kept"), namespace=namespace)
    cluster.patch("at", "kept", {"spec": {"ttlSecondsAfterFinished": 3600}}, namespace)
    assert cluster.get("at", "kept", namespace)["spec"]["ttlSecondsAfterFinished"] == 3600


def test_how_long_a_question_waits_may_change(cluster: Cluster, namespace: str) -> None:
    cluster.apply(agent_task("patient"), namespace=namespace)
    cluster.patch("at", "patient", {"spec": {"inputTimeoutSeconds": 60}}, namespace)
    with pytest.raises(CommandError, match="inputTimeoutSeconds must be from 1 to 604800"):
        cluster.patch("at", "patient", {"spec": {"inputTimeoutSeconds": 0}}, namespace)


def test_a_cancelled_task_stays_cancelled(cluster: Cluster, namespace: str) -> None:
    cluster.apply(agent_task("cancelled"), namespace=namespace)
    cluster.patch("at", "cancelled", {"spec": {"desiredState": "Cancelled"}}, namespace)
    for back in ("Running", None):
        with pytest.raises(CommandError, match="a cancelled task stays cancelled; create a new"):
            cluster.patch("at", "cancelled", {"spec": {"desiredState": back}}, namespace)


def test_answers_may_be_added_but_not_changed_or_taken_back(
    cluster: Cluster, namespace: str
) -> None:
    first, second = {"id": "q1", "text": "Yes."}, {"id": "q2", "text": "No."}
    cluster.apply(agent_task("answers"), namespace=namespace)
    for answers in ([first], [first, second]):
        cluster.patch("at", "answers", {"spec": {"input": answers}}, namespace)
    changed = [first, {"id": "q2", "text": "Yes."}]
    with pytest.raises(CommandError, match="an answer cannot be changed once given; add answers"):
        cluster.patch("at", "answers", {"spec": {"input": changed}}, namespace)
    for fewer in ([first], None):
        with pytest.raises(CommandError, match="an answer cannot be taken back once given"):
            cluster.patch("at", "answers", {"spec": {"input": fewer}}, namespace)


def test_the_status_is_written_through_its_subresource_only(
    cluster: Cluster, namespace: str
) -> None:
    cluster.apply(agent_task("status"), namespace=namespace)
    status = {"phase": "Completed", "result": {"data": {"any": [{"depth": 1}]}}}
    cluster.patch("at", "status", {"status": status}, namespace)
    # Pending from the first moment, by default and not by a write.
    assert cluster.get("at", "status", namespace)["status"] == {"phase": "Pending"}
    cluster.patch("at", "status", {"status": status}, namespace, "--subresource=status")
    assert cluster.get("at", "status", namespace)["status"] == status


def test_kubectl_get_shows_what_one_wants_to_know(cluster: Cluster, namespace: str) -> None:
    status = {
        "phase": "Failed",
        "reason": "AgentError",
        "message": "no such model, and very much more about it",
        "headline": "no such model",
        "duration": "1m3s",
        "attempts": 2,
        "jobName": "columns-2",
        "agent": {"type": "codex", "model": "large"},
        "disruptions": 3,
        "usage": {"costUSD": 0.25},
    }
    cluster.apply(agent_task("columns"), namespace=namespace)
    cluster.patch("at", "columns", {"status": status}, namespace, "--subresource=status")
    narrow, wide = (
        cluster.kubectl("-n", namespace, "get", "at", "columns", *flags).splitlines()
        for flags in ((), ("-o", "wide"))
    )
    assert narrow[0].split() == ["NAME", "PHASE", "MESSAGE", "DURATION", "AGE"]
    assert narrow[1].split()[:-1] == ["columns", "Failed", "no", "such", "model", "1m3s"]
    assert wide[0].split()[-5:] == ["COST", "ATTEMPTS", "JOB", "REASON", "DISRUPTIONS"]
    assert wide[1].split()[2] == "codex"
    assert wide[1].split()[-5:] == ["0.25", "2", "columns-2", "AgentError", "3"]


def test_kubectl_get_has_less_than_120_columns_whatever_the_message(
    cluster: Cluster, namespace: str
) -> None:
    name = "a" * 40 + "-x7k2p"
    message = "which branch shall it be? " * 5
    status = {
        "phase": "InputRequired",
        "message": message,
        "headline": headline(message),
        "duration": "167h59m",
    }
    cluster.apply(agent_task(name), namespace=namespace)
    cluster.patch("at", name, {"status": status}, namespace, "--subresource=status")
    lines = cluster.kubectl("-n", namespace, "get", "at", name).splitlines()
    assert max(map(len, lines)) < 120
    assert "which branch shall it be? which br…" in lines[1]


def test_tasks_are_in_the_categories_all_and_orbiter(cluster: Cluster, namespace: str) -> None:
    cluster.apply(agent_task("listed"), namespace=namespace)
    for category in ("all", "orbiter"):
        listed = cluster.kubectl("-n", namespace, "get", category, "-o", "name")
        assert "agenttask.orbiter.dev/listed" in listed


@pytest.mark.parametrize("kind", ["agenttask", "posession", "agentprofile", "clusteragentprofile"])
def test_kubectl_explain_has_a_text_for_every_field(cluster: Cluster, kind: str) -> None:
    listing = json.loads(cluster.kubectl("get", "--raw", "/openapi/v3/apis/orbiter.dev/v1alpha1"))
    schemas = listing["components"]["schemas"]
    published = next(found for name, found in schemas.items() if name.lower().endswith(f".{kind}"))
    silent = [path for path, field in _fields(published) if not field.get("description")]
    assert silent == []
    explained = cluster.kubectl("explain", f"{kind}.spec.agent.credentialsSecretRef")
    assert "environment variables the agent reads" in " ".join(explained.split())


def _fields(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    for name, field in schema.get("properties", {}).items():
        if f"{path}.{name}" != ".metadata":
            yield f"{path}.{name}", field
            yield from _fields(field, f"{path}.{name}")
            yield from _fields(field.get("items", {}), f"{path}.{name}[]")
