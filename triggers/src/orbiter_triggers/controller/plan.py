"""What a trigger needs next. Pure: of what was observed at one moment, and nothing else.

A time of the schedule is over when it has made a task, or when it was decided that it makes none;
the status says up to which time that is so. Until then it is due, so that one that has to wait for
an earlier task or for room in the hour needs nothing remembered. Its task, not the status, is the
proof that a time has made one: a task is made before the status says so.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from orbiter_operator.kube.models import Condition, ConditionStatus
from orbiter_triggers.controller.cache import TaskState
from orbiter_triggers.controller.observed import Observed, Plan, Run
from orbiter_triggers.models import CronSource, Note, Outcome, TriggerSpec, TriggerStatus
from orbiter_triggers.naming import scheduled_name, shown
from orbiter_triggers.schedule import MOST_COUNTED, Due, due, schedule_problem
from orbiter_triggers.template import template_problem

HOUR: Final = timedelta(hours=1)
_REFUSED: Final = "TaskRefused"


def plan(observed: Observed) -> Plan:
    """Decide what a trigger needs next."""
    spec, now = observed.spec, observed.now
    outdated, tidy_at = _outdated(observed)
    problem = observed.spec_error or _spec_problem(spec)
    if problem is not None:
        status = _status(observed, Ready("False", "InvalidSpec", problem))
        return Plan(status=status, outdated=outdated, requeue_after=_until(now, tidy_at))
    if spec.source.cron is None:
        text = "events are not received by this version of Orbiter; use source.cron"
        status = _status(observed, Ready("False", "SourceNotServed", text))
        return Plan(status=status, outdated=outdated, requeue_after=_until(now, tidy_at))
    return _scheduled(observed, spec.source.cron, outdated, tidy_at)


class Ready(NamedTuple):
    """What the condition Ready should say."""

    status: ConditionStatus
    reason: str
    message: str


def _spec_problem(spec: TriggerSpec) -> str | None:
    source = spec.source
    if sum(one is not None for one in (source.github, source.webhook, source.cron)) != 1:
        return "spec.source: write exactly one of github, webhook and cron"
    if source.cron is not None and (
        problem := schedule_problem(source.cron.schedule, source.cron.time_zone)
    ):
        return problem
    return template_problem(spec.task_template)


def _scheduled(
    observed: Observed, cron: CronSource, outdated: tuple[TaskState, ...], tidy_at: datetime | None
) -> Plan:
    spec, status, now = observed.spec, observed.status, observed.now
    last = status.last_schedule_time or observed.created
    notes = list[Note]()
    for task in observed.tasks:
        if task.scheduled is not None and last < task.scheduled <= now:
            notes.append(_note(now, task.scheduled, "Fired", task=task.name))
            last = task.scheduled
    found = due(cron.schedule, cron.time_zone, last, now, cron.starting_deadline_seconds)
    missed, decided = 0, found.decided
    wait_until: datetime | None = None
    run: Run | None = None
    replaced: tuple[TaskState, ...] = ()
    ready = _fired_or_before(observed, fired=bool(notes))
    if spec.suspend:
        ready = Ready("True", "Suspended", "spec.suspend is true")
        if decided is not None:
            missed = found.missed + (found.run is not None)
            notes.append(_note(now, decided, "Suspended", message=_count(missed)))
    elif decided is not None:
        if found.missed:
            latest = found.last_missed or decided
            notes.append(_note(now, latest, "Missed", message=_missed(found, cron)))
            missed = found.missed
        if found.run is not None:
            outcome, why, wait_until = _verdict(observed, cron, found.run)
            name = scheduled_name(observed.name, observed.uid, found.run)
            if outcome == "Fired":
                run = Run(name=name, scheduled=found.run)
                replaced = _active(observed) if cron.concurrency_policy == "Replace" else ()
            else:
                notes.append(_note(now, found.run, outcome, message=why))
            if outcome in ("Fired", "Waiting"):
                decided = found.last_missed
            else:
                missed += 1
            if outcome == "Refused":
                ready = Ready("False", _REFUSED, why)
    changed = {
        "last_schedule_time": decided or (last if notes else status.last_schedule_time),
        "next_schedule_time": found.next,
        "missed_runs": status.missed_runs + missed,
        "last_events": status.noted(*notes),
    }
    return Plan(
        replaced=replaced,
        run=run,
        status=_status(observed, ready).model_copy(update=changed),
        outdated=outdated,
        requeue_after=_until(now, tidy_at, found.next, wait_until),
    )


def _verdict(
    observed: Observed, cron: CronSource, run: datetime
) -> tuple[Outcome, str, datetime | None]:
    """What becomes of a time that is due, why, and until when it has to wait at most."""
    spec, now = observed.spec, observed.now
    seconds = cron.starting_deadline_seconds
    # Behind it, because up to it the time still counts.
    deadline = None if seconds is None else run + timedelta(seconds=seconds + 1)
    name = scheduled_name(observed.name, observed.uid, run)
    if observed.refusal is not None and observed.refused == name:
        return "Refused", f"no task was made: {observed.refusal.message}", None
    active = _active(observed)
    if active and cron.concurrency_policy == "Forbid":
        return "Waiting", f"AgentTask {active[0].name} has not ended", deadline
    recent = [task for task in observed.tasks if task.created > now - HOUR]
    if len(recent) < spec.max_per_hour:
        return "Fired", "", None
    why = f"{len(recent)} tasks were made within an hour, spec.maxPerHour is {spec.max_per_hour}"
    if spec.when_full == "Drop":
        return "Dropped", why, None
    free = recent[-spec.max_per_hour].created + HOUR
    return "Waiting", why, free if deadline is None else min(free, deadline)


def _outdated(observed: Observed) -> tuple[tuple[TaskState, ...], datetime | None]:
    """Tasks beyond the limits of history, and when the next one will be old enough to go."""
    limits = observed.spec.history_limits
    ended = [task for task in observed.tasks if task.ended]
    good = [task for task in ended if task.phase == "Completed"]
    bad = [task for task in ended if task.phase != "Completed"]
    beyond = [
        *good[: max(len(good) - limits.successful, 0)],
        *bad[: max(len(bad) - limits.failed, 0)],
    ]
    # A task counts for spec.maxPerHour as long as that hour has not passed.
    old = tuple(task for task in beyond if task.created <= observed.now - HOUR)
    young = [task.created + HOUR for task in beyond if task.created > observed.now - HOUR]
    return old, min(young, default=None)


def _active(observed: Observed) -> tuple[TaskState, ...]:
    return tuple(task for task in observed.tasks if not task.ended)


def _fired_or_before(observed: Observed, *, fired: bool) -> Ready:
    """That it is ready, unless the API server refuses its tasks, as far as anybody knows."""
    old = observed.status.condition("Ready")
    same = old is not None and old.observed_generation == observed.generation
    if old is not None and same and old.reason == _REFUSED and not fired:
        return Ready(old.status, old.reason, old.message)
    return Ready("True", "AsExpected", "")


def _status(observed: Observed, ready: Ready) -> TriggerStatus:
    status, now = observed.status, observed.now
    conditions = [_condition(observed, "Ready", ready.status, ready.reason, ready.message, now)]
    if ready.reason == "InvalidSpec":
        text = ready.message
        conditions.append(_condition(observed, "Stalled", "True", ready.reason, text, now))
    newest = observed.tasks[-1].name if observed.tasks else status.last_task
    changed = {
        "conditions": tuple(conditions),
        "observed_generation": observed.generation,
        "active": len(_active(observed)),
        "last_task": newest,
    }
    return status.model_copy(update=changed)


def _condition(
    observed: Observed, kind: str, holds: ConditionStatus, reason: str, message: str, now: datetime
) -> Condition:
    generation = observed.generation
    return observed.status.next_condition(kind, holds, reason, message, now, generation)


def _note(
    now: datetime, moment: datetime, outcome: Outcome, *, task: str = "", message: str = ""
) -> Note:
    return Note(
        time=now,
        event=f"schedule {shown(moment)}",
        outcome=outcome,
        task=task or None,
        message=message or None,
    )


def _count(number: int) -> str:
    if number == 1:
        return "1 time of the schedule makes no task"
    more = " or more" if number >= MOST_COUNTED else ""
    return f"{number}{more} times of the schedule make no task"


def _missed(found: Due, cron: CronSource) -> str:
    first = shown(found.first_missed) if found.first_missed is not None else ""
    since = f", from {first} on" if found.missed > 1 else ""
    why = "nobody made one in time"
    if cron.starting_deadline_seconds is not None:
        why += f", startingDeadlineSeconds is {cron.starting_deadline_seconds}"
    return f"{_count(found.missed)}{since}: {why}"


def _until(now: datetime, *moments: datetime | None) -> float | None:
    """Seconds until the first of these; None when there is none."""
    left = [(moment - now).total_seconds() for moment in moments if moment is not None]
    return max(min(left), 0.0) if left else None
