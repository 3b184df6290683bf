"""What the end of an attempt means for its task: the status, the Event, another attempt or none.

Pure; part of `plan`. Also makes the outputs that the operator publishes for workers that cannot.
"""

import re
from datetime import datetime, timedelta
from typing import Any

from orbiter_contracts import DeveloperWorkerOutput, Usage
from orbiter_contracts.bounds import MAX_COUNT, MAX_ID_CHARACTERS
from orbiter_operator.kube.models import LINE, Event, TaskUsage, one_line
from orbiter_operator.kube.names import request_id
from orbiter_operator.pods.reasons import Explanation
from orbiter_operator.tasks.models import InputRequest, Phase, Result, TaskStatus
from orbiter_operator.tasks.observed import Observed, slot_after
from orbiter_operator.tasks.plan.actions import Plan, failures_before
from orbiter_operator.tasks.plan.retry import attempts_allowed, backoff
from orbiter_operator.tasks.plan.status import RETRYING, readable, write

_NOT_REPEATED = ("JobRejected", "InvalidMessage", "Cancelled")
_INT32 = 2**31 - 1
_SKEW = timedelta(minutes=5)
"""How far a node's clock may be ahead of ours."""
_REASON = re.compile("[A-Z][A-Za-z0-9]{0,63}")
_ORDINARY = ("ConcurrencyLimit", "WaitingForDependencies", "Suspended", "Starting")
_SELF_EXPLAINING = ("AgentTimeout", "Terminated")
_CRASHED = "Worker crashed: "
_NEVER_RAN = ("JobRejected", "ImagePullFailed", "WorkerMisconfigured", "WorkerNameInUse")
_DEFAULT_REASON = {
    "failed": "AgentError",
    "error": "AgentError",
    "timeout": "AgentTimeout",
    "cancelled": "Cancelled",
    "input_required": "Cancelled",
}


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
    facts: dict[str, Any] = {
        **identity,
        "worker_id": output.worker_id or identity["worker_id"],
        "start_time": started,
        "result": _result(output),
        "usage": _total(observed.status.usage, output.usage),
        "progress": one_line(_summary(output), LINE) or None,
    }
    cancelled = observed.spec.desired_state == "Cancelled"
    if output.status == "input_required" and not cancelled:
        return _ask(observed, now, output, facts)
    if output.status == "success":
        return _finish(observed, now, "Completed", "Succeeded", _summary(output), "", facts, output)
    why = explain(output)
    if output.status == "cancelled" or cancelled:
        return _finish(
            observed, now, "Cancelled", why.reason, why.message, why.detail, facts, output
        )
    failures = failures_before(observed, attempt + 1)
    if failures < attempts_allowed(observed.spec.retry) and why.reason not in _NOT_REPEATED:
        return _again(observed, now, failures, why, facts)
    return _finish(observed, now, "Failed", why.reason, why.message, why.detail, facts, output)


def explain(output: DeveloperWorkerOutput) -> Explanation:
    """Reason, line and detail of an output that is not a success."""
    reason = output.reason or _DEFAULT_REASON.get(output.status, "AgentError")
    told = output.error or _summary(output)
    if not _REASON.fullmatch(reason):
        told = f"{told} (its reason is no CamelCase word: {reason!r})".strip()
        reason = "AgentError"
    lines = told.strip().splitlines()
    line = lines[0] if lines else f"the worker reported {output.status} and no reason"
    line = line.removeprefix(_CRASHED).removeprefix(f"{reason}: ")
    if len(lines) > 1 and lines[-1] not in line and reason not in _SELF_EXPLAINING:
        # The first line names the failure, the last one of stderr usually says why.
        line = f"{one_line(line, LINE // 2)} … {lines[-1]}"
    return Explanation(reason=reason, message=one_line(line), detail="\n".join(lines))


def substitute(
    observed: Observed, now: datetime, attempt: int, why: Explanation, status: str = "failed"
) -> DeveloperWorkerOutput:
    """The output of a worker that can no longer publish one."""
    error = why.message
    if status == "failed" and why.reason not in _NEVER_RAN:
        named = "" if why.reason == "WorkerCrashed" else f"{why.reason}: "
        error = f"{_CRASHED}{named}{error}"
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
    phase: Phase,
    reason: str,
    message: str,
    detail: str,
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
        phase,
        reason,
        message,
        admitted=True,
        started=began is not None,
        detail=detail,
        completion_time=ended,
        duration_ms=took,
        duration=None if took is None else readable(took),
        **facts | {"progress": None},
    )
    return Plan(status=status, event=end_event(status), slot=slot_after(observed, now))


def _again(
    observed: Observed, now: datetime, failures: int, why: Explanation, facts: dict[str, Any]
) -> Plan:
    wait = backoff(observed.spec.retry, failures).total_seconds()
    attempt = facts["attempts"]
    again = attempts_allowed(observed.spec.retry) - failures
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
    observed: Observed, now: datetime, output: DeveloperWorkerOutput, facts: dict[str, Any]
) -> Plan:
    verdict = output.verdict
    question = (verdict.question or verdict.summary if verdict else None) or output.error or ""
    asked = InputRequest(id=output.request_id, question=question, asked_at=now)
    status = write(
        observed,
        now,
        "InputRequired",
        "InputRequired",
        question or "the agent asks for input",
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


def _summary(output: DeveloperWorkerOutput) -> str:
    return output.verdict.summary if output.verdict else ""


def _result(output: DeveloperWorkerOutput) -> Result:
    verdict = output.verdict
    return Result(
        status=output.status,
        summary=(verdict.summary if verdict else None) or output.error,
        commit_sha=output.commit_sha or (verdict.commit_sha if verdict else None),
        pr_url=output.pr_url or (verdict.pr_url if verdict else None),
        data=(verdict.data or None) if verdict else None,
    )


def _total(before: TaskUsage | None, usage: Usage | None) -> TaskUsage | None:
    """What all attempts together have cost; written in the same patch as the attempt's end."""
    if usage is None:
        return before
    old = before or TaskUsage()
    costs = [cost for cost in (old.cost_usd, usage.cost_usd) if cost is not None]
    return TaskUsage(
        input_tokens=_sum(old.input_tokens, usage.input_tokens),
        output_tokens=_sum(old.output_tokens, usage.output_tokens),
        cache_read_tokens=_sum(old.cache_read_tokens, usage.cache_read_tokens),
        cache_write_tokens=_sum(old.cache_write_tokens, usage.cache_write_tokens),
        cost_usd=sum(costs) if costs else None,
        turns=_sum(old.turns, usage.turns, most=_INT32),
    )


def _sum(before: int, more: int, *, most: int = MAX_COUNT) -> int:
    """What the resource definition's integers can hold."""
    return min(before + more, most)
