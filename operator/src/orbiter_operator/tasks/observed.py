"""What is known about one AgentTask at one moment: the input of `plan`.

Also how it is read: the spec, the annotations of an adopted task, which Jobs and Pods are its own,
and which of a pod's changes matter (others would keep the work queue busy). Pure.
"""

import re
from datetime import datetime
from typing import Any, Literal

from orbiter_contracts.bounds import one_line
from orbiter_operator.kube.models import Frozen, Refusal, read_model
from orbiter_operator.kube.names import (
    ATTEMPT,
    ENTRY,
    REQUEST,
    TASK,
    TASK_UID,
    job_name,
    label_of,
    owner_of,
    task_name,
)
from orbiter_operator.pods.rules import image_error, pod_error
from orbiter_operator.pods.state import JobState, PodState, job_state, pod_state
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.streams.pending_outputs import AttemptRecord
from orbiter_operator.tasks.models import TaskSpec, TaskStatus, size_error

_ENTRY_ID = re.compile(r"(0|[1-9][0-9]{0,19})-(0|[1-9][0-9]{0,19})")
_ATTEMPT = re.compile(r"[1-9][0-9]{0,5}")
_SHOWN = 60
_ORDINARY = {
    *("job", "node", "image", "restarts", "exit_reason", "exit_code", "exit_message"),
    *("running_since", "ran_since"),
}
_ACTED_ON = ("began", *(name for name in PodState.model_fields if name not in _ORDINARY))


class Dependencies(Frozen):
    """What `spec.dependsOn` comes to: at most one field is set, none when all are complete."""

    waiting: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    failed: str | None = None
    cycle: tuple[str, ...] = ()


class Slots(Frozen):
    """Whether the namespace has a free slot for this task.

    `shown` is true while the place in the task's status is recent enough to be left alone.
    """

    free: bool = True
    position: int = 0
    waiting: int = 0
    running: int = 0
    limit: int = 0
    shown: bool = False


class Adopted(Frozen):
    """The entry from outside that this task was made of."""

    entry: str
    request_id: str


