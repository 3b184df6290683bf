"""What is remembered of the cluster, and whom a change concerns."""

from typing import Any

import pytest
from support.observed import UID

from orbiter_operator.kube.names import Key
from orbiter_operator.tasks.cache import TaskCache

TASK = Key("team", "fix")


@pytest.fixture
def enqueued() -> list[Key]:
    """The keys that were enqueued."""
    return []


@pytest.fixture
def store(enqueued: list[Key]) -> TaskCache:
    return TaskCache(enqueued.append)


def task(version: int, name: str = "fix", uid: str = UID, **spec: Any) -> dict[str, Any]:
    phase = spec.pop("phase", None)
    return {
        "metadata": {
            "namespace": "team",
            "name": name,
            "uid": uid,
            "resourceVersion": str(version),
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"prompt": "do it", **spec},
        "status": {"phase": phase, "result": {"data": {"a": 1}}} if phase else {},
    }


def job(version: int, uid: str = "j1", owner: str = UID, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "team",
            "name": "fix-1",
            "uid": uid,
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"orbiter.dev/agenttask": "fix", "orbiter.dev/attempt": "1"},
            "ownerReferences": [
                {"kind": "AgentTask", "name": "fix", "uid": owner, "controller": True}
            ],
        },
        "spec": {},
        "status": status,
    }


FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}


def test_a_new_task_is_remembered_and_enqueued(store, enqueued):
    store.put(task(1))
    assert store.get(TASK)["spec"]["prompt"] == "do it"
    assert enqueued == [TASK]


def test_an_older_version_never_replaces_a_newer_one(store, enqueued):
    store.put(task(5, phase="Running"))
    enqueued.clear()
    store.put(task(4))
    assert store.get(TASK)["status"]["phase"] == "Running"
    assert enqueued == []


def test_what_was_deleted_does_not_come_back_with_a_late_event(store):
    store.put(task(1))
    store.remove(task(2))
    store.put(task(1))
    assert store.get(TASK) is None


def test_a_task_of_the_same_name_made_anew_is_another_one(store):
    store.put(task(1))
    store.put(task(7, uid="other"))
    store.remove(task(6))
    assert store.get(TASK)["metadata"]["uid"] == "other"
    assert [obj["metadata"]["uid"] for obj in store.removed(TASK)] == [UID]


def test_dependents_are_enqueued_when_a_phase_changes_and_only_then(store, enqueued):
    store.put(task(1, name="last", uid="u2", dependsOn=["fix"]))
    store.put(task(2))
    assert enqueued.count(Key("team", "last")) == 2
    store.put(task(3))
    assert enqueued.count(Key("team", "last")) == 2
    store.put(task(4, phase="Completed"))
    assert enqueued.count(Key("team", "last")) == 3


def test_dependents_are_enqueued_at_a_deletion(store, enqueued):
    store.put(task(1))
    store.put(task(2, name="last", uid="u2", dependsOn=["fix"]))
    enqueued.clear()
    store.remove(task(3))
    assert set(enqueued) == {TASK, Key("team", "last")}


def test_a_finished_task_is_kept_without_its_prompt_and_data(store):
    store.put(task(1, phase="Completed"))
    kept = store.get(TASK)
    assert "prompt" not in kept["spec"]
    assert "data" not in kept["status"]["result"]
    assert "managedFields" not in kept["metadata"]


def test_a_job_is_found_by_its_task(store, enqueued):
    store.jobs.put(job(1))
    (found,) = store.jobs.of(TASK, UID)
    assert (found.name, found.attempt, found.state) == ("fix-1", 1, "active")
    assert enqueued == [TASK]


def test_the_job_of_an_earlier_task_of_the_same_name_is_not_ours(store):
    store.jobs.put(job(1, owner="somebody"))
    assert store.jobs.of(TASK, UID) == []


def test_a_change_of_a_job_that_changes_no_state_enqueues_nothing(store, enqueued):
    store.jobs.put(job(1))
    enqueued.clear()
    store.jobs.put(job(2, ready=1))
    assert enqueued == []
    store.jobs.put(job(3, **FAILED))
    assert enqueued == [TASK]
    assert store.jobs.of(TASK, UID)[0].reason == "DeadlineExceeded"


