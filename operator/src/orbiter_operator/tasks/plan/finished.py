"""What an attempt's output means for its task: the status, the Event, another attempt or none.

At the end of the task: stop what lingers, announce what was not, go in time. Pure; part of `plan`.
"""

from datetime import datetime, timedelta
from typing import Any

from orbiter_contracts import DeveloperWorkerOutput
from orbiter_contracts.bounds import one_line
from orbiter_contracts.outcome import Outcome, outcome
from orbiter_contracts.usage import total_usage
from orbiter_operator.kube.models import ConditionStatus
from orbiter_operator.tasks.models import InputRequest, TaskStatus, TranscriptStatus
from orbiter_operator.tasks.observed import Observed, failures_before, identity, slot_after
from orbiter_operator.tasks.plan.actions import (
    LIMIT_EXCEEDED,
    LINGERING,
    STOPPED_BY_US,
    DeleteJob,
    DeleteTask,
    ForgetSession,
    Plan,
    left,
    leftovers,
)
from orbiter_operator.tasks.plan.conditions import RETRYING
from orbiter_operator.tasks.plan.events import attempt_failed_event, cancelled_words, end_event
from orbiter_operator.tasks.plan.status import readable, write

_SKEW = timedelta(minutes=5)
"""How far a node's clock may be ahead of ours."""
_FOR_DEPENDENTS_SECONDS = 60.0


def after_attempt(
    observed: Observed, now: datetime, attempt: int, output: DeveloperWorkerOutput
) -> Plan:
    """Turn an attempt's output into the task's next status; stop what may still run."""
    stop = leftovers(observed.jobs) if output.reason in STOPPED_BY_US else ()
    return _settle(observed, now, attempt, output).model_copy(update={"actions": stop})


def _settle(observed: Observed, now: datetime, attempt: int, output: DeveloperWorkerOutput) -> Plan:
    started = observed.status.start_time or output.started_at
    if started is not None:
        started = _within(started, observed.created, now)
    named = identity(observed, attempt)
    end = outcome(output, cancelled=observed.spec.desired_state == "Cancelled")
    fields: dict[str, Any] = {
        **named,
        "worker_id": output.worker_id or named["worker_id"],
        "start_time": started,
        "result": end.result,
        "usage": total_usage(observed.status.usage, output.usage),
        "kept": output.artifacts,
        "disruptions": observed.status.disruptions + _replaced_unseen(observed, attempt),
        "transcript": _transcript(observed, attempt, output),
        "progress": one_line(output.verdict.summary if output.verdict else "") or None,
    }
    if end.phase == "InputRequired":
        return _ask(observed, now, output, end, fields)
    if end.phase == "Failed":
        failures = failures_before(observed, attempt + 1)
        if observed.spec.retry.repeats(end.reason, failures):
            return _retry(observed, now, failures, end, fields)
    if end.phase == "Cancelled":
        words = cancelled_words(observed.spec.cancelled_by, end.message)
        end = end._replace(message=words)
    return _finish(observed, now, end, fields, output)


def _replaced_unseen(observed: Observed, attempt: int) -> bool:
    """Whether another pod was in the place of the one that worked when nobody of ours looked."""
    name, pods = observed.status.pod_name, observed.pods_of(attempt)
    if not name or not observed.status.works(attempt):
        return False
    known = next((pod for pod in pods if pod.name == name), None)
    return (known is None or known.taken) and any(pod.name != name for pod in pods)


def _transcript(
    observed: Observed, attempt: int, output: DeveloperWorkerOutput
) -> TranscriptStatus | None:
    """Where all of the transcript is: of an earlier attempt, when this one does not say."""
    if output.transcript is None:
        return observed.status.transcript
    return TranscriptStatus.of(output.transcript, attempt)


def _finish(
    observed: Observed,
    now: datetime,
    end: Outcome,
    fields: dict[str, Any],
    output: DeveloperWorkerOutput,
) -> Plan:
    began = fields["start_time"]
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
        disrupted=_disrupted(end),
        **fields | {"progress": None},
    )
    return Plan(status=status, events=(end_event(status),), slot=slot_after(observed, now))


