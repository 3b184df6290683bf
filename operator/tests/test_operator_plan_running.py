"""During an attempt: what the status says, and when the operator answers in the worker's place."""

from datetime import timedelta

import pytest
from support.observed import (
    NOW,
    decide,
    ended,
    job,
    observed,
    output,
    pod,
    record,
    running,
    running_pod,
    spec,
)

from orbiter_contracts import AgentVerdict
from orbiter_contracts.exit_codes import name_in_use
from orbiter_operator.tasks.plan.actions import DeleteJob, Publish

STOP = DeleteJob(name="fix-1")
IN_USE = name_in_use("w-1", "node-1")
STARTING = ended(observed(jobs=(job(),), pods=(pod(),), **record()))


def published(decision):
    """The output the plan publishes, and the steps after it."""
    assert isinstance(decision.actions[0], Publish)
    assert decision.reobserve
    return decision.actions[0].output, decision.actions[1:]


def test_a_worker_that_runs_makes_the_task_running():
    status = running().status
    assert (status.phase, status.reason) == ("Running", "Running")
    assert status.start_time == NOW
    assert status.pod_name == "fix-1-x"
    assert status.condition("Started").status == "True"


def test_a_worker_that_says_it_is_busy_makes_the_task_running_before_its_pod_does():
    task = observed(jobs=(job(),), pods=(pod(),), busy_since=NOW, **record())
    assert decide(task).status.phase == "Running"


@pytest.mark.parametrize(
    "state",
    [
        {"waiting_reason": "ImagePullBackOff", "waiting_since": NOW},
        {"waiting_reason": "CreateContainerConfigError", "waiting_since": NOW},
        {"unschedulable": "no node has so much memory"},
    ],
)
def test_who_cannot_have_begun_is_not_busy_whatever_is_said(state):
    task = observed(jobs=(job(),), pods=(pod(**state),), busy_since=NOW, **record())
    status = decide(task, after=60).status
    assert (status.phase, status.condition("Started").status) != ("Running", "True")
    honest = observed(jobs=(job(),), pods=(pod(**state),), **record())
    assert status == decide(honest, after=60).status


def test_nothing_new_changes_nothing():
    assert decide(running()).status == running().status


def test_a_job_that_has_just_been_made_is_given_a_moment():
    waited = observed(status=STARTING.status.model_copy(update={"reason": "ConcurrencyLimit"}))
    task = waited.model_copy(update={"jobs": (job(),)})
    assert decide(task, after=1).status is None
    assert decide(task, after=1).requeue_after == 9, "then a pod should be there"
    task = task.model_copy(update={"pods": (pod(),)})
    assert decide(task, after=1).status is None
    assert decide(task, after=1).requeue_after == 14
    assert decide(task, after=16).status.reason == "Starting"


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        ("ImagePullBackOff", "ImagePullFailed"),
        ("ErrImagePull", "ImagePullFailed"),
        ("CreateContainerError", "ConfigError"),
        ("CrashLoopBackOff", "CrashLoopBackOff"),
    ],
)
def test_a_pod_that_cannot_start_is_pending_with_a_reason(waiting, reason):
    stuck = pod(waiting_reason=waiting, waiting_message="because", waiting_since=NOW)
    decision = decide(STARTING.model_copy(update={"pods": (stuck,)}), after=5)
    assert (decision.status.phase, decision.status.reason) == ("Pending", reason)
    assert "because" in decision.status.message
    assert decision.actions == ()


def test_that_a_worker_starts_is_said_once_however_long_it_takes():
    assert decide(STARTING, after=5).status is None


def test_a_missing_secret_is_said_as_such():
    stuck = pod(
        waiting_reason="CreateContainerConfigError",
        waiting_message='secret "orbiter-redis" not found',
        waiting_since=NOW,
    )
    decision = decide(STARTING.model_copy(update={"pods": (stuck,)}), after=5)
    assert decision.status.reason == "SecretMissing"
    assert 'secret "orbiter-redis" not found' in decision.status.message


def test_an_image_that_does_not_come_in_time_fails_the_attempt_and_stops_its_job():
    stuck = pod(waiting_reason="ImagePullBackOff", waiting_message="no", waiting_since=NOW)
    task = STARTING.model_copy(update={"pods": (stuck,)})
    assert decide(task, after=299).requeue_after == 1
    out, rest = published(decide(task, after=301))
    assert (out.status, out.reason) == ("failed", "ImagePullFailed")
    assert rest == (STOP,)


def test_an_image_name_that_cannot_work_fails_the_attempt_at_once():
    stuck = pod(waiting_reason="InvalidImageName", waiting_message="bad", waiting_since=NOW)
    out, rest = published(decide(STARTING.model_copy(update={"pods": (stuck,)})))
    assert out.reason == "ImagePullFailed"
    assert rest == (STOP,)


