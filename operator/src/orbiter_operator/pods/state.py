"""What a Job and a pod say of a worker: one reading of both, for tasks and for sessions.

Whose they are, each kind finds out by itself: `job_of_attempt`, `pod_of_attempt`, `pod_of_session`.
"""

from datetime import datetime
from typing import Any, Literal

from orbiter_contracts.queues import PREFIX
from orbiter_contracts.skills import FetchedSkill, read_fetched
from orbiter_operator.kube.models import Frozen
from orbiter_operator.kube.names import KUEUE_QUEUE, WORKER, label_of, parse_time
from orbiter_operator.pods import git_skills

LOST_AFTER_SECONDS = 30.0
"""A pod that is still there so long after its grace period has a node that no longer answers."""
_ORDINARY = ("PodInitializing", "ContainerCreating", None)
"""What every container waits for at first."""


class JobState(Frozen):
    """One attempt's Job.

    `resume` counts the disruptions of the task before it, and 0 is an attempt's first Job.
    `prefix` is that of its worker's keys in Redis, `redis_secret` the Secret that its worker's
    Redis URL is of. `queue` is the queue of Kueue that lets it in, which Kueue may have chosen.
    """

    name: str
    uid: str
    owner: str
    attempt: int
    resume: int = 0
    queue: str = ""
    created: datetime
    state: Literal["suspended", "active", "complete", "failed"] = "active"
    reason: str = ""
    message: str = ""
    deleting: bool = False
    prefix: str = ""
    redis_secret: str = ""

    @property
    def over(self) -> bool:
        """Whether no pod of this Job will ever run again."""
        return self.state in ("complete", "failed")


