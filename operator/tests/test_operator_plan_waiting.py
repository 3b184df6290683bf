"""Before an attempt: what a task waits for, and when it begins."""

from datetime import timedelta

import pytest
from support.observed import NOW, decide, ended, job, observed, output, pod, record, running, spec

from orbiter_contracts.outcome import Result
from orbiter_operator.kube.models import Refusal
from orbiter_operator.tasks.models import TaskStatus
from orbiter_operator.tasks.observed import Adopted, Dependencies, Slots
from orbiter_operator.tasks.plan.actions import DeleteJob, Plan, Publish, StartAttempt

START = (StartAttempt(attempt=1, prompt="do it"),)
FULL = Slots(free=False, position=3, waiting=12, running=5, limit=5)


def test_a_new_task_with_a_free_slot_starts_at_once():
    decision = decide(observed())
    assert decision.actions == START
    assert decision.slot == "take"
    assert (decision.status.phase, decision.status.reason) == ("Pending", "Starting")
    assert decision.status.job_name == "fix-1"
    assert decision.status.worker_id == "team.fix-1"
    assert decision.status.attempts == 1


def test_a_task_that_another_program_manages_is_left_alone():
    theirs = observed(spec=spec(managedBy="orbiter.dev/task-broker"))
    assert decide(theirs) == Plan()
    assert decide(observed(spec=spec(managedBy="orbiter.dev/operator"))).actions == START


def test_a_task_in_a_queue_of_kueue_waits_for_no_slot_of_ours():
    queued = observed(slots=FULL, spec=spec(queueName="team"))
    assert decide(queued).actions == START
    # Kueue gives Jobs to a namespace's default queue by itself.
    assert observed(jobs=(job(queue="default"),)).queue == "default"
    assert observed(jobs=(job(),)).queue == ""


def test_a_task_without_a_free_slot_waits_and_says_its_position():
    decision = decide(observed(slots=FULL))
    assert decision.actions == ()
    assert decision.slot == "wait"
    assert decision.status.reason == "ConcurrencyLimit"
    assert decision.status.message == "place 3 of 12, 5 of 5 slots taken in this namespace"
    assert decision.status.condition("Admitted").status == "False"


def test_a_task_in_line_says_which_slots_are_taken_by_tasks_that_cannot_start():
    one = FULL.model_copy(update={"stuck": ("fix-login",)})
    assert decide(observed(slots=one)).status.message == (
        "place 3 of 12, 5 of 5 slots taken in this namespace, "
        "1 of them by a task that cannot start: fix-login"
    )
    many = FULL.model_copy(update={"stuck": ("a", "b", "c", "d")})
    said = decide(observed(slots=many)).status.message
    assert said.endswith("4 of them by tasks that cannot start: a, b, c and 1 more")


def test_a_position_that_is_shown_already_is_not_written_again():
    waiting = ended(observed(slots=FULL))
    moved_up = FULL.model_copy(update={"position": 2, "shown": True})
    assert decide(waiting.model_copy(update={"slots": moved_up})).status is None


def test_a_position_that_was_shown_long_ago_is_written_anew():
    waiting = ended(observed(slots=FULL))
    moved_up = FULL.model_copy(update={"position": 2})
    assert "place 2 of 12" in decide(waiting.model_copy(update={"slots": moved_up})).status.message


def test_a_task_that_has_waited_starts_without_another_line_in_its_status():
    decision = decide(ended(observed(slots=FULL), slots=Slots()))
    assert decision.actions == START
    assert decision.status is None


NOT_SERVED = "workers need a label: kubectl label namespace team tenant=yes"


def test_where_no_worker_may_run_a_task_waits_without_a_job_and_says_what_is_missing():
    decision = decide(observed(not_served=NOT_SERVED))
    assert decision.actions == ()
    assert decision.slot == "leave"
    assert (decision.status.phase, decision.status.reason) == ("Pending", "NamespaceNotServed")
    assert decision.status.message == NOT_SERVED
    [event] = decision.events
    assert (event.kind, event.reason) == ("Warning", "NamespaceNotServed")
    assert decide(observed()).actions == START


def test_a_job_that_gets_no_pod_where_no_worker_may_run_any_more_says_that():
    begun = observed(jobs=(job(),), **record())
    assert decide(begun, after=60).status.reason == "PodNotCreated"
    said = decide(observed(jobs=(job(),), not_served=NOT_SERVED, **record()), after=60).status
    assert (said.phase, said.reason, said.message) == ("Pending", "NamespaceNotServed", NOT_SERVED)