def test_a_pod_no_node_takes_is_pending_and_says_what_the_scheduler_says():
    stuck = pod(unschedulable="0/3 nodes are available: 3 Insufficient memory.")
    decision = decide(STARTING.model_copy(update={"pods": (stuck,)}), after=5)
    assert (decision.status.phase, decision.status.reason) == ("Pending", "Unschedulable")
    assert "Insufficient memory" in decision.status.message


def test_a_pod_whose_containers_are_not_made_says_where_to_look():
    """Of a volume that is not there the kubelet tells in Events alone."""
    stuck = pod(scheduled_at=NOW)
    task = STARTING.model_copy(update={"pods": (stuck,)})
    early = decide(task, after=20)
    assert (early.status, early.requeue_after) == (None, 40)
    status = decide(task, after=60).status
    assert (status.phase, status.reason) == ("Pending", "ContainerCreating")
    assert "kubectl describe pod fix-1-x" in status.message
    told = decide(task.model_copy(update={"status": status}), after=90)
    assert (told.status, told.events) == (status, ())


def test_a_job_without_a_pod_says_where_to_look():
    task = STARTING.model_copy(update={"pods": ()})
    assert decide(task, after=5).status is None
    status = decide(task, after=15).status
    assert status.reason == "PodNotCreated"
    assert "kubectl describe job fix-1" in status.message


@pytest.mark.parametrize(
    ("queue", "said", "message"),
    [
        ("team", "", "waits for Kueue, LocalQueue team: it has not let Job fix-1 in yet"),
        ("team", "no quota", "waits for Kueue, LocalQueue team: no quota"),
        ("", "", "Job fix-1 is suspended and in no queue of Kueue: who suspended it resumes it"),
    ],
)
def test_a_suspended_job_waits_for_its_queue(queue, said, message):
    waits = {"jobs": (job(state="suspended", queue=queue),), "pods": (), "kueue": said}
    decision = decide(STARTING.model_copy(update=waits), after=5)
    assert (decision.status.phase, decision.status.reason) == ("Pending", "Suspended")
    assert decision.status.message == message
    assert decision.requeue_after == (2 if queue and not said else 10)


def test_a_success_completes_the_task_with_everything_it_reported():
    out = output(commit_sha="c0ffee", pr_url="https://example.com/1")
    decision = decide(running(**record(out)))
    status = decision.status
    assert (status.phase, status.reason, status.message) == (
        "Completed",
        "Succeeded",
        "it works now",
    )
    assert status.result.commit_sha == "c0ffee"
    assert status.result.data == {"files": 3}
    assert status.usage.cost_usd == 0.25
    assert (status.duration_ms, status.duration) == (72_000, "1m12s")
    assert status.condition("Succeeded").status == "True"
    assert decision.events[0].reason == "Completed"


def test_a_slot_is_free_when_the_container_has_ended_not_when_the_answer_is_there():
    task = running(**record(output("success")))
    gone = task.model_copy(update={"pods": (pod(phase="Succeeded"),)})
    assert decide(task).slot == "take"
    assert decide(ended(task)).slot == "take"
    assert decide(gone).slot == "leave"
    assert decide(ended(gone)).slot == "leave"


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("failed", None, "AgentError"),
        ("error", None, "AgentError"),
        ("failed", "OOMKilled", "OOMKilled"),
        ("error", "WorkspaceError", "WorkspaceError"),
        ("error", "InvalidMessage", "InvalidMessage"),
    ],
)
def test_an_output_that_is_no_success_fails_the_task_with_its_reason(status, reason, expected):
    out = output(status, reason=reason, error="first line\nmore\nlast line")
    final = decide(running(**record(out))).status
    assert (final.phase, final.reason) == ("Failed", expected)
    assert final.message == "first line … last line"
    assert final.condition("Succeeded").message == "first line\nmore\nlast line"


def test_stderr_says_nothing_about_an_agent_that_was_stopped():
    out = output("timeout", reason="AgentTimeout", error="stopped after 4 s\nnoise of the agent")
    assert decide(running(**record(out))).status.message == "stopped after 4 s"


def test_the_line_for_people_is_short_and_the_end_of_the_text_is_kept():
    out = output("error", error="x" * 500 + "\n" + "y" * 3000)
    status = decide(running(**record(out))).status
    assert len(status.message) <= 140
    assert "\n" not in status.message
    assert len(status.condition("Succeeded").message) == 1024


def test_an_agent_that_asks_makes_the_task_wait_for_input():
    verdict = AgentVerdict(status="input_required", question="which branch?")
    out = output("input_required", verdict=verdict)
    decision = decide(running(**record(out)))
    assert decision.status.phase == "InputRequired"
    assert decision.status.input_request.question == "which branch?"


