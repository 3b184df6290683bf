"""What is known about one AgentTask at one moment: the input of `plan`. Pure.

Also what follows from it: where the task stands, which attempt is meant, the names that follow from
that, and what was asked before. The id of a question is the request id of the attempt that asked
it, and an answer is never changed or taken back, so `spec.input` alone says which attempts were
questions.
"""

from datetime import datetime
from typing import Any, Literal, NamedTuple

from orbiter_contracts import attempts
from orbiter_contracts.attempts import OPERATOR, Attempt, request_id
from orbiter_contracts.queues import BARE, Keys
from orbiter_contracts.stream_names import read_stream_name
from orbiter_contracts.tracing import TraceParent
from orbiter_operator.budgets.models import Budgeted
from orbiter_operator.kube.models import Frozen, Profiled, Refusal
from orbiter_operator.kube.names import job_name, resume_of, worker_id
from orbiter_operator.pods.state import JobState, PodState
from orbiter_operator.streams.pending_outputs import AttemptRecord
from orbiter_operator.tasks.models import FINAL, Slots, Source, TaskSpec, TaskStatus

Stage = Literal["ignored", "between attempts", "in an attempt", "asking", "finished"]
_LOST = (
    "You have worked on this before and asked a question. What you said and did then is lost, so "
    "begin anew with what you were told:"
)


class Dependencies(Frozen):
    """What `spec.dependsOn` comes to: at most one field is set, none when all are complete."""

    waiting: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    failed: str | None = None
    cycle: tuple[str, ...] = ()


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
    says why the task counts as nobody's queue entry although its annotations name one. `keys` are
    those of its namespace: of an attempt that begins now. `over_quota` says why its workers may not
    publish, `not_served` why none may run there. `kueue` is what Kueue says of a Job that it has
    not let in. `trace` is where its spans belong, if any are written. `data_error` says why the
    prompt names a result that cannot be had, `behind` who has its concurrencyKey before it.
    `profile` is the task's, `spec` what both say together, `budget` what its budget says.
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
    doing: str | None = None
    dependencies: Dependencies = Dependencies()
    dependents_waiting: bool = False
    slots: Slots = Slots()
    behind: str = ""
    prompt: str | None = None
    prompt_error: str | None = None
    data_error: str | None = None
    refusal: Refusal | None = None
    queue_error: str | None = None
    adopted: Adopted | None = None
    entry_ignored: str | None = None
    taken_by: str | None = None
    unacknowledged: bool = False
    keys: Keys = BARE
    source: Source = Source()
    over_quota: str | None = None
    kueue: str = ""
    not_served: str | None = None
    trace: TraceParent | None = None
    profile: Profiled | None = None
    budget: Budgeted | None = None

    def job(self, attempt: int) -> JobState | None:
        """The latest Job of one attempt, if it exists."""
        return next((job for job in reversed(self.jobs) if job.attempt == attempt), None)

    @property
    def queue(self) -> str:
        """The queue of Kueue that lets its Jobs in, which Kueue may have chosen; empty: none."""
        return self.spec.queue_name or (self.jobs[-1].queue if self.jobs else "")

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
        """The Pods of one attempt's latest Job, the newest last."""
        return tuple(pod for pod in self.pods if pod.attempt == attempt)


def still_there(observed: Observed, now: datetime) -> bool:
    """Whether a pod of any attempt may still be working."""
    if any(pod.alive(now) for pod in observed.pods):
        return True
    # Pods are heard of late (`runtime/supervisor`): a quick worker answers before its pod is known.
    return any(
        not job.over and not job.deleting and not observed.pods_of(job.attempt)
        for job in observed.jobs
    )


def slot_after(observed: Observed, now: datetime) -> Literal["take", "leave"]:
    """The slot of a task whose attempt has been answered.

    It is memory and CPU, so it is free when the container has ended, a moment after the output.
    """
    return "take" if still_there(observed, now) else "leave"


def ended_at(status: TaskStatus) -> datetime | None:
    """When the latest attempt ended, if it is over and another is to follow.

    A Pending task that has a result is between two attempts: the result goes when the next begins.
    One that asks something is so too.
    """
    if status.phase == "InputRequired" and status.input_request is not None:
        return status.input_request.asked_at
    condition = status.condition("Started")
    if status.phase != "Pending" or status.result is None or condition is None:
        return None
    return condition.last_transition_time


def stage(observed: Observed) -> Stage:
    """Where the task stands: what is asked about it follows from that, and what is decided."""
    if observed.deleting or observed.spec.managed_by not in (None, OPERATOR):
        return "ignored"
    if observed.status.phase in FINAL:
        return "finished"
    if observed.asks:
        answered = answer_given(observed) is not None
        goes_on = answered and observed.spec.desired_state != "Cancelled"
        return "between attempts" if goes_on else "asking"
    attempt = current_attempt(observed)
    over = ended_at(observed.status) is not None and observed.status.attempts == attempt
    return "between attempts" if attempt == 0 or over else "in an attempt"


