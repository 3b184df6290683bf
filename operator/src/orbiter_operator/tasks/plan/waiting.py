"""Before an attempt: what it waits for, or that it may begin. Pure; part of `plan`."""

from datetime import datetime
from typing import Literal

from orbiter_operator.kube.names import job_name
from orbiter_operator.pods.reasons import NO_POD_AFTER, Explanation, one_line
from orbiter_operator.tasks.observed import Observed, Refusal
from orbiter_operator.tasks.plan.actions import Announce, Plan, Publish, StartAttempt
from orbiter_operator.tasks.plan.answers import Told, failures_before, told
from orbiter_operator.tasks.plan.dependencies import list_names
from orbiter_operator.tasks.plan.finished import LINGERING, leftovers
from orbiter_operator.tasks.plan.result import give_up, substitute, trouble
from orbiter_operator.tasks.plan.running import pending_status
from orbiter_operator.tasks.plan.slots import place_after
from orbiter_operator.tasks.plan.status import asked_something, dependencies_met, ended_at, write

REFUSED_AGAIN_SECONDS = 15.0
LOOK_AGAIN_SECONDS = 30.0
_TRY_LATER = (403, 409)
"""Refusals that pass: a quota, a missing permission, a name that an old Job still holds."""


def before_attempt(observed: Observed, now: datetime, attempt: int) -> Plan:
    """Start the attempt, or say what it waits for, or that it will never begin."""
    if observed.spec.desired_state == "Cancelled":
        return _cancel(observed, now, attempt)
    if observed.spec_error:
        return give_up(observed, now, "Failed", "InvalidSpec", observed.spec_error)
    if held := _previous_holds(observed, now, attempt - 1):
        return held
    if blocked := _dependencies_hold(observed, now):
        return blocked
    if observed.taken_by:
        return give_up(observed, now, "Cancelled", "TakenElsewhere", observed.taken_by)
    spoken = told(observed, attempt)
    if observed.prompt is None and spoken is None:
        text = observed.prompt_error or "the prompt is not known yet"
        return _wait(observed, now, "PromptMissing", text, due=LOOK_AGAIN_SECONDS)
    if not observed.room.free:
        return _in_line(observed, now)
    if observed.queue_error:
        return _wait(observed, now, "QueueUnavailable", observed.queue_error)
    if observed.refusal:
        return _refused(observed, now, attempt, observed.refusal)
    return Plan(
        steps=(_start(attempt, observed.prompt or "", spoken),),
        # A task that has shown a phase before is left alone: if all goes well, Running is its next
        # line, and if not, `progress` says what is wrong.
        status=None if observed.status.phase else pending_status(observed, now, attempt, None),
        event=_entry_ignored(observed, attempt),
        place="take",
        due=NO_POD_AFTER.total_seconds(),
    )


def _entry_ignored(observed: Observed, attempt: int) -> Announce | None:
    if attempt > 1 or not observed.entry_ignored:
        return None
    return Announce(
        kind="Warning", reason="EntryIgnored", message=observed.entry_ignored, attempt=attempt
    )


def _start(attempt: int, prompt: str, spoken: Told | None) -> StartAttempt:
    if spoken is None:
        return StartAttempt(attempt=attempt, prompt=prompt)
    return StartAttempt(attempt=attempt, prompt=spoken.answer, anew=spoken.anew)


def _cancel(observed: Observed, now: datetime, attempt: int) -> Plan:
    if observed.adopted and attempt == 1 and not observed.taken_by:
        # Whoever sent the entry waits for an answer.
        if observed.queue_error:
            return _wait(observed, now, "QueueUnavailable", observed.queue_error)
        why = Explanation(reason="Cancelled", message="cancelled before it ran")
        output = substitute(observed, now, attempt, why, "cancelled")
        return Plan(steps=(Publish(attempt=attempt, output=output),), again=True)
    end = give_up(observed, now, "Cancelled", "Cancelled", "cancelled before it ran")
    return end.model_copy(update={"steps": leftovers(observed)})


def _previous_holds(observed: Observed, now: datetime, previous: int) -> Plan | None:
    """Hold the attempt back until its time has come and the previous one is surely over."""
    if previous == 0:
        return None
    ended = ended_at(observed.status) or now
    place = place_after(observed, now)
    failures = failures_before(observed, previous + 1)
    wait = (ended + observed.spec.retry.backoff(failures) - now).total_seconds()
    if wait > 0 and not asked_something(observed.status):
        return Plan(place=place, due=wait)
    if any(pod.alive(now) for pod in observed.pods_of(previous)):
        # It has answered and will leave by itself; its log stays readable as long as its Job does.
        lingers = now - ended >= LINGERING
        steps = leftovers(observed) if lingers else ()
        return Plan(steps=steps, place=place, due=LOOK_AGAIN_SECONDS)
    return None


def _dependencies_hold(observed: Observed, now: datetime) -> Plan | None:
    found = observed.dependencies
    if dependencies_met(observed.status) or observed.status.attempts:
        return None
    if found.cycle:
        text = f"dependsOn goes in a circle: {' → '.join(found.cycle)}"
        return give_up(observed, now, "Failed", "DependencyCycle", text)
    if found.failed:
        text = f"it depends on {found.failed}, which was not completed"
        return give_up(observed, now, "Failed", "DependencyFailed", text)
    if found.missing:
        text = f"it depends on {list_names(found.missing)}, which does not exist here"
        return _wait(observed, now, "DependencyMissing", text)
    if found.waiting:
        text = f"waits for {list_names(found.waiting)}"
        return _wait(observed, now, "WaitingForDependencies", text)
    return None


def _in_line(observed: Observed, now: datetime) -> Plan:
    room = observed.room
    if room.shown and observed.status.reason == "ConcurrencyLimit":
        return Plan(place="wait", due=LOOK_AGAIN_SECONDS)
    text = (
        f"place {room.place} of {room.waiting}, "
        f"{room.running} of {room.limit} jobs running in this namespace"
    )
    return _wait(observed, now, "ConcurrencyLimit", text, place="wait", due=LOOK_AGAIN_SECONDS)


def _refused(observed: Observed, now: datetime, attempt: int, refusal: Refusal) -> Plan:
    if refusal.status in _TRY_LATER:
        return _wait(observed, now, refusal.reason, refusal.message, due=REFUSED_AGAIN_SECONDS)
    # "Job.batch "x" is invalid: spec…" says nothing before the colon that the reason does not.
    what = refusal.message.partition(" is invalid: ")[2] or refusal.message
    text = f"the API server refused Job {job_name(observed.name, attempt)}: {refusal.message}"
    why = Explanation(reason="JobRejected", message=one_line(what), detail=text)
    output = substitute(observed, now, attempt, why)
    return Plan(steps=(Publish(attempt=attempt, output=output),), place="take", again=True)


def _wait(
    observed: Observed,
    now: datetime,
    reason: str,
    message: str,
    *,
    place: Literal["wait", "leave"] = "leave",
    due: float | None = None,
) -> Plan:
    status = write(
        observed, now, "Pending", reason, message, admitted=False, started=False, detail=message
    )
    event = trouble(observed, reason, message, observed.status.attempts)
    return Plan(status=status, event=event, place=place, due=due)