def test_cancelling_a_running_task_answers_for_the_worker_first_and_stops_it_then():
    out, rest = published(decide(running(spec=spec(desiredState="Cancelled"))))
    assert (out.status, out.reason) == ("cancelled", "Cancelled")
    assert rest == (STOP,)


def test_a_cancelled_output_makes_the_task_cancelled():
    out = output("cancelled", reason="Cancelled", error="cancelled by spec.desiredState")
    decision = decide(running(spec=spec(desiredState="Cancelled"), **record(out)))
    assert decision.status.phase == "Cancelled"
    assert decision.actions == (STOP,)
    assert decision.events[0].kind == "Normal"


def test_a_success_that_came_before_the_wish_to_cancel_stays_a_success():
    decision = decide(running(spec=spec(desiredState="Cancelled"), **record(output())))
    assert decision.status.phase == "Completed"


def test_a_failure_after_the_wish_to_cancel_is_no_reason_to_try_again():
    wish = spec(desiredState="Cancelled", retry={"limit": 3})
    decision = decide(running(spec=wish, **record(output("error"))))
    assert decision.status.phase == "Cancelled"


def test_cancelling_stops_the_worker_even_while_redis_is_away():
    decision = decide(running(spec=spec(desiredState="Cancelled"), queue_error="away"))
    assert decision.actions == (STOP,)
    assert (decision.status.phase, decision.status.reason) == ("Running", "QueueUnavailable")


def test_redis_being_away_does_not_change_the_phase_of_a_running_task():
    status = decide(running(queue_error="away")).status
    assert (status.phase, status.reason) == ("Running", "QueueUnavailable")


def test_a_worker_that_may_not_publish_runs_on_and_the_status_says_why():
    observed = running(over_quota="too many bytes", busy_since=NOW)
    decision = decide(observed)
    assert (decision.status.phase, decision.status.reason) == ("Running", "RedisQuotaExceeded")
    assert (decision.status.message, decision.actions) == ("too many bytes", ())
    published = decide(running(over_quota="too many bytes", **record(output())))
    assert published.status.phase == "Completed"


FAILED = job(state="failed", reason="BackoffLimitExceeded", message="backoff limit")
CRASHES = [
    (FAILED, pod(phase="Failed", exit_reason="OOMKilled", exit_code=137), "OOMKilled"),
    (FAILED, pod(phase="Failed", exit_reason="Error", exit_code=1), "WorkerCrashed"),
    (FAILED, pod(phase="Failed", exit_reason="Error", exit_code=137), "WorkerCrashed"),
    (FAILED, pod(phase="Failed", reason="Evicted", message="low on disk"), "Evicted"),
    (FAILED, pod(phase="Failed", disruption="PreemptionByScheduler"), "Evicted"),
    (FAILED, pod(phase="Failed", reason="NodeLost", node="n1"), "NodeLost"),
    (FAILED, pod(phase="Failed", reason="DeadlineExceeded"), "DeadlineExceeded"),
    (FAILED, None, "WorkerCrashed"),
    (None, None, "WorkerCrashed"),
    (job(state="complete"), pod(phase="Succeeded", exit_code=0), "WorkerCrashed"),
    (job(state="failed", reason="DeadlineExceeded"), None, "DeadlineExceeded"),
]


@pytest.mark.parametrize(("its_job", "its_pod", "reason"), CRASHES)
def test_an_attempt_that_ended_without_a_word_is_answered_with_what_killed_it(
    its_job, its_pod, reason
):
    jobs = (its_job,) if its_job else ()
    pods = (its_pod,) if its_pod else ()
    wish = spec(disruption={"policy": "Fail"})
    out, rest = published(decide(running(spec=wish, jobs=jobs, pods=pods)))
    assert (out.status, out.reason) == ("failed", reason)
    assert out.error.startswith("Worker crashed: ")
    assert reason == "WorkerCrashed" or reason in out.error
    assert rest == ()


def test_the_output_for_a_worker_that_died_names_task_and_project():
    wish = spec(taskId="ticket-42", projectId="shop", disruption={"policy": "Fail"})
    out, _ = published(decide(running(spec=wish, jobs=(FAILED,), pods=())))
    assert (out.task_id, out.project_id) == ("ticket-42", "shop")


