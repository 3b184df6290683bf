"""What is known about one AgentTask at one moment: the input of `plan`.

Jobs and Pods are reduced to the few facts that decisions need (`parse` does it); `is_news`
says which of their changes call for a look (`children` asks it to keep the work queue quiet).
"""

from datetime import datetime
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from orbiter_contracts import DeveloperWorkerOutput
from orbiter_operator.tasks.models import TaskSpec, TaskStatus

_POD_OVER = ("Succeeded", "Failed")
LOST_AFTER_SECONDS = 30.0
"""A pod that is still there so long after its grace period has a node that no longer answers."""


class Facts(BaseModel):
    """Base: frozen, so that facts can be compared and never change under a decision."""

    model_config = ConfigDict(frozen=True)

    def is_news(self, before: Self | None) -> bool:
        """Whether a decision may hang on what has changed since `before`; None: it is new."""
        return self != before


class JobFacts(Facts):
    """One attempt's Job."""

    name: str
    uid: str
    owner: str
    attempt: int
    created: datetime
    state: Literal["suspended", "active", "complete", "failed"] = "active"
    reason: str = ""
    message: str = ""
    deleting: bool = False

    @property
    def over(self) -> bool:
        """Whether no pod of this Job will ever run again."""
        return self.state in ("complete", "failed")


class PodFacts(Facts):
    """One attempt's Pod, as far as it explains why a worker does or does not run."""

    name: str
    owner: str
    attempt: int
    job: str = ""
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    deleted_at: datetime | None = None
    node: str = ""
    unschedulable: str | None = None
    image: str = ""
    waiting_reason: str = ""
    waiting_message: str = ""
    waiting_since: datetime | None = None
    running_since: datetime | None = None
    exit_reason: str = ""
    exit_code: int | None = None
    exit_message: str = ""
    disruption: str = ""

    def is_news(self, before: Self | None) -> bool:
        """As for all facts, without the ordinary course of things.

        That a pod was made and got a node leads to its running, and that its container has ended to
        its end. Nothing is done about either before that.
        """
        if before is None:
            before = self.__class__(name=self.name, owner=self.owner, attempt=self.attempt)
        return any(getattr(self, name) != getattr(before, name) for name in _ACTED_ON)

    @property
    def over(self) -> bool:
        """Whether its containers have ended for good."""
        return self.phase in _POD_OVER

    def lost(self, now: datetime) -> bool:
        """Whether its node has stopped answering: deleted long ago and still there."""
        if self.over or self.deleted_at is None:
            return False
        return (now - self.deleted_at).total_seconds() > LOST_AFTER_SECONDS

    def alive(self, now: datetime) -> bool:
        """Whether its worker may still be working."""
        return not self.over and not self.lost(now)


_ORDINARY = {"job", "node", "image", "exit_reason", "exit_code", "exit_message"}
_ACTED_ON = tuple(name for name in PodFacts.model_fields if name not in _ORDINARY)


class AttemptRecord(Facts):
    """Where one attempt stands in Redis. All None: Redis knows nothing of it."""

    entry: str | None = None
    output_id: str | None = None
    output: DeveloperWorkerOutput | None = None


class Dependencies(Facts):
    """What `spec.dependsOn` comes to: at most one field is set, none when all are complete."""

    waiting: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    failed: str | None = None
    cycle: tuple[str, ...] = ()


class Room(Facts):
    """Whether the namespace has a Job to spare for this task.

    `shown` is true while the place in the task's status is recent enough to be left alone.
    """

    free: bool = True
    place: int = 0
    waiting: int = 0
    running: int = 0
    limit: int = 0
    shown: bool = False


class Refusal(Facts):
    """The API server would not create the attempt's Job."""

    status: int
    reason: str
    message: str


class Adopted(Facts):
    """The entry from outside that this task was made of."""

    entry: str
    request_id: str


class Observed(Facts):
    """Everything about one AgentTask that a decision may depend on.

    `record` belongs to `record_attempt`; it is None when Redis was not asked. `queue_error` is set
    when it was and did not answer. `spec_error` says why the spec could not be read; `spec` is then
    empty. `busy_since` is what the worker said itself (news, may be missing). `news` means that an
    output of this task has been received and not yet acknowledged. `entry_ignored` says why the
    task counts as nobody's queue entry although its annotations name one.
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
    jobs: tuple[JobFacts, ...] = ()
    pods: tuple[PodFacts, ...] = ()
    record: AttemptRecord | None = None
    record_attempt: int = 0
    busy_since: datetime | None = None
    dependencies: Dependencies = Dependencies()
    dependents_waiting: bool = False
    room: Room = Room()
    prompt: str | None = None
    prompt_error: str | None = None
    refusal: Refusal | None = None
    queue_error: str | None = None
    adopted: Adopted | None = None
    entry_ignored: str | None = None
    taken_by: str | None = None
    news: bool = False

    def job(self, attempt: int) -> JobFacts | None:
        """The Job of one attempt, if it exists."""
        return next((job for job in self.jobs if job.attempt == attempt), None)

    @property
    def asks(self) -> bool:
        """Whether its agent waits for an answer and no attempt has begun since."""
        children: tuple[JobFacts | PodFacts, ...] = (*self.jobs, *self.pods)
        begun = max((child.attempt for child in children), default=0)
        record = self.record_of(self.status.attempts + 1)
        answered = record is not None and record.output is not None
        waits = self.status.phase == "InputRequired"
        return waits and begun <= self.status.attempts and not answered

    def record_of(self, attempt: int) -> AttemptRecord | None:
        """What Redis knows of one attempt, if it was asked about this one."""
        return self.record if self.record_attempt == attempt else None

    def pods_of(self, attempt: int) -> tuple[PodFacts, ...]:
        """The Pods of one attempt, the newest last."""
        return tuple(pod for pod in self.pods if pod.attempt == attempt)
