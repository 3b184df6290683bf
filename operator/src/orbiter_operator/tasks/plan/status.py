"""How it is told where a task stands: its status, the output for a worker that has none.

Pure; part of `plan`. Its conditions are in `conditions`.
"""

from datetime import datetime
from typing import Any, Literal

from orbiter_contracts import (
    ArtifactsReport,
    Checkpoint,
    DeveloperWorkerOutput,
    Usage,
    clamped_cost,
    clamped_count,
)
from orbiter_contracts.attempts import request_id
from orbiter_contracts.bounds import MAX_ID_CHARACTERS, MAX_STATUS_LINE, one_line, shortened
from orbiter_contracts.outcome import CRASHED, Result
from orbiter_operator.kube.models import REFUSED_RETRY_SECONDS, ConditionStatus, Refusal
from orbiter_operator.kube.names import job_name
from orbiter_operator.pods.reasons import Explanation
from orbiter_operator.tasks.models import FINAL, ArtifactsStatus, Phase, TaskStatus
from orbiter_operator.tasks.observed import Observed, identity, name_of_job
from orbiter_operator.tasks.plan.actions import Plan, Publish
from orbiter_operator.tasks.plan.conditions import Conditions, resumed_words, shown, told_of
from orbiter_operator.tasks.plan.events import end_event, headline, waiting_events

DETAIL, _NO_ROOM = 1024, "the object is too large for more"
WAITING_FOR_A_BUDGET = ("BudgetExceeded", "BudgetInvalid")
WAITING_IN_LINE = ("ConcurrencyLimit", "WaitingForConcurrencyKey", *WAITING_FOR_A_BUDGET)
_TRY_LATER = (403, 409)
"""Refusals that pass: a quota, a missing permission, a name that an old Job still holds."""
_UNFIT = ("WorkerMisconfigured", "WorkerNameInUse")
_NEVER_RAN = ("JobRejected", "ImagePullFailed", "SkillsError", *_UNFIT)


def write(
    observed: Observed,
    now: datetime,
    phase: Phase,
    reason: str,
    message: str,
    *,
    admitted: bool,
    started: bool,
    detail: str = "",
    disrupted: tuple[ConditionStatus, str, str] | None = None,
    kept: ArtifactsReport | None = None,
    **changes: Any,
) -> TaskStatus:
    """The status that says this, on top of what is known already.

    Args:
        observed: The task as it is.
        now: Time of the change.
        phase: Summary for people.
        reason: One CamelCase word.
        message: A sentence; cut to one line.
        admitted: Whether the current attempt is on the queue.
        started: Whether its worker has begun.
        detail: More lines for the condition Succeeded; the last 1 KiB is kept.
        disrupted: The condition Disrupted, with reason and sentence, when it changes.
        kept: What an attempt that has ended says of its artifacts.
        **changes: Further fields of `TaskStatus`.

    Returns:
        A status that equals the old one when nothing has changed.
    """
    line = one_line(message, MAX_STATUS_LINE)
    long = detail.strip()[-DETAIL:] or line
    attempt = changes.get("attempts", observed.status.attempts)
    same = attempt == observed.status.attempts
    made = Conditions(observed.status, now, observed.generation)
    saved, resumed = last_checkpoint(observed, attempt), None
    if started and same:
        resumed = resumed_words(observed.status, resumes=goes_on(observed, attempt))
    conditions = made.of_the_phase(
        *(reason, line, long),
        admitted=admitted,
        started=started,
        succeeded=phase == "Completed" if phase in FINAL else None,
    )
    if same or disrupted:
        conditions += made.of_the_disruption(disrupted, resumed)
    if same or saved:
        conditions += made.of_the_checkpoint(saved)
    conditions += made.of_the_profile(observed.profile, attempt)
    conditions += made.of_the_budget(observed.budget, reason)
    conditions += made.of_the_artifacts(kept)
    changes |= told_of(observed.spec.agent, observed.profile) if attempt else {}
    if kept is not None:
        changes["artifacts"] = ArtifactsStatus.of(kept, attempt)
    return observed.status.model_copy(
        update={
            "phase": phase,
            "reason": reason,
            "message": line,
            "headline": headline(line),
            "observed_generation": observed.generation,
            "trace_id": observed.trace.trace_id if observed.trace else observed.status.trace_id,
            "conditions": conditions,
            "notify": (observed.status if observed.status.attempts else observed.spec).notify
            or None,
            "checkpoint": shown(saved) if saved else observed.status.checkpoint if same else None,
            **changes,
        }
    )


def last_checkpoint(observed: Observed, attempt: int) -> Checkpoint | None:
    """The attempt's latest checkpoint, if Redis was asked."""
    return record.checkpoint if (record := observed.record_of(attempt)) else None


def goes_on(observed: Observed, attempt: int) -> bool:
    """Whether the attempt's next pod goes on where the one before it was stopped."""
    kept = last_checkpoint(observed, attempt)
    return observed.spec.disruption.policy == "Resume" and kept is not None and kept.resumable


def asked_something(status: TaskStatus) -> bool:
    """Whether the latest attempt ended with a question, and no other has begun since."""
    return status.result is not None and status.result.status == "input_required"


def dependencies_met(status: TaskStatus) -> bool:
    """Whether the task has waited for its turn before: its dependencies were complete then."""
    condition = status.condition("Admitted")
    return condition is not None and condition.reason in WAITING_IN_LINE


