"""What a plan is made of: the actions that it may ask for, and the attempt they are about. Pure.

The actions are between `plan`, which decides, and `executor`, which acts: every one can be repeated
after a crash at any point and then changes nothing more.

Which attempt is meant, the names that follow from it, and what was asked before: the id of a
question is the request id of the attempt that asked it, and an answer is never changed or taken
back, so `spec.input` alone says which attempts were questions.
"""

from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from orbiter_contracts import DeveloperWorkerOutput, attempts
from orbiter_contracts.attempts import request_id
from orbiter_operator.kube.models import Event, Frozen
from orbiter_operator.kube.names import job_name, worker_id
from orbiter_operator.tasks.models import TaskStatus
from orbiter_operator.tasks.observed import Observed

LINGERING = timedelta(seconds=120)
"""A worker that has published leaves within seconds; after so long its Job is deleted."""
STOPPED_BY_US = ("Cancelled", "ImagePullFailed", "NodeLost")
"""Reasons of outputs whose worker may still be there: its Job has to be deleted."""


class StartAttempt(Frozen):
    """Put the attempt's entry on the queue and create its Job."""

    attempt: int
    prompt: str
    anew: str | None = None
    """What to say instead of `prompt` when the session that it continues is lost."""


class Publish(Frozen):
    """Publish an output for an attempt whose worker cannot, unless it has one already."""

    attempt: int
    output: DeveloperWorkerOutput


class DeleteJob(Frozen):
    """Delete an attempt's Job; Kubernetes stops its pod."""

    name: str


class ForgetSession(Frozen):
    """Delete what was kept of the agent's session: nobody will continue it."""


class DeleteTask(Frozen):
    """Delete the AgentTask itself: its time to live is over."""


class Plan(Frozen):
    """What to do now, in this order: actions, event and status, then observe again or requeue.

    Attributes:
        actions: What to do, in order. The first that fails ends the plan.
        status: The whole status the task should have; None leaves it alone.
        event: What a person would want to know.
        slot: Whether the task runs a Job, waits for one, or neither.
        reobserve: Observe again at once, because an action changed what is known.
        requeue_after: Reconcile again after so many seconds even if nothing happens.
    """

    actions: tuple[StartAttempt | Publish | DeleteJob | DeleteTask | ForgetSession, ...] = ()
    status: TaskStatus | None = None
    event: Event | None = None
    slot: Literal["take", "wait", "leave"] = "leave"
    reobserve: bool = False
    requeue_after: float | None = None


def leftovers(observed: Observed) -> tuple[DeleteJob, ...]:
    """The deletion of every Job that may still run."""
    return tuple(
        DeleteJob(name=job.name) for job in observed.jobs if not job.over and not job.deleting
    )


def left(since: datetime | None, span: timedelta, now: datetime) -> float:
    """Seconds until `span` has passed since then; all of it when the time is not known."""
    return ((since or now) + span - now).total_seconds()


_LOST = (
    "You have worked on this before and asked a question. What you said and did then is lost, so "
    "begin anew with what you were told:"
)


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


def identity(observed: Observed, attempt: int) -> dict[str, Any]:
    """The fields of the status that say which attempt it speaks of."""
    pods = observed.pods_of(attempt)
    job = job_name(observed.name, attempt)
    same = observed.status.attempts == attempt
    return {
        "attempts": attempt,
        "request_id": message_id(observed, attempt),
        "job_name": job,
        "worker_id": worker_id(observed.namespace, job),
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