class Observed(Frozen):
    """Everything about one AgentTask that a decision may depend on.

    `record` belongs to `record_attempt`; it is None when Redis was not asked. `queue_error` is set
    when it was and did not answer. `spec_error` says why the spec could not be read; `spec` is then
    empty. `busy_since` is what the worker said itself (a hint, may be missing). `unacknowledged`
    means that an output of this task has been received and not yet acknowledged. `entry_ignored`
    says why the task counts as nobody's queue entry although its annotations name one.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    created: datetime
    spec: TaskSpec
    spec_error: str | None = None
    status: TaskStatus
    deleting: bool = False
    jobs: tuple[JobState, ...] = ()
    pods: tuple[PodState, ...] = ()
    record: AttemptRecord | None = None
    record_attempt: int = 0
    busy_since: datetime | None = None
    dependencies: Dependencies = Dependencies()
    dependents_waiting: bool = False
    slots: Slots = Slots()
    prompt: str | None = None
    prompt_error: str | None = None
    refusal: Refusal | None = None
    queue_error: str | None = None
    adopted: Adopted | None = None
    entry_ignored: str | None = None
    taken_by: str | None = None
    unacknowledged: bool = False

    def job(self, attempt: int) -> JobState | None:
        """The Job of one attempt, if it exists."""
        return next((job for job in self.jobs if job.attempt == attempt), None)

    @property
    def asks(self) -> bool:
        """Whether its agent waits for an answer and no attempt has begun since."""
        children: tuple[JobState | PodState, ...] = (*self.jobs, *self.pods)
        begun = max((child.attempt for child in children), default=0)
        record = self.record_of(self.status.attempts + 1)
        answered = record is not None and record.output is not None
        waits = self.status.phase == "InputRequired"
        return waits and begun <= self.status.attempts and not answered

    def record_of(self, attempt: int) -> AttemptRecord | None:
        """What Redis knows of one attempt, if it was asked about this one."""
        return self.record if self.record_attempt == attempt else None

    def pods_of(self, attempt: int) -> tuple[PodState, ...]:
        """The Pods of one attempt, the newest last."""
        return tuple(pod for pod in self.pods if pod.attempt == attempt)


def still_there(observed: Observed, now: datetime) -> bool:
    """Whether a pod of any attempt may still be working."""
    if any(pod.alive(now) for pod in observed.pods):
        return True
    # Pods are heard of late (see `runtime/supervisor`): a quick worker answers before its pod is
    # known.
    return any(
        not job.over and not job.deleting and not observed.pods_of(job.attempt)
        for job in observed.jobs
    )


def slot_after(observed: Observed, now: datetime) -> Literal["take", "leave"]:
    """The slot of a task whose attempt has been answered.

    It is memory and CPU of the cluster's, so it is free again when the worker's container has
    ended, a moment after the worker has published its output.
    """
    return "take" if still_there(observed, now) else "leave"


def job_of_attempt(obj: dict[str, Any]) -> JobState | None:
    """Read a Job; None when it is no attempt of an AgentTask, whatever its labels say."""
    meta = obj["metadata"]
    owner, attempt = owner_of(obj, "AgentTask"), _attempt(meta)
    if owner is None or attempt is None or label_of(obj, TASK) != owner[0]:
        return None
    if meta["name"] != job_name(owner[0], attempt):
        return None
    return job_state(obj, owner=owner[1], attempt=attempt)


def pod_of_attempt(obj: dict[str, Any]) -> PodState | None:
    """Read a Pod; None when it is not a worker of an attempt, whatever its labels say.

    A worker's pod is its Job's. Which Job that is, `observe` asks where it still exists.
    """
    owner, attempt = owner_of(obj, "Job"), _attempt(obj["metadata"])
    task, uid = label_of(obj, TASK), label_of(obj, TASK_UID)
    if owner is None or attempt is None or not task or not uid:
        return None
    if owner[0] != job_name(task, attempt):
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


def _attempt(meta: dict[str, Any]) -> int | None:
    text = str((meta.get("labels") or {}).get(ATTEMPT) or "")
    return int(text) if _ATTEMPT.fullmatch(text) else None


def read_adoption(meta: dict[str, Any], namespace: str) -> tuple[Adopted | None, str | None]:
    """Which queue entry a task was made of, by its annotations; or why they are not believed.

    Anybody who may create a task may annotate it so. A name that is the entry's hash, where adopted
    tasks are, is what the operator gives; that the entry is nobody else's, Redis is asked.

    Args:
        meta: The task's metadata.
        namespace: Where entries from outside become tasks; empty when nowhere.
    """
    annotations = meta.get("annotations") or {}
    if ENTRY not in annotations:
        return None, None
    entry, request = str(annotations[ENTRY]), str(annotations.get(REQUEST) or "")
    ours = meta["namespace"] == namespace and meta["name"] == task_name(entry)
    if ours and request and _is_entry_id(entry):
        return Adopted(entry=entry, request_id=request), None
    return None, (
        f"annotation {ENTRY}: {one_line(entry, _SHOWN)!r} is ignored, the task runs its own "
        "prompt: the operator alone makes tasks of queue entries; leave the annotation out"
    )


def _is_entry_id(text: str) -> bool:
    """Whether it is the id of a stream entry as Redis writes it."""
    found = _ENTRY_ID.fullmatch(text)
    return found is not None and all(int(part) < 2**64 for part in found.groups())


def read_spec(raw: dict[str, Any], defaults: WorkerDefaults) -> tuple[TaskSpec, str | None]:
    """Read an AgentTask's spec; an empty one and why, when it cannot be read or run."""
    spec, why = read_model(TaskSpec, raw)
    why = why or size_error(raw) or image_error(spec.agent, defaults.images)
    return spec, why or pod_error(spec.agent, spec.workspace, spec.pod_template or {}, defaults)
