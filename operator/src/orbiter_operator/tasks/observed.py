"""What is known about one AgentTask at one moment: the input of `plan`.

Jobs and Pods are reduced to the few facts that decisions need (`parse` does it); `is_news`
says which of their changes call for a look (`children` asks it to keep the work queue quiet).
"""

from datetime import datetime

from orbiter_operator.kube.models import Facts, Refusal
from orbiter_operator.pods.state import JobFacts, PodFacts
from orbiter_operator.streams.pending_outputs import AttemptRecord
from orbiter_operator.tasks.models import TaskSpec, TaskStatus


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