def _disrupted(end: Outcome) -> tuple[ConditionStatus, str, str] | None:
    """The condition Disrupted where that is the end: nothing follows by which it would be over."""
    return ("True", end.reason, end.message) if end.reason == LIMIT_EXCEEDED else None


def _retry(
    observed: Observed, now: datetime, failures: int, why: Outcome, fields: dict[str, Any]
) -> Plan:
    retry = observed.spec.retry
    wait = retry.backoff(failures).total_seconds()
    attempt = fields["attempts"]
    remaining = retry.attempts_allowed - failures
    status = write(
        observed,
        now,
        "Pending",
        RETRYING,
        f"attempt {attempt} of {attempt + remaining} failed: "
        f"{why.reason}; the next begins {readable(round(wait * 1000))} later",
        admitted=False,
        started=False,
        detail=why.detail,
        **fields,
    )
    events = (attempt_failed_event(why, attempt),)
    return Plan(status=status, events=events, slot=slot_after(observed, now), requeue_after=wait)


def _ask(
    observed: Observed,
    now: datetime,
    output: DeveloperWorkerOutput,
    end: Outcome,
    fields: dict[str, Any],
) -> Plan:
    asked = InputRequest.of(output.request_id, end, now)
    status = write(
        observed,
        now,
        end.phase,
        end.reason,
        end.message,
        admitted=True,
        started=True,
        **fields | {"input_request": asked},
    )
    return Plan(status=status, events=(end_event(status),), slot=slot_after(observed, now))


def _within(moment: datetime, earliest: datetime, latest: datetime) -> datetime:
    """The moment that a worker tells; the nearest that can be, where its clock is far off."""
    return max(min(moment, latest + _SKEW), min(earliest, latest + _SKEW))


def _milliseconds(since: datetime, until: datetime) -> int:
    return max(round((until - since).total_seconds() * 1000), 0)


def at_the_end(observed: Observed, now: datetime) -> Plan:
    """Tidy up after a task that has reached its final phase."""
    status = observed.status
    actions: tuple[DeleteJob | DeleteTask | ForgetSession, ...] = ()
    requeue_times: list[float] = []
    if stop := leftovers(observed.jobs):
        rest = left(status.completion_time, LINGERING, now)
        if rest <= 0 or status.phase == "Cancelled" or status.reason in STOPPED_BY_US:
            actions = stop
        else:
            requeue_times.append(rest)
    if has_session(observed) and not observed.queue_error:
        actions = (*actions, ForgetSession())
    lifetime = observed.spec.ttl_seconds_after_finished
    if lifetime is not None:
        rest = left(status.completion_time, timedelta(seconds=lifetime), now)
        if rest > 0:
            requeue_times.append(rest)
        elif observed.dependents_waiting:
            # They still have to see that this one was completed.
            requeue_times.append(_FOR_DEPENDENTS_SECONDS)
        else:
            actions = (*actions, DeleteTask())
    events = (end_event(status),) if observed.unacknowledged else ()
    slot = slot_after(observed, now)
    return Plan(
        actions=actions,
        status=_up_to_date(observed),
        events=events,
        slot=slot,
        requeue_after=min(requeue_times, default=None),
    )


def when_deleted(observed: Observed, now: datetime) -> Plan:
    """Stop a deleted task that somebody's finalizer keeps: it has its slot until it has stopped."""
    return Plan(actions=leftovers(observed.jobs), slot=slot_after(observed, now))


def has_session(observed: Observed) -> bool:
    """Whether a worker may have stored its agent's session: only questions make one do so."""
    return observed.status.input_request is not None or bool(observed.spec.input)


def _up_to_date(observed: Observed) -> TaskStatus | None:
    """The status of a task whose spec was changed after its end: it says that this was seen."""
    if observed.status.observed_generation == observed.generation:
        return None
    return observed.status.model_copy(update={"observed_generation": observed.generation})