def current_attempt(observed: Observed) -> int:
    """The latest attempt that has begun; 0 before the first.

    An attempt begins with its Job. The status learns of it a moment later, so Jobs and Pods count
    too, and an output counts when they are gone.
    """
    jobs = [job.attempt for job in observed.jobs]
    pods = [pod.attempt for pod in observed.pods]
    latest = max(observed.status.attempts, *jobs, *pods, 0)
    record = observed.record_of(latest + 1)
    return latest + 1 if record and record.output else latest


def message_id(observed: Observed, attempt: int) -> str:
    """request_id of an attempt: ours, or that of the entry the task was made of."""
    if observed.adopted and attempt == 1:
        return observed.adopted.request_id
    return request_id(observed.uid, attempt)


def attempt_of(observed: Observed, number: int) -> Attempt:
    """One attempt, with the keys it has in Redis: where it has begun, it ends.

    Attempts that have begun before their namespace had keys of its own are under the names without
    a prefix. Their Jobs say so, and statuses of that time name no streams.
    """
    task, job, keys = f"{observed.namespace}/{observed.name}", observed.job(number), observed.keys
    if job is not None:
        keys = Keys(job.prefix)
    elif number and number == observed.status.attempts:
        name = read_stream_name(observed.status.input_stream or "")
        keys = name.keys if name else BARE
    own = keys.namespace in ("", observed.namespace)
    return Attempt(task, observed.uid, number, keys if own else observed.keys)


def name_of_job(observed: Observed, attempt: int) -> str:
    """The name of the attempt's latest Job, whether it exists still or not."""
    if job := observed.job(attempt):
        return job.name
    first = job_name(observed.name, attempt)
    if observed.status.attempts != attempt:
        return first
    known = observed.status.job_name or ""
    return known if resume_of(observed.name, attempt, known) is not None else first


def identity(observed: Observed, attempt: int) -> dict[str, Any]:
    """The fields of the status that say which attempt it speaks of."""
    pods = [pod for pod in observed.pods_of(attempt) if not pod.taken]
    job = name_of_job(observed, attempt)
    same = observed.status.attempts == attempt
    keys = attempt_of(observed, attempt).keys
    skills = pods[-1].skills if pods else ()
    return {
        "attempts": attempt,
        "skills": skills or (observed.status.skills if same else None),
        "request_id": message_id(observed, attempt),
        "job_name": job,
        "worker_id": worker_id(observed.namespace, job),
        "input_stream": keys.developer_input,
        "output_stream": keys.developer_output,
        "pod_name": pods[-1].name if pods else observed.status.pod_name if same else None,
        "result": None,
        "input_request": None,
    }


class Continuation(NamedTuple):
    """The prompt of an attempt that follows a question.

    Attributes:
        answer: What goes on with the agent's session.
        anew: What an agent without its session is told: the prompt and every answer.
    """

    answer: str
    anew: str


def answer_given(observed: Observed) -> str | None:
    """The answer to the question in the task's status, if there is one."""
    asked = observed.status.input_request
    if asked is None:
        return None
    return next((item.text for item in observed.spec.input if item.id == asked.id), None)


def failures_before(observed: Observed, attempt: int) -> int:
    """How many attempts before this one have failed: all that did not end with a question."""
    return attempt - 1 - len(_answered(observed, attempt))


def continuation(observed: Observed, attempt: int) -> Continuation | None:
    """What the attempt is told instead of the prompt; None when nothing was asked before it.

    An attempt that follows a failed one is told the same as that: its session goes on from the
    last question too.
    """
    answers = list(_answered(observed, attempt).values())
    if not answers:
        return None
    asked = observed.status.input_request
    question = [f"You asked: {asked.question}"] if asked is not None else []
    known = [f"Answer {number}: {text}" for number, text in enumerate(answers, 1)]
    anew = [observed.prompt or "", "", _LOST, *known[:-1], *question, known[-1]]
    return Continuation(answer=answers[-1], anew="\n".join(anew).strip())


def session_of(observed: Observed, attempt: int) -> str:
    """The session of an attempt: a new one, but after a question that of the attempt that asked.

    Its id is the request id of the attempt that began it, a UUID as the agents want it.
    """
    return attempts.session_of(message_id(observed, attempt), _answered(observed, attempt))


def _answered(observed: Observed, attempt: int) -> dict[str, str]:
    """The answers to the questions of the attempts before this one, by id and in their order."""
    if not observed.spec.input:
        return {}
    texts = {item.id: item.text for item in observed.spec.input}
    # There are no more attempts than failures allowed and answers, whatever a label says.
    most = observed.spec.retry.attempts_allowed + len(texts)
    ids = (message_id(observed, number) for number in range(1, min(attempt, most + 1)))
    return {request: texts[request] for request in ids if request in texts}
