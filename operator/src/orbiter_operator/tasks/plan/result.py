"""What the end of an attempt means for its task: the status, the Event, another attempt or none.

Pure; part of `plan`. Also makes the outputs that the operator publishes for workers that cannot.
"""

from datetime import datetime, timedelta
from typing import Any

from orbiter_contracts import DeveloperWorkerOutput
from orbiter_contracts.attempts import request_id
from orbiter_contracts.bounds import MAX_ID_CHARACTERS, one_line
from orbiter_contracts.outcome import CRASHED, Outcome, outcome
from orbiter_contracts.usage import total_usage
from orbiter_operator.kube.models import Event
from orbiter_operator.pods.reasons import Explanation
from orbiter_operator.tasks.models import InputRequest, Phase, TaskStatus
from orbiter_operator.tasks.observed import Observed, slot_after
from orbiter_operator.tasks.plan.actions import Plan, failures_before
from orbiter_operator.tasks.plan.status import RETRYING, readable, write

_SKEW = timedelta(minutes=5)
"""How far a node's clock may be ahead of ours."""
_ORDINARY = ("ConcurrencyLimit", "WaitingForDependencies", "Suspended", "Starting")
_NEVER_RAN = ("JobRejected", "ImagePullFailed", "WorkerMisconfigured", "WorkerNameInUse")


def settle(
    observed: Observed,
    now: datetime,
    attempt: int,
    output: DeveloperWorkerOutput,
    identity: dict[str, Any],
) -> Plan:
    """Turn an attempt's output into the task's next status."""
    started = observed.status.start_time or output.started_at
    if started is not None:
        started = _within(started, observed.created, now)
    end = outcome(output, cancelled=observed.spec.desired_state == "Cancelled")
    facts: dict[str, Any] = {
        **identity,
        "worker_id": output.worker_id or identity["worker_id"],
        "start_time": started,
        "result": end.result,
        "usage": total_usage(observed.status.usage, output.usage),
        "progress": one_line(output.verdict.summary if output.verdict else "") or None,
    }
    if end.phase == "InputRequired":
        return _ask(observed, now, output, end, facts)
    if end.phase == "Failed":
        failures = failures_before(observed, attempt + 1)
        if observed.spec.retry.repeats(end.reason, failures):
            return _again(observed, now, failures, end, facts)
    return _finish(observed, now, end, facts, output)


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
    return Plan(status=status, event=end_event(status), slot="leave")


def end_event(status: TaskStatus) -> Event:
    """The Event that tells how a task ended, or that it asks something."""
    good = status.phase in ("Completed", "InputRequired")
    took = f" after {status.duration}" if status.duration else ""
    reason = f"{status.reason}: " if not good and status.reason != status.phase else ""
    return Event(
        kind="Normal" if good or status.phase == "Cancelled" else "Warning",
        reason=status.phase or "",
        message=f"{status.phase}{took}: {reason}{status.message}",
        attempt=status.attempts,
    )


def waiting_event(observed: Observed, reason: str, message: str, attempt: int) -> Event | None:
    """The Event of something that keeps a task from starting; None when it was told before."""
    if observed.status.reason == reason or reason in _ORDINARY:
        return None
    return Event(kind="Warning", reason=reason, message=message, attempt=attempt)


def _finish(
    observed: Observed,
    now: datetime,
    end: Outcome,
    facts: dict[str, Any],
    output: DeveloperWorkerOutput,
) -> Plan:
    began = facts["start_time"]
    ended = _within(output.finished_at or now, began or observed.created, now)
    took = output.duration_ms
    if took is not None:
        took = min(took, _milliseconds(observed.created, now + _SKEW))
    if began is not None:
        took = _milliseconds(began, ended)
    status = write(
        observed,
        now,
        end.phase,
        end.reason,
        end.message,
        admitted=True,
        started=began is not None,
        detail=end.detail,
        completion_time=ended,
        duration_ms=took,
        duration=None if took is None else readable(took),
        **facts | {"progress": None},
    )
    return Plan(status=status, event=end_event(status), slot=slot_after(observed, now))


def _again(
    observed: Observed, now: datetime, failures: int, why: Outcome, facts: dict[str, Any]
) -> Plan:
    retry = observed.spec.retry
    wait = retry.backoff(failures).total_seconds()
    attempt = facts["attempts"]
    again = retry.attempts_allowed - failures
    status = write(
        observed,
        now,
        "Pending",
        RETRYING,
        f"attempt {attempt} of {attempt + again} failed: "
        f"{why.reason}; the next begins {readable(round(wait * 1000))} later",
        admitted=False,
        started=False,
        detail=why.detail,
        **facts,
    )
    event = Event(
        kind="Warning",
        reason="AttemptFailed",
        message=f"attempt {attempt}: {why.reason}: {why.message}",
        attempt=attempt,
    )
    return Plan(status=status, event=event, slot=slot_after(observed, now), requeue_after=wait)


def _ask(
    observed: Observed,
    now: datetime,
    output: DeveloperWorkerOutput,
    end: Outcome,
    facts: dict[str, Any],
) -> Plan:
    asked = InputRequest(id=output.request_id, question=end.question or "", asked_at=now)
    status = write(
        observed,
        now,
        end.phase,
        end.reason,
        end.message,
        admitted=True,
        started=True,
        **facts | {"input_request": asked},
    )
    return Plan(status=status, event=end_event(status), slot=slot_after(observed, now))


def _within(moment: datetime, earliest: datetime, latest: datetime) -> datetime:
    """The moment that a worker tells; the nearest that can be, where its clock is far off."""
    return max(min(moment, latest + _SKEW), min(earliest, latest + _SKEW))


def _milliseconds(since: datetime, until: datetime) -> int:
    return max(round((until - since).total_seconds() * 1000), 0)