def test_a_task_waits_for_its_dependencies_by_name():
    decision = decide(observed(dependencies=Dependencies(waiting=("a", "b", "c", "d"))))
    assert decision.slot == "leave"
    assert decision.status.reason == "WaitingForDependencies"
    assert decision.status.message == "waits for a, b, c and 1 more"


def test_a_missing_dependency_is_named():
    decision = decide(observed(dependencies=Dependencies(missing=("build",))))
    assert (decision.status.phase, decision.status.reason) == ("Pending", "DependencyMissing")
    assert "build" in decision.status.message


def test_a_failed_dependency_fails_the_task():
    decision = decide(observed(dependencies=Dependencies(failed="build")))
    assert (decision.status.phase, decision.status.reason) == ("Failed", "DependencyFailed")
    assert decision.events[0].kind == "Warning"


def test_a_cycle_fails_the_task_and_names_the_cycle():
    decision = decide(observed(dependencies=Dependencies(cycle=("fix", "b", "fix"))))
    assert (decision.status.phase, decision.status.reason) == ("Failed", "DependencyCycle")
    assert "fix → b → fix" in decision.status.message


def test_dependencies_that_were_complete_once_are_not_asked_again():
    waited = ended(observed(slots=FULL), slots=Slots(), dependencies=Dependencies(missing=("a",)))
    assert decide(waited).actions == START


def test_a_prompt_that_is_not_there_yet_is_waited_for():
    decision = decide(observed(prompt=None, prompt_error="ConfigMap p does not exist"))
    assert (decision.status.phase, decision.status.reason) == ("Pending", "PromptMissing")
    assert decision.requeue_after == 30


def test_a_spec_that_cannot_be_read_fails_the_task_and_says_where():
    decision = decide(observed(spec_error="spec.retry.limit: not a number"))
    assert (decision.status.phase, decision.status.reason) == ("Failed", "InvalidSpec")


def test_redis_being_away_is_a_reason_and_no_phase_of_its_own():
    decision = decide(observed(queue_error="Redis at redis://r:6379/0 does not answer"))
    assert (decision.status.phase, decision.status.reason) == ("Pending", "QueueUnavailable")
    assert decision.actions == ()


def test_no_attempt_begins_whose_worker_could_not_publish():
    decision = decide(observed(over_quota="namespace team holds more than twice 100 bytes"))
    assert (decision.status.phase, decision.status.reason) == ("Pending", "RedisQuotaExceeded")
    assert decision.status.message == "namespace team holds more than twice 100 bytes"
    assert decision.actions == ()
    assert [event.reason for event in decision.events] == ["RedisQuotaExceeded"]


@pytest.mark.parametrize("status", [403, 409])
def test_a_refusal_that_may_pass_is_shown_and_tried_again(status):
    refusal = Refusal(status=status, reason="QuotaExceeded", message="exceeded quota: jobs")
    decision = decide(observed(refusal=refusal))
    assert (decision.status.phase, decision.status.reason) == ("Pending", "QuotaExceeded")
    assert decision.requeue_after == 15
    assert decision.slot == "leave"


def test_a_job_the_api_server_finds_invalid_is_answered_for_its_worker():
    refusal = Refusal(status=422, reason="Invalid", message="spec.template: nonsense")
    (step,) = decide(observed(refusal=refusal)).actions
    assert isinstance(step, Publish)
    assert step.output.reason == "JobRejected"
    assert "nonsense" in step.output.error


def test_a_rejected_job_fails_the_task_whatever_the_retry_limit():
    substitute = output("failed", reason="JobRejected", error="the API server refused it")
    decision = decide(observed(spec=spec(retry={"limit": 3}), **record(substitute)))
    assert (decision.status.phase, decision.status.reason) == ("Failed", "JobRejected")


def test_a_task_cancelled_before_it_ran_is_cancelled():
    decision = decide(observed(spec=spec(desiredState="Cancelled")))
    assert (decision.status.phase, decision.status.reason) == ("Cancelled", "Cancelled")
    assert decision.actions == ()


def test_an_adopted_task_cancelled_before_it_ran_answers_whoever_asked():
    adopted = Adopted(entry="1-0", request_id="theirs")
    task = observed(adopted=adopted, spec=spec(desiredState="Cancelled"))
    (step,) = decide(task).actions
    assert (step.output.status, step.output.request_id) == ("cancelled", "theirs")


