"""What a trigger needs next. Pure: of what was observed at one moment, and nothing else.

A time of the schedule is over when it has made a task, or when it was decided that it makes none;
the status says up to which time that is so. Until then it is due, so that one that has to wait for
an earlier task or for room in the hour needs nothing remembered. Its task, not the status, is the
proof that a time has made one: a task is made before the status says so.
"""

from datetime import datetime, timedelta

from orbiter_triggers.controller.cache import TaskState
from orbiter_triggers.controller.observed import Observed, Plan, Run
from orbiter_triggers.controller.plan_events import plan_events
from orbiter_triggers.controller.status import (
    REFUSED,
    Ready,
    active_tasks,
    fired_or_before,
    outdated_tasks,
    room,
    status_with,
    until,
)
from orbiter_triggers.models import CronSource, Note, Outcome, TriggerSpec
from orbiter_triggers.naming import scheduled_name, shown
from orbiter_triggers.schedule import MOST_COUNTED, Due, due, schedule_problem
from orbiter_triggers.template import template_problem


def plan(observed: Observed) -> Plan:
    """Decide what a trigger needs next."""
    spec, now = observed.spec, observed.now
    outdated, tidy_at = outdated_tasks(observed)
    problem = observed.spec_error or _spec_problem(spec)
    if spec.source.scheme is not None and (observed.received or problem is None):
        return plan_events(observed, problem, outdated, tidy_at)
    if problem is not None or spec.source.cron is None:
        status = status_with(observed, Ready("False", "InvalidSpec", problem or ""))
        return Plan(status=status, outdated=outdated, requeue_after=until(now, tidy_at))
    return _scheduled(observed, spec.source.cron, outdated, tidy_at)


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
    ready = fired_or_before(observed, fired=bool(notes))
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
                replaced = active_tasks(observed) if cron.concurrency_policy == "Replace" else ()
            else:
                notes.append(_note(now, found.run, outcome, message=why))
            if outcome in ("Fired", "Waiting"):
                decided = found.last_missed
            else:
                missed += 1
            if outcome == "Refused":
                ready = Ready("False", REFUSED, why)
    changed = {
        "last_schedule_time": decided or (last if notes else status.last_schedule_time),
        "next_schedule_time": found.next,
        "missed_runs": status.missed_runs + missed,
        "last_events": status.noted(*notes),
    }
    return Plan(
        replaced=replaced,
        run=run,
        status=status_with(observed, ready).model_copy(update=changed),
        outdated=outdated,
        requeue_after=until(now, tidy_at, found.next, wait_until),
    )


def _verdict(
    observed: Observed, cron: CronSource, run: datetime
) -> tuple[Outcome, str, datetime | None]:
    """What becomes of a time that is due, why, and until when it has to wait at most."""
    seconds = cron.starting_deadline_seconds
    # Behind it, because up to it the time still counts.
    deadline = None if seconds is None else run + timedelta(seconds=seconds + 1)
    name = scheduled_name(observed.name, observed.uid, run)
    if observed.refusal is not None and observed.refused == name:
        return "Refused", f"no task was made: {observed.refusal.message}", None
    active = active_tasks(observed)
    if active and cron.concurrency_policy == "Forbid":
        return "Waiting", f"AgentTask {active[0].name} has not ended", deadline
    free, why, at = room(observed)
    if free or at is None:
        return "Fired", "", None
    if observed.spec.when_full == "Drop":
        return "Dropped", why, None
    return "Waiting", why, at if deadline is None else min(at, deadline)


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
