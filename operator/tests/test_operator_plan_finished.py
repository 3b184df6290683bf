"""At the end of a task: it stays what it is, stops what lingers, and goes in time."""

from datetime import UTC, datetime, timedelta

import pytest
from support.observed import NOW, decide, ended, job, observed, output, pod, record, running, spec

from orbiter_operator.tasks.plan.actions import DeleteJob, DeleteTask, ForgetSession

STOP = DeleteJob(name="fix-1")
FINISHED_AT = 72  # seconds after NOW, as the output says


def finished(out=None, **changes):
    """A task whose first attempt published this output."""
    return ended(running(**record(out or output())), **changes)


@pytest.mark.parametrize("status", ["success", "failed", "cancelled"])
def test_a_final_phase_is_never_left(status):
    task = finished(output(status))
    for state in ("active", "complete", "failed"):
        assert decide(task.model_copy(update={"jobs": (job(state=state),)})).status is None


def test_a_wish_to_cancel_comes_too_late_for_a_finished_task():
    assert decide(finished(spec=spec(desiredState="Cancelled"))).status is None


def test_a_worker_that_has_published_is_given_time_to_leave():
    assert decide(finished(), after=FINISHED_AT).actions == ()
    assert decide(finished(), after=FINISHED_AT).requeue_after == 120


def test_a_worker_that_does_not_leave_is_stopped():
    assert decide(finished(), after=FINISHED_AT + 121).actions == (STOP,)


def test_a_cancelled_worker_is_stopped_though_the_operator_crashed_in_between():
    assert decide(finished(output("cancelled", reason="Cancelled"))).actions == (STOP,)


def test_a_task_without_a_time_to_live_stays():
    over = finished(jobs=(job(state="complete"),))
    assert decide(over, after=10**6).actions == ()


def test_a_task_is_deleted_when_its_time_to_live_is_over():
    over = finished(jobs=(), spec=spec(ttlSecondsAfterFinished=60))
    assert decide(over, after=FINISHED_AT + 59).requeue_after == 1
    assert decide(over, after=FINISHED_AT + 60).actions == (DeleteTask(),)


def test_a_task_is_kept_while_others_have_yet_to_see_that_it_was_completed():
    wish = spec(ttlSecondsAfterFinished=0)
    over = finished(jobs=(), spec=wish, dependents_waiting=True)
    assert decide(over, after=FINISHED_AT + 60).actions == ()


def test_an_output_that_is_still_unacknowledged_brings_its_event_back():
    assert decide(finished()).events == ()
    assert decide(finished(unacknowledged=True)).events[0].reason == "Completed"


def test_a_spec_that_was_changed_after_the_end_is_shown_to_be_seen():
    task = finished(generation=2, spec=spec(ttlSecondsAfterFinished=600))
    decision = decide(task)
    assert decision.status.observed_generation == 2
    assert decision.status.phase == "Completed"
    assert decide(task.model_copy(update={"status": decision.status})).status is None


def test_the_session_of_a_task_that_has_asked_is_forgotten_at_its_end():
    asked = [{"id": "q", "text": "main"}]
    assert ForgetSession() in decide(finished(spec=spec(input=asked))).actions
    assert ForgetSession() not in decide(finished()).actions


def test_a_worker_that_answers_before_its_pod_was_heard_of_keeps_its_slot_until_then():
    unheard = finished(pods=())
    assert decide(unheard).slot == "take"
    for over in (job(state="complete"), job(deleting=True)):
        assert decide(unheard.model_copy(update={"jobs": (over,)})).slot == "leave"
    assert decide(unheard.model_copy(update={"pods": (pod(phase="Succeeded"),)})).slot == "leave"


@pytest.mark.parametrize("finished", [datetime(2999, 1, 1, tzinfo=UTC), NOW - timedelta(days=9000)])
@pytest.mark.parametrize(
    "started", [datetime(2999, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)]
)
def test_a_worker_whose_clock_is_far_off_neither_puts_off_the_end_nor_works_for_ever(
    finished, started
):
    out = output(started_at=started, finished_at=finished, duration_ms=2**53 - 1)
    for task in (running(**record(out)), observed(jobs=(job(),), **record(out))):
        status = decide(task, after=60).status
        assert NOW <= status.start_time <= status.completion_time <= NOW + timedelta(minutes=6)
        assert 0 <= status.duration_ms <= 360_000


def test_a_duration_without_a_beginning_is_no_longer_than_the_task_has_existed():
    out = output(started_at=None, finished_at=None, duration_ms=2**53 - 1)
    status = decide(observed(jobs=(job(),), **record(out)), after=60).status
    assert status.duration_ms <= 360_000


def test_a_worker_that_says_it_begins_in_the_future_has_begun_now():
    task = observed(jobs=(job(),), busy_since=datetime(2999, 1, 1, tzinfo=UTC), **record())
    assert decide(task, after=1).status.start_time == NOW + timedelta(seconds=1)


@pytest.mark.parametrize("reason", ["two words", "lower", "x" * 65, "A" * 65, "Ünder", "A\n", ""])
def test_a_reason_that_is_no_camel_case_word_is_told_in_the_message_only(reason):
    status = decide(running(**record(output("failed", reason=reason, error="it broke")))).status
    assert status.reason == "AgentError"
    assert "it broke" in status.message
    assert {item.reason for item in status.conditions} <= {"AgentError", "AsExpected"}


def test_a_reason_of_one_camel_case_word_is_the_tasks():
    status = decide(running(**record(output("failed", reason="OutOfCoffee2", error="x")))).status
    assert status.reason == "OutOfCoffee2"
