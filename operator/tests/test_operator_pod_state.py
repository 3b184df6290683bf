"""Pods as the API server has them, and the facts they come to."""

from typing import Any

import pytest

from orbiter_operator.kube.names import ENTRY, REQUEST, task_name
from orbiter_operator.pods.state import key_prefix
from orbiter_operator.tasks.cache import pod_of_attempt
from orbiter_operator.tasks.job import read_adoption
from orbiter_operator.tasks.observed import Adopted


def pod(status: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "p",
            "labels": {
                "orbiter.dev/agenttask": "fix",
                "orbiter.dev/agenttask-uid": "u",
                "orbiter.dev/attempt": "2",
            },
            "ownerReferences": [{"kind": "Job", "name": "fix-2", "uid": "j", "controller": True}],
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **meta,
        },
        "spec": {"nodeName": "n1"},
        "status": status,
    }


def container(state: dict[str, Any], name: str = "worker") -> dict[str, Any]:
    return {"name": name, "state": state}


RUNNING = {"running": {"startedAt": "2026-01-01T00:00:05Z"}}


def test_a_running_worker_has_a_time_since_when():
    seen = pod_of_attempt(pod({"phase": "Running", "containerStatuses": [container(RUNNING)]}))
    assert seen.running_since.second == 5
    assert (seen.attempt, seen.owner, seen.node) == (2, "u", "n1")


@pytest.mark.parametrize(
    ("variable", "prefix"),
    [
        ({"value": "{team}:"}, "{team}:"),
        ({}, ""),
        ({"value": None}, ""),
        ({"value": ""}, ""),
        ({"value": "{no prefix"}, ""),
        ({"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, ""),
    ],
)
def test_the_prefix_of_a_workers_keys_is_read_whatever_its_variable_is(variable, prefix):
    worker = {"name": "worker", "env": [{"name": "KEY_PREFIX", **variable}]}
    assert key_prefix({"spec": {"template": {"spec": {"containers": [worker]}}}}) == prefix


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_the_ordinary_course_of_things_is_no_waiting(reason):
    state = {"waiting": {"reason": reason}}
    seen = pod_of_attempt(pod({"phase": "Pending", "containerStatuses": [container(state)]}))
    assert seen.waiting_reason == ""


def test_what_a_container_waits_for_is_a_fact():
    state = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    status = {
        "phase": "Pending",
        "startTime": "2026-01-01T00:00:01Z",
        "containerStatuses": [container(state)],
    }
    seen = pod_of_attempt(pod(status))
    assert (seen.waiting_reason, seen.waiting_message) == ("ErrImagePull", "not found")
    assert seen.waiting_since.second == 1


def test_a_helper_that_waits_is_a_fact_but_one_that_ends_is_not():
    waits = container({"waiting": {"reason": "ErrImagePull"}}, "helper")
    ended = container({"terminated": {"exitCode": 3, "reason": "Error"}}, "helper")
    status = {"phase": "Running", "containerStatuses": [container(RUNNING), waits]}
    assert pod_of_attempt(pod(status)).waiting_reason == "ErrImagePull"
    status = {"phase": "Running", "containerStatuses": [ended, container(RUNNING)]}
    assert pod_of_attempt(pod(status)).exit_code is None


def test_how_the_worker_ended_is_a_fact():
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "last words"}}
    seen = pod_of_attempt(pod({"phase": "Failed", "containerStatuses": [container(ended)]}))
    assert (seen.exit_reason, seen.exit_code) == ("OOMKilled", 137)
    assert seen.exit_message == "last words"
    assert seen.over


def test_an_init_container_that_failed_is_how_the_pod_ended():
    ended = {"terminated": {"exitCode": 2, "reason": "Error"}}
    status = {
        "phase": "Failed",
        "initContainerStatuses": [container(ended, "init")],
        "containerStatuses": [container({"waiting": {"reason": "PodInitializing"}})],
    }
    assert pod_of_attempt(pod(status)).exit_code == 2