def test_an_adopted_task_whose_entry_another_worker_has_is_cancelled():
    adopted = Adopted(entry="1-0", request_id="theirs")
    decision = decide(observed(adopted=adopted, taken_by="entry 1-0 is worked on by w"))
    assert (decision.status.phase, decision.status.reason) == ("Cancelled", "TakenElsewhere")


def test_a_failed_attempt_with_retries_left_waits_for_its_backoff():
    task = running(spec=spec(retry={"limit": 1, "backoffSeconds": 10}), **record(output("failed")))
    decision = decide(task)
    assert (decision.status.phase, decision.status.reason) == ("Pending", "Retrying")
    assert decision.status.attempts == 1
    assert decision.requeue_after == 10
    assert decide(ended(task), after=4).actions == ()
    assert decide(ended(task), after=4).requeue_after == 6


def test_the_next_attempt_starts_when_the_backoff_is_over():
    task = ended(running(spec=spec(retry={"limit": 1}), **record(output("failed"))))
    over = task.model_copy(update={"jobs": (job(state="complete"),), "pods": ()})
    assert decide(over, after=11).actions == (StartAttempt(attempt=2, prompt="do it"),)


def test_the_next_attempt_waits_until_the_pod_of_the_last_is_gone():
    task = ended(running(spec=spec(retry={"limit": 1}), **record(output("failed"))))
    decision = decide(task, after=11)
    assert (decision.actions, decision.slot) == ((), "take")
    assert decide(task, after=121).actions == (DeleteJob(name="fix-1"),)


def between_attempts():
    """A task whose first attempt has failed, and whose Job has no pod any more."""
    task = ended(running(spec=spec(retry={"limit": 1}), **record(output("failed"))), pods=())
    return task.model_copy(update={"jobs": (job(state="failed"),)})


def test_a_job_whose_pod_is_not_known_yet_holds_the_next_attempt_back():
    task = between_attempts().model_copy(update={"jobs": (job(),)})
    decision = decide(task, after=11)
    assert (decision.actions, decision.slot) == ((), "take")
    assert decide(task, after=121).actions == (DeleteJob(name="fix-1"),)


def test_waiting_for_a_slot_before_a_retry_does_not_forget_that_the_last_attempt_is_over():
    task = between_attempts()
    waiting = task.model_copy(update={"slots": FULL})
    status = decide(waiting, after=11).status
    assert status.reason == "ConcurrencyLimit"
    again = waiting.model_copy(update={"status": status, "slots": Slots()})
    assert decide(again, after=12).actions == (StartAttempt(attempt=2, prompt="do it"),)


def test_redis_away_before_a_retry_neither_counts_the_last_attempt_twice():
    task = between_attempts()
    away = task.model_copy(update={"queue_error": "away"})
    status = decide(away, after=11).status
    back = away.model_copy(update={"status": status, "queue_error": None})
    assert decide(back, after=12).actions == (StartAttempt(attempt=2, prompt="do it"),)
    assert status.usage == task.status.usage


def test_an_attempt_whose_job_exists_has_begun_though_the_status_does_not_know():
    decision = decide(observed(jobs=(job(created=NOW - timedelta(seconds=3)),), pods=(pod(),)))
    assert decision.actions == ()
    assert decision.status.attempts == 1


def test_an_attempt_that_was_over_before_its_job_was_seen_is_not_run_again():
    decision = decide(observed(**record(output())))
    assert decision.actions == ()
    assert decision.status.phase == "Completed"


def test_a_task_that_is_being_deleted_is_left_alone():
    assert decide(observed(deleting=True)).actions == ()


def test_a_result_of_the_last_attempt_does_not_outlive_the_start_of_the_next():
    status = TaskStatus(phase="Pending", attempts=1, result=Result(status="failed"))
    task = observed(status=status, jobs=(job(2),), pods=(pod(2, running_since=NOW),))
    assert decide(task).status.result is None


def test_what_keeps_a_task_from_starting_is_announced_once():
    task = observed(prompt=None, prompt_error="ConfigMap p does not exist")
    assert decide(task).events[0].reason == "PromptMissing"
    assert decide(ended(task)).events == ()


def test_waiting_for_a_slot_or_for_others_needs_no_event():
    assert decide(observed(slots=FULL)).events == ()
    assert decide(observed(dependencies=Dependencies(waiting=("a",)))).events == ()