def readable(milliseconds: int) -> str:
    """A duration for people: 0.4s, 12s, 3m05s, 2h10m."""
    seconds = milliseconds / 1000
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def pending_status(
    observed: Observed, now: datetime, attempt: int, why: Explanation | None
) -> TaskStatus:
    """The status of an attempt whose worker has not begun, and why if it takes unusually long."""
    return write(
        observed,
        now,
        "Pending",
        why.reason if why else "Starting",
        why.message if why else f"job {name_of_job(observed, attempt)} is starting",
        admitted=True,
        started=False,
        detail=why.detail if why else "",
        **identity(observed, attempt),
    )


def substitute(
    observed: Observed, now: datetime, attempt: int, why: Explanation, status: str = "failed"
) -> DeveloperWorkerOutput:
    """The output of a worker that can no longer publish one."""
    error = why.message
    if status == "failed" and why.reason not in _NEVER_RAN:
        named = "" if why.reason == "WorkerCrashed" else f"{why.reason}: "
        error = f"{CRASHED}{named}{error}"
    extra = why.detail.strip()[-1024:]
    own = observed.adopted.request_id if observed.adopted and attempt == 1 else None
    if own is not None and len(own) > MAX_ID_CHARACTERS:
        own = None  # an annotation may be of any length
    return DeveloperWorkerOutput.model_validate(
        {
            "request_id": own or request_id(observed.uid, attempt),
            "task_id": observed.spec.task_id or f"{observed.namespace}/{observed.name}",
            "project_id": observed.spec.project_id,
            "status": status,
            "reason": why.reason,
            "error": error + (f"\n{extra}" if extra and extra not in error else ""),
            "started_at": observed.status.start_time,
            "finished_at": now,
            "timestamp": now,
        }
    )


def paid(
    output: DeveloperWorkerOutput, observed: Observed, attempt: int, kept: Checkpoint | None
) -> DeveloperWorkerOutput:
    """A substitute with what the attempt has cost: its worker can no longer say so.

    Args:
        output: The substitute.
        observed: The task.
        attempt: Which attempt.
        kept: Its latest checkpoint, which counts all of its pods; without one, the status says
            what the latest one that was seen has counted.
    """
    shown, usage = observed.status.checkpoint, kept.usage if kept else None
    if kept is None and shown is not None and observed.status.attempts == attempt:
        usage = Usage(turns=clamped_count(shown.turns), cost_usd=clamped_cost(shown.cost_usd))
    if usage is None or output.usage is not None:
        return output
    return output.model_copy(update={"usage": usage})


def give_up(observed: Observed, now: datetime, phase: Phase, reason: str, message: str) -> Plan:
    """End a task that has no attempt to wait for."""
    began = observed.status.start_time
    took = max(round((now - began).total_seconds() * 1000), 0) if began else None
    status = write(
        observed,
        now,
        phase,
        reason,
        message,
        admitted=False,
        started=False,
        detail=message,
        completion_time=now,
        duration_ms=took,
        duration=None if took is None else readable(took),
        progress=None,
    )
    return Plan(status=status, events=(end_event(status),), slot="leave")


def without_result(status: TaskStatus, why: str) -> TaskStatus:
    """The status with as little of the worker's own words as it takes to say how it ended.

    For a result that the API server refuses: the task ends all the same. The words are in the
    output stream.
    """
    result, asked = status.result, status.input_request
    lost = one_line(f"the result could not be stored: {why}", MAX_STATUS_LINE)
    return status.model_copy(
        update={
            "result": result and Result(status=result.status, summary=lost),
            "input_request": asked
            and asked.model_copy(
                update={"question": shortened(asked.question, DETAIL), "kind": None, "calls": None}
            ),
            "progress": None,
        }
    )


def smallest(status: TaskStatus, now: datetime) -> TaskStatus:
    """The least that says how a task ended, for an object that has no room for more.

    One that was to ask or to try again has failed: without its words it could do neither.
    """
    final = status.phase in FINAL
    return TaskStatus(
        phase=status.phase if final else "Failed",
        reason=status.reason if final else "StatusTooLarge",
        message=_NO_ROOM,
        headline=headline(_NO_ROOM),
        attempts=status.attempts,
        observed_generation=status.observed_generation,
        completion_time=status.completion_time or now,
    )


def refused(
    observed: Observed, now: datetime, attempt: int, refusal: Refusal, resume: int = 0
) -> Plan:
    """Wait for what may pass of a Job's refusal; else the attempt ends with it."""
    job = job_name(observed.name, attempt, resume)
    if refusal.holder:
        text = f"Job {job} exists and is {refusal.holder}; delete it or choose another task name"
        return wait(observed, now, "NameConflict", text, requeue_after=REFUSED_RETRY_SECONDS)
    if refusal.status in _TRY_LATER:
        reason = "QuotaExceeded" if "exceeded quota" in refusal.message else refusal.reason
        return wait(observed, now, reason, refusal.message, requeue_after=REFUSED_RETRY_SECONDS)
    # "Job.batch "x" is invalid: spec…" says nothing before the colon that the reason does not.
    what = refusal.message.partition(" is invalid: ")[2] or refusal.message
    text = f"the API server refused Job {job}: {refusal.message}"
    why = Explanation(reason="JobRejected", message=one_line(what), detail=text)
    output = substitute(observed, now, attempt, why)
    return Plan(actions=(Publish(attempt=attempt, output=output),), slot="take", reobserve=True)


def wait(
    observed: Observed,
    now: datetime,
    reason: str,
    message: str,
    *,
    slot: Literal["wait", "leave"] = "leave",
    requeue_after: float | None = None,
) -> Plan:
    """Say what keeps the next attempt, or the next pod of this one, from starting."""
    status = write(
        observed, now, "Pending", reason, message, admitted=False, started=False, detail=message
    )
    events = waiting_events(observed.status, reason, message, observed.status.attempts)
    return Plan(status=status, events=events, slot=slot, requeue_after=requeue_after)