def test_no_node_is_a_fact():
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "m",
    }
    assert pod_of_attempt(pod({"phase": "Pending", "conditions": [condition]})).unschedulable == "m"


def test_a_disruption_is_a_fact():
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    seen = pod_of_attempt(pod({"phase": "Running", "conditions": [condition]}))
    assert seen.disruption == "EvictionByEvictionAPI"


def test_a_pod_without_our_labels_is_not_ours():
    assert pod_of_attempt({"metadata": {"name": "p", "labels": {}}, "status": {}}) is None


def annotated(entry: str, **changes: Any) -> dict[str, Any]:
    """Metadata of the task that the operator makes of an entry, but for what differs."""
    meta = {"namespace": "team", "name": task_name(entry)}
    return meta | {"annotations": {ENTRY: entry, REQUEST: "theirs"}} | changes


def test_a_task_is_an_entrys_when_its_name_and_its_namespace_are_those_the_operator_gives():
    adopted = Adopted(entry="17-0", request_id="theirs")
    assert read_adoption(annotated("17-0"), "team") == (adopted, None)


def test_a_task_without_the_annotation_is_an_ordinary_one():
    assert read_adoption({"namespace": "team", "name": "fix"}, "team") == (None, None)


@pytest.mark.parametrize(
    ("meta", "namespace"),
    [
        (annotated("17-0", name="fix"), "team"),
        (annotated("17-0", namespace="other"), "team"),
        (annotated("17-0"), "other"),
        (annotated("17-0"), ""),
        (annotated("17-0", annotations={ENTRY: "17-0"}), "team"),
        (annotated("17-0", annotations={ENTRY: "17-0", REQUEST: ""}), "team"),
    ],
)
def test_a_task_that_claims_an_entry_it_cannot_be_made_of_is_an_ordinary_one(meta, namespace):
    adopted, why = read_adoption(meta, namespace)
    assert adopted is None
    assert "runs its own prompt" in why
    assert "leave the annotation out" in why


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "x",
        "1",
        "1-",
        "-1",
        "1-0-0",
        "01-0",
        "9" * 30 + "-0",
        "+",
        "\u0662-0",
        "1-0\n",
        "a" * 9999,
    ],
)
def test_an_annotation_that_is_no_id_of_redis_is_ignored_and_quoted_in_brief(entry):
    adopted, why = read_adoption(annotated(entry), "team")
    assert adopted is None
    assert len(why) < 300


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": "its last words"}}


def test_a_clone_that_has_ended_and_a_push_that_runs_say_nothing_of_the_worker():
    push = container(RUNNING, "git-push") | {"lastState": ended(137, "OOMKilled")}
    status = {
        "phase": "Running",
        "initContainerStatuses": [container(ended(0, "Completed"), "git-clone"), push],
        "containerStatuses": [container(RUNNING)],
    }
    facts = pod_of_attempt(pod(status))
    assert (facts.running_since.second, facts.exit_code, facts.exit_reason) == (5, None, "")


def test_a_push_that_had_to_be_killed_leaves_the_worker_its_own_end():
    status = {
        "phase": "Succeeded",
        "initContainerStatuses": [container(ended(137), "git-push")],
        "containerStatuses": [container(ended(0, "Completed"))],
    }
    facts = pod_of_attempt(pod(status))
    assert (facts.exit_code, facts.exit_reason, facts.over) == (0, "Completed", True)


def test_a_clone_that_was_killed_is_why_the_worker_never_ran():
    waiting = {"waiting": {"reason": "PodInitializing"}}
    status = {
        "phase": "Failed",
        "initContainerStatuses": [container(ended(137, "OOMKilled"), "git-clone")],
        "containerStatuses": [container(waiting)],
    }
    facts = pod_of_attempt(pod(status))
    assert (facts.exit_reason, facts.exit_message) == ("OOMKilled", "its last words")
