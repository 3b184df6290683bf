"""The AgentTasks as last seen, and their Jobs and Pods beside.

A change enqueues the keys of the tasks it may matter to: the task itself, and those that depend on
it when its phase changes. Which Jobs and Pods are a task's own, and which of a pod's changes matter
(others would keep the work queue busy), is read here too.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from orbiter_contracts import Route
from orbiter_contracts.queues import BARE
from orbiter_operator.kube.cache import Children, ObjectCache
from orbiter_operator.kube.names import (
    ATTEMPT,
    RESUME,
    TASK,
    TASK_UID,
    Key,
    job_name,
    label_of,
    owner_of,
    read_number,
)
from orbiter_operator.pods.state import JobState, PodState, job_state, pod_state
from orbiter_operator.tasks.models import FINAL

Object = dict[str, Any]
KIND = "AgentTask"
_ORDINARY = {
    *("job", "node", "image", "restarts", "exit_reason", "exit_code", "exit_message"),
    *("exit_of", "skills"),
    *("running_since", "ran_since", "redis_secret", "scheduled_at"),
}
START_IN_VAIN = (
    *("SecretMissing", "ConfigError", "ImagePullFailed", "Unschedulable", "PodNotCreated"),
    "ContainerCreating",
)
_ACTED_ON = ("began", *(name for name in PodState.model_fields if name not in _ORDINARY))


class TaskCache(ObjectCache):
    """AgentTasks by key, and the state of their children.

    Args:
        enqueue: Called with the key of every task for which something has changed.
    """

    def __init__(self, enqueue: Callable[[Key], None]) -> None:
        super().__init__(KIND, enqueue)
        self.jobs: Children[JobState] = Children(job_of_attempt, enqueue)
        self.pods: Children[PodState] = Children(pod_of_attempt, enqueue, matters=pod_matters)
        self._dependents: dict[Key, set[Key]] = defaultdict(set)

    def unfinished(self, namespace: str, name: str) -> str | None:
        """The uid of the task of this name; None when it is over or not there."""
        obj = self.get(Key(namespace, name))
        return None if obj is None or phase_of(obj) in FINAL else str(obj["metadata"]["uid"])

    def is_unfinished(self, key: Key, uid: str) -> bool:
        """Whether a task of this key and uid is there, and not over."""
        return self.unfinished(key.namespace, key.name) == uid

    def children(self, key: Key, uid: str) -> dict[str, Any]:
        """The Jobs and Pods of a task, in their order, as `Observed` has them."""
        jobs: list[JobState] = self.jobs.of(key, uid)
        pods: list[PodState] = self.pods.of(key, uid)
        jobs.sort(key=lambda job: (job.attempt, job.resume))
        # The pod of a Job that is gone may still work. One of another Job is none of ours, and no
        # Job is made while a pod of the one before it works.
        uids = {job.attempt: job.uid for job in jobs}
        return {
            "jobs": tuple(jobs),
            "pods": tuple(
                sorted(
                    (pod for pod in pods if uids.get(pod.attempt, pod.job) == pod.job),
                    key=lambda pod: (pod.attempt, pod.created, not pod.over, pod.name),
                )
            ),
        }

    def begun(self, key: Key, obj: Object) -> bool:
        """Whether an attempt of the task has begun: its status learns of it behind its Job."""
        uid, status = obj["metadata"]["uid"], obj.get("status") or {}
        return bool(status.get("attempts") or self.jobs.of(key, uid) or self.pods.of(key, uid))

    def wake(self, namespace: str) -> None:
        """Something has changed in a namespace that its tasks look at before they begin.

        Args:
            namespace: Which; empty for what is the cluster's.
        """
        for key in self:
            obj = self.get(key) or {}
            began = (obj.get("status") or {}).get("attempts") or phase_of(obj) in FINAL
            if namespace in ("", key.namespace) and not began:
                self._enqueue(key)

    def phase(self, namespace: str, name: str) -> str | None:
        """The phase of the task of this name; None when there is none."""
        obj = self.get(Key(namespace, name))
        return None if obj is None else phase_of(obj)

    def depends_on(self, namespace: str, name: str) -> list[str]:
        """The names in the dependsOn of the task of this name."""
        return _dependencies(self.get(Key(namespace, name)) or {})

    def began_bare(self, route: Route) -> bool:
        """Whether an attempt has begun under the keys without a prefix (see `attempt_of`)."""
        key = Key(route.namespace, route.name)
        obj = self.get(key)
        if obj is None:
            return False
        for job in self.jobs.of(key, obj["metadata"]["uid"]):
            if job.attempt == route.attempt:
                return not job.prefix
        status = obj.get("status") or {}
        stream = status.get("inputStream") or BARE.developer_input
        return status.get("attempts") == route.attempt and stream == BARE.developer_input

    def dependents(self, key: Key) -> list[Key]:
        """Tasks that name this one in their dependsOn."""
        return list(self._dependents.get(key, ()))

    def dependents_wait(self, key: Key) -> bool:
        """Whether a task has yet to see that this one was completed, or may read its result."""
        found = (self.get(dependent) for dependent in self.dependents(key))
        return any(obj is not None and _waits_or_reads(obj) for obj in found)

    def _added(self, key: Key, old: Object | None, obj: Object) -> None:
        if phase_of(obj) in FINAL:
            # No decision needs these any more.
            obj["spec"].pop("prompt", None)
            (obj["status"].get("result") or {}).pop("data", None)
        for name in _dependencies(obj):
            self._dependents[Key(key.namespace, name)].add(key)
        if old is None or not _only_runs_now(old, obj):
            self._enqueue(key)
        if old is None or phase_of(old) != phase_of(obj):
            self._enqueue_dependents(key)

    def _dropped(self, key: Key, old: Object) -> None:
        for name in _dependencies(old):
            on = Key(key.namespace, name)
            dependents = self._dependents.get(on, set())
            dependents.discard(key)
            if not dependents:
                self._dependents.pop(on, None)
        self._enqueue_dependents(key)

    def _enqueue_dependents(self, key: Key) -> None:
        for dependent in self.dependents(key):
            self._enqueue(dependent)


def phase_of(obj: Object) -> str:
    """The phase of an AgentTask; empty before the first."""
    return str((obj.get("status") or {}).get("phase") or "")


def cannot_start(obj: Object | None) -> bool:
    """Whether a task waits with its Job for what somebody has to see to."""
    status = (obj or {}).get("status") or {}
    return status.get("phase") == "Pending" and status.get("reason") in START_IN_VAIN


def _only_runs_now(old: Object, obj: Object) -> bool:
    """Whether nothing is new but that its status says Running: nothing follows from that."""
    before, meta = old["metadata"], obj["metadata"]
    fields = ("generation", "annotations", "labels", "deletionTimestamp", "uid")
    return phase_of(obj) == "Running" and all(before.get(name) == meta.get(name) for name in fields)


def _waits_or_reads(obj: Object) -> bool:
    """Whether a task waits for others; or may begin again with what these have reported."""
    phase, spec = phase_of(obj), obj.get("spec") or {}
    if phase in ("", "Pending"):
        return True
    # Asked in every pass, so not by the whole grammar: one that only looks so is waited for too.
    reads = "promptFrom" in spec or "${{" in (spec.get("prompt") or "")
    return phase not in FINAL and reads


def _dependencies(obj: Object) -> list[str]:
    return (obj.get("spec") or {}).get("dependsOn") or []


def job_of_attempt(obj: dict[str, Any]) -> JobState | None:
    """Read a Job; None when it is no attempt of an AgentTask, whatever its labels say."""
    meta = obj["metadata"]
    owner, attempt, resume = (
        owner_of(obj, "AgentTask"),
        read_number(label_of(obj, ATTEMPT)),
        _resume(obj),
    )
    if owner is None or attempt is None or label_of(obj, TASK) != owner[0]:
        return None
    if meta["name"] != job_name(owner[0], attempt, resume):
        return None
    return job_state(obj, owner=owner[1], attempt=attempt, resume=resume)


def pod_of_attempt(obj: dict[str, Any]) -> PodState | None:
    """Read a Pod; None when it is not a worker of an attempt, whatever its labels say.

    A worker's pod is its Job's. Which Job that is, `observe` asks where it still exists.
    """
    owner, attempt = owner_of(obj, "Job"), read_number(label_of(obj, ATTEMPT))
    task, uid = label_of(obj, TASK), label_of(obj, TASK_UID)
    if owner is None or attempt is None or not task or not uid:
        return None
    if owner[0] != job_name(task, attempt, _resume(obj)):
        return None
    return pod_state(obj, owner=uid, attempt=attempt, job=owner[1])


def pod_matters(pod: PodState, before: PodState | None) -> bool:
    """Whether a decision may hang on what has changed; not the ordinary course of things.

    That a pod was made and got a node leads to its running, and that its container has ended to
    its end. Nothing is done about either before that.
    """
    if before is None:
        before = PodState(name=pod.name, owner=pod.owner, created=pod.created, attempt=pod.attempt)
    return any(getattr(pod, name) != getattr(before, name) for name in _ACTED_ON)


def _resume(obj: Object) -> int:
    return read_number(label_of(obj, RESUME)) or 0
