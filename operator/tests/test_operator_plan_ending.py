"""At the end of a task: it stays what it is, stops what lingers, and goes in time."""

import pytest
from support.observed import decide, ended, job, output, pod, record, running, spec

from orbiter_operator.steps import DeleteJob, DeleteTask, ForgetSession

STOP = DeleteJob(name="fix-1")
FINISHED_AT = 72  # seconds after NOW, as the output says


def finished(out=None, **changes):
    """A task whose first attempt published this output."""
    return ended(running(**record(out or output())), **changes)


@pytest.mark.parametrize("status", ["success", "failed", "cancelled"])
def test_a_final_phase_is_never_left(status):
    facts = finished(output(status))
    for state in ("active", "complete", "failed"):
        assert decide(facts.model_copy(update={"jobs": (job(state=state),)})).status is None


def test_a_wish_to_cancel_comes_too_late_for_a_finished_task():
    assert decide(finished(spec=spec(desiredState="Cancelled"))).status is None


def test_a_worker_that_has_published_is_given_time_to_leave():
    assert decide(finished(), after=FINISHED_AT).steps == ()
    assert decide(finished(), after=FINISHED_AT).due == 120


def test_a_worker_that_does_not_leave_is_stopped():
    assert decide(finished(), after=FINISHED_AT + 121).steps == (STOP,)


def test_a_cancelled_worker_is_stopped_though_the_operator_crashed_in_between():
    assert decide(finished(output("cancelled", reason="Cancelled"))).steps == (STOP,)


def test_a_task_without_a_time_to_live_stays():
    over = finished(jobs=(job(state="complete"),))
    assert decide(over, after=10**6).steps == ()


def test_a_task_is_deleted_when_its_time_to_live_is_over():
    over = finished(jobs=(), spec=spec(ttlSecondsAfterFinished=60))
    assert decide(over, after=FINISHED_AT + 59).due == 1
    assert decide(over, after=FINISHED_AT + 60).steps == (DeleteTask(),)


def test_a_task_is_kept_while_others_have_yet_to_see_that_it_was_completed():
    wish = spec(ttlSecondsAfterFinished=0)
    over = finished(jobs=(), spec=wish, dependents_waiting=True)
    assert decide(over, after=FINISHED_AT + 60).steps == ()


def test_an_output_that_is_still_unacknowledged_brings_its_event_back():
    assert decide(finished()).event is None
    assert decide(finished(news=True)).event.reason == "Completed"


def test_a_spec_that_was_changed_after_the_end_is_shown_to_be_seen():
    facts = finished(generation=2, spec=spec(ttlSecondsAfterFinished=600))
    decision = decide(facts)
    assert decision.status.observed_generation == 2
    assert decision.status.phase == "Completed"
    assert decide(facts.model_copy(update={"status": decision.status})).status is None


def test_the_session_of_a_task_that_has_asked_is_forgotten_at_its_end():
    asked = [{"id": "q", "text": "main"}]
    assert ForgetSession() in decide(finished(spec=spec(input=asked))).steps
    assert ForgetSession() not in decide(finished()).steps


def test_a_worker_that_answers_before_its_pod_was_heard_of_keeps_its_place_until_then():
    unheard = finished(pods=())
    assert decide(unheard).place == "take"
    for over in (job(state="complete"), job(deleting=True)):
        assert decide(unheard.model_copy(update={"jobs": (over,)})).place == "leave"
    assert decide(unheard.model_copy(update={"pods": (pod(phase="Succeeded"),)})).place == "leave"
