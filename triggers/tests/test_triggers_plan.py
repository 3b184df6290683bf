"""What a trigger does next, as a table: due times, tasks that have not ended, limits, history."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.kstatus import kstatus

from orbiter_operator.kube.models import Refusal, read_model, read_status
from orbiter_triggers.controller.cache import TaskState
from orbiter_triggers.controller.observed import Observed, Plan
from orbiter_triggers.controller.plan import plan
from orbiter_triggers.models import TriggerSpec, TriggerStatus
from orbiter_triggers.naming import scheduled_name

SIX = datetime(2026, 11, 30, 6, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def observed(
    now: datetime,
    *tasks: TaskState,
    status: TriggerStatus | None = None,
    cron: dict[str, Any] | None = None,
    **spec: Any,
) -> Observed:
    """A trigger of the hour that was made at half past five."""
    source = {"cron": {"schedule": "0 * * * *", **(cron or {})}}
    template = {"spec": {"prompt": "Look at the dependencies."}}
    raw = {"source": source, "taskTemplate": template} | spec
    read, error = read_model(TriggerSpec, raw)
    return Observed(
        namespace="team",
        name="deps",
        uid="u-1",
        generation=1,
        created=SIX - HOUR / 2,
        spec=read,
        spec_error=error,
        status=status or TriggerStatus(),
        tasks=tasks,
        now=now,
    )


def task(scheduled: datetime, phase: str = "Running", created: datetime | None = None) -> TaskState:
    return TaskState(
        name=scheduled_name("deps", "u-1", scheduled),
        uid=f"t-{scheduled:%d%H%M}",
        owner="u-1",
        created=created or scheduled,
        phase=phase,
        scheduled=scheduled,
    )


def outcomes(found: Plan) -> list[str]:
    return [note.outcome for note in found.status.last_events]


def test_before_its_time_it_says_when_and_waits_for_that() -> None:
    found = plan(observed(SIX - 10 * MINUTE))
    assert (found.run, found.requeue_after) == (None, 600.0)
    assert found.status.next_schedule_time == SIX
    assert kstatus(found.status, 1) == "Current"


def test_at_its_time_it_makes_the_task_of_that_time() -> None:
    found = plan(observed(SIX))
    assert found.run is not None
    assert found.run.scheduled == SIX
    assert found.run.name == scheduled_name("deps", "u-1", SIX)
    assert found.status.last_schedule_time is None


def test_the_task_itself_says_that_its_time_is_over() -> None:
    found = plan(observed(SIX, task(SIX)))
    assert found.run is None
    assert found.status.last_schedule_time == SIX
    assert (found.status.active, found.status.last_task) == (1, task(SIX).name)
    assert outcomes(found) == ["Fired"]
    again = plan(observed(SIX + MINUTE, task(SIX), status=found.status))
    assert (again.run, again.status) == (None, found.status)


def test_a_time_that_the_status_says_is_over_makes_no_second_task() -> None:
    assert plan(observed(SIX, status=TriggerStatus(last_schedule_time=SIX))).run is None


def test_a_task_of_the_future_is_not_believed() -> None:
    found = plan(observed(SIX, task(SIX + 1000 * HOUR)))
    assert found.run is not None
    assert found.run.scheduled == SIX


def test_after_a_day_of_downtime_one_task_is_made_and_the_rest_is_missed() -> None:
    now = SIX + 24 * HOUR + MINUTE
    found = plan(observed(now, status=TriggerStatus(last_schedule_time=SIX)))
    assert found.run is not None
    assert found.run.scheduled == SIX + 24 * HOUR
    assert (found.status.missed_runs, outcomes(found)) == (23, ["Missed"])
    assert found.status.last_schedule_time == SIX + 23 * HOUR


def test_what_was_missed_before_a_run_is_in_the_status_with_it() -> None:
    now = SIX + 3 * HOUR + MINUTE
    earlier = plan(observed(now, status=TriggerStatus(last_schedule_time=SIX)))
    assert earlier.status.missed_runs == 2
    after = plan(observed(now, task(SIX + 3 * HOUR, created=now), status=earlier.status))
    assert (after.status.missed_runs, outcomes(after)) == (2, ["Fired", "Missed"])


def test_beyond_the_deadline_it_is_missed_and_told_why() -> None:
    now = SIX + 10 * MINUTE
    found = plan(observed(now, cron={"startingDeadlineSeconds": 300}))
    assert found.run is None
    assert (found.status.missed_runs, found.status.last_schedule_time) == (1, SIX)
    [note] = found.status.last_events
    assert note.outcome == "Missed"
    assert note.message is not None
    assert "startingDeadlineSeconds is 300" in note.message


def test_with_forbid_it_waits_for_the_task_before_and_says_so_once() -> None:
    now = SIX + HOUR
    status = TriggerStatus(last_schedule_time=SIX)
    found = plan(observed(now, task(SIX), status=status, cron={"concurrencyPolicy": "Forbid"}))
    assert (found.run, outcomes(found)) == (None, ["Waiting"])
    assert found.status.last_schedule_time == SIX
    later = observed(
        now + MINUTE, task(SIX), status=found.status, cron={"concurrencyPolicy": "Forbid"}
    )
    assert outcomes(plan(later)) == ["Waiting"]
    ended = later.model_copy(update={"tasks": (task(SIX, "Failed"),)})
    run = plan(ended).run
    assert run is not None
    assert run.scheduled == now


def test_with_forbid_a_time_that_waits_too_long_is_missed() -> None:
    cron = {"concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 60}
    status = TriggerStatus(last_schedule_time=SIX)
    waits = plan(observed(SIX + HOUR, task(SIX), status=status, cron=cron))
    assert waits.requeue_after == 61.0
    over = plan(observed(SIX + HOUR + 61 * MINUTE / 60, task(SIX), status=waits.status, cron=cron))
    assert (over.run, outcomes(over)) == (None, ["Missed", "Waiting"])
    assert over.status.missed_runs == 1


def test_with_replace_the_task_before_is_deleted_and_ended_ones_are_not() -> None:
    old, ended = task(SIX), task(SIX - HOUR, "Completed")
    status = TriggerStatus(last_schedule_time=SIX)
    found = plan(
        observed(SIX + HOUR, ended, old, status=status, cron={"concurrencyPolicy": "Replace"})
    )
    assert found.replaced == (old,)
    assert found.run is not None


def test_beyond_the_limit_of_an_hour_a_time_waits_until_the_hour_has_room() -> None:
    tasks = [task(SIX + n * MINUTE, "Completed") for n in range(2)]
    status = TriggerStatus(last_schedule_time=SIX + MINUTE)
    every_minute = {"schedule": "* * * * *"}
    full = observed(SIX + 2 * MINUTE, *tasks, status=status, cron=every_minute, maxPerHour=2)
    found = plan(full)
    assert (found.run, outcomes(found)) == (None, ["Waiting"])
    slow = observed(SIX + HOUR / 2, *tasks, status=found.status, cron={}, maxPerHour=2)
    assert plan(slow).requeue_after == 1800.0
    free = full.model_copy(update={"now": SIX + HOUR, "status": found.status})
    run = plan(free).run
    assert run is not None
    assert run.scheduled == SIX + HOUR


def test_with_drop_a_time_beyond_the_limit_is_over() -> None:
    tasks = [task(SIX, "Completed", created=SIX + HOUR - MINUTE)]
    status = TriggerStatus(last_schedule_time=SIX)
    found = plan(observed(SIX + HOUR, *tasks, status=status, maxPerHour=1, whenFull="Drop"))
    assert (found.run, outcomes(found)) == (None, ["Dropped"])
    assert (found.status.last_schedule_time, found.status.missed_runs) == (SIX + HOUR, 1)


def test_suspended_it_makes_nothing_and_makes_up_for_nothing() -> None:
    found = plan(observed(SIX, suspend=True))
    assert (found.run, outcomes(found)) == (None, ["Suspended"])
    ready = found.status.condition("Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("True", "Suspended")
    again = plan(observed(SIX + MINUTE, status=found.status))
    assert again.run is None


def test_a_task_that_is_refused_is_told_and_not_tried_for_ever() -> None:
    refusal = Refusal(status=422, reason="Invalid", message="spec.agent.type: unknown agent type")
    asked = observed(SIX).model_copy(
        update={"refused": scheduled_name("deps", "u-1", SIX), "refusal": refusal}
    )
    found = plan(asked)
    assert (found.run, found.status.last_schedule_time) == (None, SIX)
    ready = found.status.condition("Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "TaskRefused")
    assert "unknown agent type" in ready.message
    kept = plan(observed(SIX + MINUTE, status=found.status)).status.condition("Ready")
    assert kept == ready
    better = plan(observed(SIX + HOUR, task(SIX + HOUR), status=found.status))
    assert kstatus(better.status, 1) == "Current"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"source": {}}, "spec.source: write exactly one of"),
        ({"source": {"cron": {"schedule": "61 * * * *"}}}, "Bad minute"),
        ({"source": {"cron": {"schedule": "0 6 * * *", "timeZone": "Mars"}}}, "is no time zone"),
        ({"taskTemplate": {"spec": {"prompt": "${{event.nothing}}"}}}, "names no field"),
        ({"maxPerHour": "many"}, "spec.maxPerHour: "),
    ],
)
def test_a_spec_that_cannot_work_stalls_with_a_sentence(
    spec: dict[str, Any], sentence: str
) -> None:
    found = plan(observed(SIX, **spec))
    assert found.run is None
    assert kstatus(found.status, 1) == "Failed"
    ready = found.status.condition("Ready")
    assert ready is not None
    assert sentence in ready.message


def test_events_are_not_received_yet_and_the_status_says_so() -> None:
    found = plan(observed(SIX, source={"github": {"repository": "octo/shop"}}))
    ready = found.status.condition("Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "SourceNotServed")


def test_history_keeps_the_latest_of_each_kind_and_nothing_younger_than_an_hour() -> None:
    good = [task(SIX + n * MINUTE, "Completed") for n in range(4)]
    bad = [task(SIX + n * MINUTE, "Failed") for n in range(10, 12)]
    limits = {"successful": 1, "failed": 1}
    status = TriggerStatus(last_schedule_time=SIX + HOUR)
    now = SIX + HOUR + MINUTE
    found = plan(observed(now, *good, *bad, status=status, historyLimits=limits))
    assert found.outdated == (good[0], good[1])
    assert found.requeue_after == 60.0


def test_any_status_that_somebody_wrote_is_read() -> None:
    odd = {"lastEvents": [{"time": 1}] * 50, "missedRuns": -4, "lastScheduleTime": "never"}
    assert plan(observed(SIX, status=read_status(TriggerStatus, odd))).run is not None