def test_a_deleted_job_does_not_come_back_with_the_answer_to_its_own_creation(store):
    store.jobs.put(job(1))
    store.jobs.remove(job(2))
    store.jobs.put(job(1))
    assert store.jobs.of(TASK, UID) == []


def test_a_list_tells_what_was_deleted_unnoticed_but_not_what_is_newer_than_it(store):
    store.jobs.put(job(10))
    assert store.jobs.missing_from(set(), 9) == []
    (gone,) = store.jobs.missing_from(set(), 10)
    assert gone["metadata"]["uid"] == "j1"
    assert store.jobs.missing_from({"j1"}, 10) == []


def test_a_job_that_is_not_ours_is_ignored(store, enqueued):
    foreign = job(1)
    del foreign["metadata"]["ownerReferences"]
    store.jobs.put(foreign)
    assert enqueued == []


def test_that_a_task_runs_now_enqueues_nothing(store, enqueued):
    store.put(task(1))
    enqueued.clear()
    store.put(task(2, phase="Running"))
    assert store.get(TASK)["status"]["phase"] == "Running"
    assert enqueued == []
    changed = task(3, phase="Running")
    changed["metadata"]["generation"] = 2
    store.put(changed)
    assert enqueued == [TASK]
    store.put(task(4, phase="Completed"))
    assert enqueued == [TASK, TASK]


def pod(version: int, **status: Any) -> dict[str, Any]:
    node = status.pop("node", None)
    made = job(version, uid="p1")
    made["metadata"]["name"] = "fix-1-abcde"
    made["metadata"]["labels"]["orbiter.dev/agenttask-uid"] = UID
    owner = {"kind": "Job", "name": "fix-1", "uid": "j1", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    secret = {"secretKeyRef": {"name": "orbiter-redis-workers", "key": "developer-url"}}
    variables = [{"name": "REDIS_URL", "valueFrom": secret}]
    made["spec"] = {"containers": [{"name": "worker", "env": variables}]}
    made["spec"] |= {"nodeName": node} if node else {}
    made["status"] = {"phase": "Pending"} | status
    return made


def worker(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "worker", "state": state}]}


ENDED = {"exitCode": 0, "reason": "Completed", "startedAt": "2026-01-01T00:00:05Z"}


def test_the_ordinary_course_of_a_pod_enqueues_twice(store, enqueued):
    store.pods.put(pod(1))
    store.pods.put(pod(2, node="n1"))
    store.pods.put(pod(3, node="n1", **worker(waiting={"reason": "ContainerCreating"})))
    assert enqueued == []
    running = worker(running={"startedAt": "2026-01-01T00:00:05Z"})
    store.pods.put(pod(4, node="n1", phase="Running", **running))
    assert enqueued == [TASK]
    store.pods.put(pod(5, node="n1", phase="Running", **worker(terminated=ENDED)))
    assert enqueued == [TASK]
    store.pods.put(pod(6, node="n1", phase="Succeeded", **worker(terminated=ENDED)))
    assert enqueued == [TASK, TASK]
    assert store.pods.of(TASK, UID)[0].exit_code == 0


@pytest.mark.parametrize(
    "status",
    [
        worker(waiting={"reason": "ErrImagePull", "message": "not found"}),
        {
            "conditions": [
                {"type": "PodScheduled", "reason": "Unschedulable", "message": "no memory"}
            ]
        },
        {"phase": "Failed", **worker(terminated=ENDED | {"exitCode": 137})},
    ],
)
def test_what_goes_wrong_with_a_pod_enqueues_even_when_it_is_new(store, enqueued, status):
    store.pods.put(pod(1, **status))
    assert enqueued == [TASK]


def test_nothing_is_kept_of_what_deleted_tasks_depended_on(store):
    store.put(task(1, "second", "u2", dependsOn=["fix", "more"]))
    store.put(task(2, "second", "u3", dependsOn=["fix"]))
    assert store.dependents(TASK) == [Key("team", "second")]
    store.remove(task(3, "second", "u3", dependsOn=["fix"]))
    assert store._dependents == {}