class PodState(Frozen):
    """A worker's pod, as far as it explains why the worker does or does not run.

    `waiting_*`, `exit_*`: of the worker's container or of another one that holds it up; `exit_*`
    also of the run before the present one, and `exit_of` is its name. `skills` are those that were
    fetched, as the container says that did. `ran_since` is when a container began that has ended.
    `owner` is the uid of the AgentTask or POSession, `job` that of the attempt's Job,
    `replica_set` the name of a session's ReplicaSet,
    `redis_secret` the Secret that its worker's Redis URL is of. Times are those of the kubelet, in
    seconds.
    """

    name: str
    owner: str
    created: datetime
    attempt: int = 0
    job: str = ""
    replica_set: str = ""
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    deleted_at: datetime | None = None
    node: str = ""
    redis_secret: str = ""
    unschedulable: str | None = None
    scheduled_at: datetime | None = None
    disruption: str = ""
    image: str = ""
    restarts: int = 0
    waiting_reason: str = ""
    waiting_message: str = ""
    waiting_since: datetime | None = None
    running_since: datetime | None = None
    ran_since: datetime | None = None
    exit_of: str = ""
    skills: tuple[FetchedSkill, ...] = ()
    exit_reason: str = ""
    exit_code: int | None = None
    exit_message: str = ""

    @property
    def over(self) -> bool:
        """Whether its containers have ended for good."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def began(self) -> datetime | None:
        """When its container has begun, whether it runs still or has ended."""
        return self.running_since or self.ran_since

    @property
    def starting_since(self) -> datetime | None:
        """Since when its node makes its containers, where nobody has said what is wrong."""
        starts = self.phase == "Pending" and self.began is None and not self.waiting_reason
        return self.scheduled_at if starts and self.deleted_at is None else None

    def lost(self, now: datetime) -> bool:
        """Whether its node has stopped answering: deleted long ago and still there."""
        if self.over or self.deleted_at is None:
            return False
        return (now - self.deleted_at).total_seconds() > LOST_AFTER_SECONDS

    @property
    def taken(self) -> bool:
        """Whether it has ended because somebody who is not its worker wanted that."""
        return self.over and (bool(self.disruption) or self.deleted_at is not None)

    def alive(self, now: datetime) -> bool:
        """Whether its worker may still be working, or holding a message."""
        return not self.over and not self.lost(now)


def job_state(obj: dict[str, Any], *, owner: str, attempt: int, resume: int = 0) -> JobState:
    """Read the Job of an attempt."""
    meta = obj["metadata"]
    state: Literal["suspended", "active", "complete", "failed"] = "active"
    if (obj.get("spec") or {}).get("suspend"):
        state = "suspended"
    reason = message = ""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True" and condition["type"] in ("Complete", "Failed"):
            state = "complete" if condition["type"] == "Complete" else "failed"
            reason, message = condition.get("reason", ""), condition.get("message", "")
    return JobState(
        name=meta["name"],
        uid=meta["uid"],
        owner=owner,
        attempt=attempt,
        resume=resume,
        queue=label_of(obj, KUEUE_QUEUE),
        created=datetime.fromisoformat(meta["creationTimestamp"]),
        state=state,
        reason=reason,
        message=message,
        deleting="deletionTimestamp" in meta,
        prefix=key_prefix(obj),
        redis_secret=_redis_secret(_pod_spec(obj)),
    )


def key_prefix(obj: dict[str, Any]) -> str:
    """The KEY_PREFIX of a Job's or a Deployment's worker; empty when it has none."""
    value = _worker_variable(_pod_spec(obj), "KEY_PREFIX").get("value")
    return value if isinstance(value, str) and PREFIX.fullmatch(value) else ""


def _pod_spec(obj: dict[str, Any]) -> dict[str, Any]:
    """The spec of the pods that a Job or a Deployment makes."""
    return ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}


def _worker_variable(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """A variable of the worker's container in a pod's spec; empty when there is none."""
    for container in pod.get("containers") or ():
        for variable in container.get("env") or () if container.get("name") == WORKER else ():
            if variable.get("name") == name:
                found: dict[str, Any] = variable
                return found
    return {}


def pod_state(
    obj: dict[str, Any], *, owner: str, attempt: int = 0, job: str = "", replica_set: str = ""
) -> PodState:
    """Read the pod of a worker."""
    meta, status = obj["metadata"], obj.get("status") or {}
    found: dict[str, Any] = {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            found["unschedulable"] = condition.get("message", "")
        if condition["type"] == "PodScheduled" and condition.get("status") == "True":
            found["scheduled_at"] = parse_time(condition.get("lastTransitionTime"))
        if condition["type"] == "DisruptionTarget" and condition.get("status") == "True":
            found["disruption"] = condition.get("reason", "")
    for container in _containers(status):
        found |= _container(container)
    if found.get("waiting_reason"):
        found["waiting_since"] = parse_time(status.get("startTime") or meta["creationTimestamp"])
    return PodState(
        name=meta["name"],
        owner=owner,
        created=datetime.fromisoformat(meta["creationTimestamp"]),
        attempt=attempt,
        job=job,
        replica_set=replica_set,
        phase=status.get("phase", "Pending"),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        deleted_at=parse_time(meta.get("deletionTimestamp")),
        node=(obj.get("spec") or {}).get("nodeName", ""),
        redis_secret=_redis_secret(obj.get("spec") or {}),
        skills=_skills(status),
        **found,
    )


def _redis_secret(spec: dict[str, Any]) -> str:
    source = _worker_variable(spec, "REDIS_URL").get("valueFrom") or {}
    return str((source.get("secretKeyRef") or {}).get("name", ""))


def _skills(status: dict[str, Any]) -> tuple[FetchedSkill, ...]:
    for item in status.get("initContainerStatuses") or ():
        ended = (item.get("state") or {}).get("terminated") or {}
        if item["name"] == git_skills.CONTAINER and ended.get("exitCode") == 0:
            return read_fetched(ended.get("message"))
    return ()


def _containers(status: dict[str, Any]) -> list[dict[str, Any]]:
    """The containers that matter: failed or waiting init containers, what waits, the worker's."""
    found = []
    for item in status.get("initContainerStatuses") or ():
        state = item.get("state") or {}
        if "running" not in state and (state.get("terminated") or {}).get("exitCode") != 0:
            found.append(item)
    return found + [
        item
        for item in status.get("containerStatuses") or ()
        if item["name"] == WORKER or "waiting" in (item.get("state") or {})
    ]


def _container(item: dict[str, Any]) -> dict[str, Any]:
    state = item.get("state") or {}
    found: dict[str, Any] = {
        "image": item.get("image", ""),
        "restarts": item.get("restartCount", 0),
    }
    waiting, running = state.get("waiting") or {}, state.get("running")
    ended = state.get("terminated")
    if waiting.get("reason") not in _ORDINARY:
        found["waiting_reason"] = waiting["reason"]
        found["waiting_message"] = waiting.get("message", "")
    if running is not None:
        found["running_since"] = parse_time(running.get("startedAt"))
    if ended and item["name"] != git_skills.CONTAINER:  # no work has begun with it
        found["ran_since"] = parse_time(ended.get("startedAt"))
    if ended := ended or (item.get("lastState") or {}).get("terminated"):
        found["exit_of"] = item["name"]
        found["exit_reason"] = ended.get("reason", "")
        found["exit_code"] = ended.get("exitCode")
        found["exit_message"] = ended.get("message", "")
    return found