@pytest.mark.parametrize(
    ("code", "said", "reason", "begins"),
    [
        (2, "worker-wrapper: KEY is missing", "WorkerMisconfigured", "worker-wrapper: KEY"),
        (
            2,
            f"{{}}\nworker-wrapper: {IN_USE}",
            "WorkerNameInUse",
            f"worker-wrapper: {IN_USE}"[:100],
        ),
        (4, "worker-wrapper: WORKER_ID w-1 was lost", "WorkerCrashed", "Worker crashed: "),
    ],
)
def test_a_name_in_use_is_no_missing_variable_and_a_lost_one_a_crash(code, said, reason, begins):
    last = pod(phase="Failed", exit_code=code, exit_reason="Error", exit_message=said)
    out, _ = published(decide(running(jobs=(FAILED,), pods=(last,))))
    assert out.reason == reason
    assert out.error.startswith(begins)


def test_an_attempt_whose_name_was_in_use_is_tried_again():
    last = pod(phase="Failed", exit_code=2, exit_reason="Error", exit_message=IN_USE)
    wish = spec(retry={"limit": 1})
    out, _ = published(decide(running(spec=wish, jobs=(FAILED,), pods=(last,))))
    status = decide(running(spec=wish, **record(out))).status
    assert (status.phase, status.reason) == ("Pending", "Retrying")


def test_the_last_words_of_a_crashed_worker_are_kept():
    last = pod(phase="Failed", exit_code=1, exit_reason="Error", exit_message="trace\nboom")
    out, _ = published(decide(running(jobs=(FAILED,), pods=(last,))))
    assert "exit code 1" in out.error
    assert out.error.endswith("trace\nboom")


def test_a_worker_that_ended_after_redis_lost_its_entry_failed_for_that():
    wish = spec(disruption={"policy": "Fail"})
    task = running(spec=wish, jobs=(job(state="complete"),), pods=(), **record(entry=None))
    out, _ = published(decide(task))
    assert out.reason == "QueueUnavailable"


def test_nobody_is_declared_dead_before_redis_was_asked():
    task = running(jobs=(FAILED,), pods=(), record=None)
    decision = decide(task)
    assert decision.actions == ()
    assert decision.reobserve


def test_nobody_is_declared_dead_while_a_pod_may_still_work():
    decision = decide(running(jobs=(), pods=(running_pod(),)))
    assert decision.actions == ()
    assert decision.slot == "take"


def test_a_pod_whose_node_does_not_answer_is_given_up_after_its_grace_period():
    gone = running_pod(deleted_at=NOW, node="n1")
    wish = spec(disruption={"policy": "Fail"})
    assert decide(running(spec=wish, pods=(gone,)), after=20).actions == ()
    out, rest = published(decide(running(spec=wish, pods=(gone,)), after=31))
    assert out.reason == "NodeLost"
    assert "n1" in out.error
    assert rest == (STOP,)


def test_the_next_attempt_does_not_wait_for_a_lost_node():
    substitute = output("failed", reason="NodeLost", error="lost")
    gone = running_pod(deleted_at=NOW - timedelta(seconds=60))
    task = ended(
        running(spec=spec(retry={"limit": 1}), pods=(gone,), **record(substitute)), jobs=()
    )
    assert decide(task, after=11).actions[0].attempt == 2


def test_the_last_attempt_is_not_followed_by_another():
    wish = spec(retry={"limit": 1})
    first = ended(running(spec=wish, **record(output("failed"))))
    second = first.model_copy(
        update={"jobs": (job(2),), "pods": (), **record(output("failed"), attempt=2)}
    )
    status = decide(second).status
    assert (status.phase, status.attempts) == ("Failed", 2)


def test_what_all_attempts_cost_is_added_up():
    wish = spec(retry={"limit": 1})
    first = ended(running(spec=wish, **record(output("failed"))))
    second = first.model_copy(update={"jobs": (job(2),), "pods": (), **record(output(), attempt=2)})
    status = decide(second).status
    assert status.usage.cost_usd == 0.5
    assert status.usage.turns == 4
    assert status.result.status == "success"


def test_the_start_of_the_first_attempt_is_the_start_of_the_task():
    wish = spec(retry={"limit": 1})
    first = ended(running(spec=wish, **record(output("failed"))))
    late = running_pod(2, running_since=NOW + timedelta(hours=1))
    second = first.model_copy(update={"jobs": (job(2),), "pods": (late,), "record": None})
    assert decide(second).status.start_time == NOW


def test_a_pod_that_cannot_start_is_announced_once():
    stuck = pod(waiting_reason="ImagePullBackOff", waiting_message="no", waiting_since=NOW)
    task = STARTING.model_copy(update={"pods": (stuck,)})
    assert decide(task).events[0].reason == "ImagePullFailed"
    assert decide(ended(task)).events == ()


def test_the_pod_of_an_attempt_is_remembered_when_it_is_gone():
    out = output("cancelled", reason="Cancelled", error="cancelled")
    assert decide(running(pods=(), **record(out))).status.pod_name == "fix-1-x"
