"""The one vocabulary of labels, annotations and names on the objects the operator makes."""

import hashlib
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from orbiter_contracts.queues import BARE, Keys

API_VERSION: Final = "orbiter.dev/v1alpha1"
"""Of AgentTasks and POSessions."""
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "orbiter"
SELECTOR: Final = f"{MANAGED_BY}={MANAGER}"
"""Which Jobs and Pods the operator watches."""
APP_NAME: Final = "app.kubernetes.io/name"
WORKER_APP: Final = "agent-worker"
WORKER: Final = "worker"
"""Name of the worker's container in its Pod."""
OWN_LABELS: Final = "orbiter.dev/"
"""How the labels begin that the operator alone gives."""
TASK: Final = "orbiter.dev/agenttask"
TASK_UID: Final = "orbiter.dev/agenttask-uid"
"""Tells a task's Pods from those of an earlier task of the same name."""
ATTEMPT: Final = "orbiter.dev/attempt"
RESUME: Final = "orbiter.dev/resume"
"""How many disruptions the attempt's task had when this Job was made; none is 0."""
SESSION: Final = "orbiter.dev/posession"
SESSION_UID: Final = "orbiter.dev/posession-uid"
"""The same for the Deployment and the Pods of a POSession."""
TEMPLATE: Final = "orbiter.dev/template"
"""Annotation of a session's Deployment: fingerprint of the pod template it was given."""
PROFILE: Final = "orbiter.dev/profile"
"""Annotation of a session's Deployment: the ControllerRevision that keeps its worker's profile."""
SESSION_SECRETS: Final = "orbiter-session-"
"""How the names of the Secrets with sessions' Redis URLs begin; no spec may name one."""
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
KUEUE_PRIORITY: Final = "kueue.x-k8s.io/priority-class"
KUEUE_JOB: Final = "kueue.x-k8s.io/job-uid"
"""On Kueue's Workload: the Job it is of."""
RESERVED_LABELS: Final = (MANAGED_BY, f"{OWN_LABELS}*", "kueue.x-k8s.io/*")
"""Labels that no podTemplate may have; `NAME*` are all that begin so."""
RESERVED_WHY: Final = (
    "a label that Orbiter or Kueue goes by; leave it out (spec.queueName and "
    "spec.queuePriorityClass are for Kueue)"
)
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
ENTRY: Final = "orbiter.dev/entry"
"""Annotation of an adopted AgentTask: the id of the queue entry it was made of."""
REQUEST: Final = "orbiter.dev/request-id"
"""Annotation of an adopted AgentTask: the request_id of that entry."""
TRACE: Final = "orbiter.dev/traceparent"
"""Annotation of an AgentTask that is part of a trace already: a W3C `traceparent`."""

_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
_LONGEST_NAME = 63
_DIGEST = 8


def job_name(task: str, attempt: int, resume: int = 0) -> str:
    """Name of an attempt's Job: `<task>-<attempt>`, at most 63 characters and still unique.

    Args:
        task: The task's name.
        attempt: Which attempt, from 1.
        resume: After which disruption of the task the Job goes on; `-r<resume>` says so.
    """
    tail = f"-{attempt}-r{resume}" if resume else f"-{attempt}"
    if len(task) + len(tail) <= _LONGEST_NAME:
        return task + tail
    digest = hashlib.sha256(task.encode()).hexdigest()[:_DIGEST]
    kept = task[: _LONGEST_NAME - len(tail) - _DIGEST - 1].rstrip("-.")
    return f"{kept}-{digest}{tail}"


def read_number(text: str) -> int | None:
    """A number of ours in a name or a label, from 1; None when it is none."""
    return int(text) if _NUMBER.fullmatch(text) else None


def resume_of(task: str, attempt: int, job: str) -> int | None:
    """After which disruption a Job of this name goes on; None when it is not the attempt's."""
    number = job.rpartition("-r")[2]
    resume = read_number(number) or 0
    return resume if job == job_name(task, attempt, resume) else None


def task_name(entry: str, keys: Keys = BARE) -> str:
    """Name of the AgentTask made of a queue entry: the same however often it is read."""
    digest = hashlib.sha256(f"{keys.developer_input}/{entry}".encode()).hexdigest()[:12]
    return f"queued-{digest}"


def revision_name(task: str, uid: str) -> str:
    """Name of the ControllerRevision with this very task's profile; its status is not needed.

    A session has one for each that it is awake with: its uid and the profile's identity are `uid`.
    """
    digest = hashlib.sha256(uid.encode()).hexdigest()[:_DIGEST]
    kept = task[: _LONGEST_NAME - len("-profile-") - _DIGEST].rstrip("-.")
    return f"{kept}-profile-{digest}"


def worker_id(namespace: str, job: str) -> str:
    """Id under which an attempt's worker speaks in the queues; unique in the cluster."""
    return f"{namespace}.{job}"


class Key(NamedTuple):
    """What the work queue holds: the name of one reconciled object."""

    namespace: str
    name: str
    kind: str = "AgentTask"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def parse_time(text: str | None) -> datetime | None:
    """Read a time as the API server writes it."""
    return datetime.fromisoformat(text) if text else None


def owner_reference(kind: str, name: str, uid: str) -> dict[str, Any]:
    """What a child says of the object it belongs to; `owner_of` reads it."""
    return {"apiVersion": API_VERSION, "kind": kind, "name": name, "uid": uid, "controller": True}


def owner_of(obj: dict[str, Any], kind: str) -> tuple[str, str] | None:
    """(name, uid) of the controller if it is of this kind, or None.

    Any object may name another as an owner beside its controller.
    """
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("kind") == kind and reference.get("controller") is True:
            return reference["name"], reference["uid"]
    return None


def label_of(obj: dict[str, Any], name: str) -> str:
    """The value of a label; empty when there is none."""
    return str((obj["metadata"].get("labels") or {}).get(name) or "")


def is_one_of(name: object, patterns: Iterable[str]) -> bool:
    """Whether a name is one of these; a pattern that ends with * is a beginning."""
    return isinstance(name, str) and any(
        name.startswith(own[:-1]) if own.endswith("*") else name == own for own in patterns
    )
