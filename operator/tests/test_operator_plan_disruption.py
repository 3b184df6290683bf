"""The cluster takes a worker away: what counts as that, and how its attempt goes on."""

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

from orbiter_contracts import Checkpoint, Usage
from orbiter_operator.kube.models import Refusal
from orbiter_operator.tasks.models import Source
from orbiter_operator.tasks.observed import Adopted
from orbiter_operator.tasks.plan.actions import DeleteJob, Publish, StartAttempt

FAILED = job(state="failed", reason="BackoffLimitExceeded", message="backoff limit")
COMPLETE = job(state="complete")
KEPT = Checkpoint(
    time=NOW + timedelta(seconds=40),
    generation=3,
    turns=14,
    cost_usd=0.31,
    workspace="Stored",
    session=True,
)
EVICTED = running_pod(
    phase="Failed", disruption="EvictionByEvictionAPI", deleted_at=NOW, exit_code=143
)
DELETED = running_pod(phase="Failed", deleted_at=NOW, exit_code=137)


def gone(**changes):
    """The task after its pod was evicted: its Job still is, and makes another."""
    return running(**{"pods": (EVICTED,), **record(checkpoint=KEPT)} | changes)


def settled(fields, *, after=0.0, **changes):
    """The task after each plan was carried out until nothing more is done at once."""
    while True:
        decision = decide(fields, after=after)
        if decision.status is not None:
            fields = fields.model_copy(update={"status": decision.status})
        if not decision.reobserve:
            return fields.model_copy(update=changes)
        assert not decision.actions


TAKEN = [
    (job(), EVICTED, "Evicted"),
    (job(), running_pod(phase="Failed", disruption="DeletionByTaintManager"), "NodeLost"),
    (job(), running_pod(phase="Failed", disruption="DeletionByPodGC"), "NodeLost"),
    (job(), None, "Evicted"),
    (job(state="suspended"), DELETED, "Suspended"),
    (job(state="suspended"), None, "Suspended"),
    (job(deleting=True), None, "JobDeleted"),
    (FAILED, EVICTED, "Evicted"),
    (FAILED, DELETED, "PodDeleted"),
    (FAILED, None, "PodDeleted"),
    (FAILED, running_pod(phase="Failed", reason="NodeLost"), "NodeLost"),
    (COMPLETE, running_pod(phase="Succeeded", deleted_at=NOW, exit_code=0), "PodDeleted"),
    (COMPLETE, None, "PodDeleted"),
    (None, None, "JobDeleted"),
]


@pytest.mark.parametrize(("its_job", "its_pod", "reason"), TAKEN)
def test_a_worker_that_the_cluster_took_is_counted_and_not_answered(its_job, its_pod, reason):
    jobs, pods = (its_job,) if its_job else (), (its_pod,) if its_pod else ()
    decision = decide(gone(jobs=jobs, pods=pods))
    assert (decision.actions, decision.reobserve, decision.slot) == ((), True, "take")
    status = decision.status
    assert (status.phase, status.reason, status.disruptions) == ("Pending", reason, 1)
    assert (status.attempts, status.result) == (1, None)
    assert status.condition("Started").status == "False"
    assert status.condition("Disrupted").reason == reason
    assert status.message.endswith("it goes on from the checkpoint of 03:04:45 (14 turns)")
    assert [event.reason for event in decision.events] == [reason]


OWN_FAULT = [
    (FAILED, pod(phase="Failed", exit_reason="OOMKilled", exit_code=137), "OOMKilled"),
    (
        FAILED,
        pod(phase="Failed", exit_reason="OOMKilled", exit_code=137, deleted_at=NOW),
        "OOMKilled",
    ),
    (FAILED, pod(phase="Failed", exit_reason="Error", exit_code=143), "WorkerCrashed"),
    (FAILED, pod(phase="Failed", exit_reason="Error", exit_code=137), "WorkerCrashed"),
    (FAILED, pod(phase="Failed", reason="Evicted", message="its emptyDir is full"), "Evicted"),
    (FAILED, pod(phase="Failed", reason="DeadlineExceeded"), "DeadlineExceeded"),
    (job(state="failed", reason="DeadlineExceeded"), None, "DeadlineExceeded"),
    (COMPLETE, pod(phase="Succeeded", exit_code=0), "WorkerCrashed"),
]


@pytest.mark.parametrize(("its_job", "its_pod", "reason"), OWN_FAULT)
def test_what_the_agent_can_bring_about_is_no_disruption(its_job, its_pod, reason):
    """An agent may signal PID 1, fill its disk or its memory: that buys no free run."""
    pods = (its_pod,) if its_pod else ()
    decision = decide(running(jobs=(its_job,), pods=pods, **record(checkpoint=KEPT)))
    assert isinstance(decision.actions[0], Publish)
    assert decision.actions[0].output.reason == reason


@pytest.mark.parametrize(
    "output_",
    [
        output("timeout", reason="AgentTimeout", error="slow"),
        output("error", reason="AgentError", error="no"),
        output("error", reason="NoVerdict", error="no"),
    ],
)
def test_what_the_worker_publishes_stays_what_it_is(output_):
    status = decide(gone(jobs=(FAILED,), **record(output_))).status
    assert (status.phase, status.reason) == ("Failed", output_.reason)
    assert status.disruptions == 0


def test_an_answer_in_the_grace_period_is_an_answer():
    assert decide(gone(**record(output()))).status.phase == "Completed"


def test_a_pod_that_has_to_leave_works_until_it_has():
    leaving = running_pod(disruption="EvictionByEvictionAPI", deleted_at=NOW + timedelta(60))
    task = running(pods=(leaving,))
    status = decide(task).status
    assert (status.phase, status.reason, status.disruptions) == ("Running", "Running", 0)
    assert status.message == "pod fix-1-x was evicted: EvictionByEvictionAPI"
    assert status.condition("Disrupted").status == "Unknown"


def test_why_a_pod_had_to_leave_is_known_when_it_is_gone():
    leaving = running_pod(deleted_at=NOW + timedelta(seconds=60))
    task = ended(running(pods=(leaving,), **record()), pods=())
    assert decide(task).status.reason == "PodDeleted"
    assert decide(task.model_copy(update={"jobs": (COMPLETE,)})).status.reason == "PodDeleted"


def test_a_worker_that_left_in_time_goes_on_elsewhere_when_its_pod_is_gone_too():
    """Asked to leave before it had begun it may end well, and its Job with it."""
    left = running_pod(phase="Succeeded", deleted_at=NOW, exit_code=0)
    counted = settled(gone(jobs=(COMPLETE,), pods=(left,)), pods=())
    (start,) = (it for it in decide(counted).actions if isinstance(it, StartAttempt))
    assert (start.attempt, start.resume) == (1, 1)


def test_a_disruption_is_counted_once_however_often_it_is_seen():
    counted = settled(gone())
    assert counted.status.disruptions == 1
    assert settled(counted).status == counted.status
    assert settled(counted.model_copy(update={"pods": ()})).status.disruptions == 1


def test_a_worker_that_is_heard_before_its_pod_is_known_was_not_taken():
    counted = settled(gone(), after=1)
    heard = counted.model_copy(update={"busy_since": NOW + timedelta(seconds=5)})
    works = ended(heard.model_copy(update={"pods": (EVICTED,)}))
    assert (works.status.phase, works.status.pod_name) == ("Running", None)
    assert decide(works.model_copy(update={"pods": ()}), after=9).status.disruptions == 1


def test_the_jobs_next_pod_goes_on_and_the_status_says_behind_what():
    counted = settled(gone())
    again = running_pod(name="fix-1-y", created=NOW + timedelta(seconds=5))
    decision = decide(counted.model_copy(update={"pods": (EVICTED, again)}), after=9)
    status = decision.status
    assert (status.phase, status.reason) == ("Running", "Running")
    assert status.message == "resumed after Evicted (1)"
    assert (status.pod_name, status.start_time) == ("fix-1-y", NOW)
    assert status.condition("Disrupted").status == "False"
    assert [event.reason for event in decision.events] == ["Resumed"]
    back = counted.model_copy(update={"pods": (again,), "status": status})
    assert decide(back, after=20).status == status
    assert decide(back, after=20).events == ()


def test_the_second_disruption_says_two():
    counted = settled(gone())
    again = running_pod(name="fix-1-y")
    back = ended(counted.model_copy(update={"pods": (again,)}))
    twice = settled(
        back.model_copy(
            update={"pods": (again.model_copy(update={"phase": "Failed", "deleted_at": NOW}),)}
        )
    )
    third = running_pod(name="fix-1-z")
    status = decide(twice.model_copy(update={"pods": (third,)})).status
    assert status.message == "resumed after PodDeleted (2)"


def test_a_pod_that_was_replaced_unseen_is_counted_too():
    again = running_pod(name="fix-1-y")
    task = settled(gone(pods=(again,)))
    assert (task.status.phase, task.status.message) == ("Running", "resumed after Evicted (1)")


@pytest.mark.parametrize("first", [(EVICTED,), (DELETED,), ()], ids=["evicted", "deleted", "gone"])
def test_one_that_was_replaced_by_a_pod_that_has_answered_is_counted_with_the_answer(first):
    """Nobody of ours looked meanwhile: the operator was away for as long as the next pod took."""
    done = running_pod(name="fix-1-y", phase="Succeeded", exit_code=0)
    task = running(pods=(*first, done), jobs=(COMPLETE,), **record(output()))
    status = decide(task).status
    assert (status.phase, status.disruptions, status.attempts) == ("Completed", 1, 1)


@pytest.mark.parametrize("leaves", [EVICTED, DELETED], ids=["evicted", "deleted"])
def test_a_pod_that_has_answered_before_it_was_taken_was_not_disrupted(leaves):
    task = running(pods=(leaves,), jobs=(COMPLETE,), **record(output()))
    assert (decide(task).status.phase, decide(task).status.disruptions) == ("Completed", 0)


def test_a_word_of_the_worker_before_it_was_taken_says_nothing_of_the_next():
    counted = settled(gone(busy_since=NOW), after=9)
    starting = pod(name="fix-1-y")
    task = counted.model_copy(update={"pods": (starting,)})
    assert decide(task, after=20).status.phase == "Pending"
    busy = task.model_copy(update={"busy_since": NOW + timedelta(seconds=20)})
    assert decide(busy, after=21).status.phase == "Running"


def test_a_job_that_takes_too_long_over_its_next_pod_is_followed_by_another():
    """The Job controller waits 10 s before the next pod, then 20, 40 … up to ten minutes."""
    counted = settled(gone(), pods=())
    assert decide(counted, after=14).actions == ()
    assert (decide(counted, after=14).status, decide(counted, after=14).requeue_after) == (None, 1)
    assert decide(counted, after=15).actions == (
        DeleteJob(name="fix-1"),
        StartAttempt(attempt=1, prompt="do it", resume=1),
    )
    made = counted.model_copy(update={"pods": (pod(name="fix-1-y"),)})
    assert decide(made, after=60).actions == ()
    queued = counted.model_copy(update={"spec": spec(queueName="q")})
    assert decide(queued, after=60).actions == ()
    given = counted.model_copy(update={"jobs": (job(queue="default"),)})
    assert decide(given, after=60).actions == ()
    second = counted.model_copy(update={"jobs": (job(name="fix-1-r1", resume=1),)})
    assert decide(second, after=60).actions == ()
    assert decide(second, after=60).status.reason == "PodNotCreated"
    waits = counted.model_copy(update={"jobs": (job(state="suspended"),)})
    assert decide(waits, after=60).actions == ()


@pytest.mark.parametrize("jobs", [(FAILED,), ()])
def test_a_job_that_is_gone_is_followed_by_one_of_the_same_attempt(jobs):
    decision = decide(settled_once(jobs))
    (start,) = decision.actions
    assert start == StartAttempt(attempt=1, prompt="do it", resume=1)
    assert decision.slot == "take"
    status = decision.status
    assert (status.phase, status.attempts) == ("Pending", 1)
    assert (status.job_name, status.worker_id) == ("fix-1-r1", "team.fix-1-r1")


def settled_once(jobs, **changes):
    """The task after the disruption was counted, before the next Job is made."""
    task = gone(jobs=jobs, pods=(), **changes)
    return task.model_copy(update={"status": decide(task).status})


def test_the_job_that_goes_on_is_not_made_twice():
    task = settled_once((FAILED,))
    made = task.model_copy(
        update={
            "status": decide(task).status,
            "jobs": (FAILED, job(name="fix-1-r1", resume=1)),
            "pods": (),
        }
    )
    decision = decide(made, after=1)
    assert decision.actions == ()
    works = made.model_copy(update={"pods": (running_pod(name="fix-1-r1-x"),)})
    status = decide(works, after=2).status
    assert (status.job_name, status.message) == ("fix-1-r1", "resumed after PodDeleted (1)")


def test_a_job_that_was_taken_before_its_worker_began_is_counted_all_the_same():
    begun = observed(jobs=(FAILED,), pods=(), **record())
    assert decide(begun).status.disruptions == 1


def test_nobody_goes_on_before_the_one_before_has_left():
    leaving = running_pod(deleted_at=NOW + timedelta(seconds=60))
    decision = decide(gone(jobs=(), pods=(leaving,)))
    assert (decision.actions, decision.status, decision.slot) == ((), None, "take")


def test_a_node_that_does_not_answer_is_left_to_itself():
    lost = running_pod(deleted_at=NOW, node="n1")
    task = gone(pods=(lost,))
    assert decide(task, after=20).status.phase == "Running"
    counted = task.model_copy(update={"status": decide(task, after=31).status})
    assert (counted.status.reason, counted.status.disruptions) == ("NodeLost", 1)
    actions = decide(counted, after=32).actions
    assert actions == (
        DeleteJob(name="fix-1"),
        StartAttempt(attempt=1, prompt="do it", resume=1),
    )


def test_an_entry_that_redis_has_lost_is_put_on_the_queue_again():
    task = running(jobs=(COMPLETE,), pods=(), **record(entry=None))
    status = decide(task).status
    assert (status.reason, status.disruptions) == ("QueueLost", 1)
    counted = task.model_copy(update={"status": status})
    assert decide(counted).actions == (StartAttempt(attempt=1, prompt="do it", resume=1),)
    unknown = counted.model_copy(update={"prompt": None})
    assert decide(unknown).actions == ()


def test_an_entry_of_somebody_else_that_redis_has_lost_cannot_be_made_again():
    adopted = Adopted(entry="1-0", request_id="r-1")
    task = running(jobs=(COMPLETE,), pods=(), adopted=adopted, **record(entry=None))
    counted = task.model_copy(update={"status": decide(task).status})
    assert decide(counted).actions[0].output.reason == "QueueUnavailable"


def test_too_many_disruptions_end_the_task_with_a_reason_of_their_own():
    wish = spec(disruption={"limit": 0}, retry={"limit": 3})
    decision = decide(gone(spec=wish))
    assert decision.actions[0].output.reason == "DisruptionLimitExceeded"
    assert decision.actions[1:] == (DeleteJob(name="fix-1"),)
    end = decide(gone(spec=wish, **record(decision.actions[0].output))).status
    assert (end.phase, end.reason) == ("Failed", "DisruptionLimitExceeded")
    assert "more than 0 times" in end.message


@pytest.mark.parametrize("leaving", [True, False])
def test_a_task_that_was_disrupted_too_often_says_so_for_good_and_what_to_do(leaving: bool):
    """Whether its pod was seen to leave, which makes Disrupted Unknown, or is just gone."""
    task = gone(spec=spec(disruption={"limit": 1}))
    counted = task.status.model_copy(update={"disruptions": 1, "pod_name": "fix-1-x"})
    task = task.model_copy(update={"status": counted})
    if leaving:
        seen = running_pod(disruption="EvictionByEvictionAPI", deleted_at=NOW)
        status = decide(task.model_copy(update={"pods": (seen,)})).status
        assert status.condition("Disrupted").status == "Unknown"
        task = task.model_copy(update={"status": status})
    out = decide(task).actions[0].output
    end = decide(task.model_copy(update=record(out, checkpoint=KEPT))).status
    assert (end.phase, end.reason) == ("Failed", "DisruptionLimitExceeded")
    assert "disrupted more than once (spec.disruption.limit)" in end.message
    assert "kubectl orbiter retry --resume fix; last: " in end.message
    told = end.condition("Disrupted")
    assert (told.status, told.reason) == ("True", "DisruptionLimitExceeded")
    assert told.message == end.message


def test_without_a_checkpoint_it_is_named_how_to_begin_anew():
    out = decide(gone(spec=spec(disruption={"limit": 0}), **record())).actions[0].output
    assert "kubectl orbiter retry fix; last: " in out.error


def test_policy_fail_is_an_attempt_that_failed():
    wish = spec(disruption={"policy": "Fail"}, retry={"limit": 1})
    task = gone(spec=wish, jobs=(FAILED,))
    out = decide(task).actions[0].output
    assert out.reason == "Evicted"
    status = decide(task.model_copy(update=record(out))).status
    assert (status.reason, status.disruptions) == ("Retrying", 0)


def test_policy_restart_begins_again():
    wish = spec(disruption={"policy": "Restart"})
    task = settled(gone(spec=wish))
    assert task.status.message.endswith("it begins again")
    again = task.model_copy(update={"pods": (running_pod(name="fix-1-y"),)})
    assert decide(again).status.message == "began again after Evicted (1)"


def test_without_a_checkpoint_it_begins_again():
    assert settled(gone(**record())).status.message.endswith("it begins again")


def test_the_status_shows_the_last_checkpoint():
    shown = decide(running(**record(checkpoint=KEPT))).status
    assert (shown.checkpoint.turns, shown.checkpoint.cost_usd) == (14, 0.31)
    assert shown.checkpoint.workspace == "Stored"
    assert shown.condition("Checkpointed").status == "True"
    forgotten = running(status=shown)
    assert decide(forgotten).status == shown


def test_a_workspace_that_is_too_large_is_said():
    large = KEPT.model_copy(update={"workspace": "TooLarge"})
    status = decide(running(**record(checkpoint=large))).status
    condition = status.condition("Checkpointed")
    assert (condition.status, condition.reason) == ("False", "TooLarge")
    assert settled(gone(**record(checkpoint=large))).status.message.endswith("it begins again")


def test_the_next_attempt_has_neither_the_disruption_nor_the_checkpoint_of_the_last():
    wish = spec(retry={"limit": 1})
    task = settled(gone(spec=wish), pods=(running_pod(name="fix-1-y"),))
    failed = ended(task.model_copy(update=record(output("failed"))))
    assert failed.status.disruptions == 1
    second = failed.model_copy(
        update={"jobs": (job(2),), "pods": (running_pod(2),), **record(attempt=2)}
    )
    status = decide(second).status
    assert (status.message, status.checkpoint, status.disruptions) == ("attempt 2 works", None, 1)
    assert status.condition("Disrupted") is None


def test_a_refused_job_keeps_its_slot_and_waits():
    refusal = Refusal(status=403, reason="Forbidden", message="exceeded quota: jobs")
    decision = decide(settled_once((FAILED,), refusal=refusal))
    assert (decision.status.reason, decision.slot) == ("QuotaExceeded", "take")
    assert decision.actions == ()


def test_a_cancelled_task_is_not_gone_on_with():
    decision = decide(gone(spec=spec(desiredState="Cancelled")))
    assert decision.actions[0].output.status == "cancelled"


def test_a_task_that_goes_on_with_another_ones_work_has_an_event_that_names_it():
    source = Source(checkpoint=KEPT)
    begins = decide(observed(spec=spec(resumeFrom="old"), source=source))
    told = [(each.kind, each.reason) for each in begins.events]
    assert told == [("Normal", "Resumed")]
    when = f"{KEPT.time:%H:%M:%S}"
    assert begins.events[0].message == f"goes on from task old: its checkpoint of {when} (14 turns)"
    assert decide(observed(spec=spec())).events == ()


def test_the_cost_of_a_checkpoint_is_shown_without_digits_that_nobody_told():
    kept = KEPT.model_copy(update={"cost_usd": 0.13208399999999998})
    status = decide(gone(**record(checkpoint=kept))).status
    assert repr(status.checkpoint.cost_usd) == "0.132084"


def test_the_tokens_of_a_checkpoint_are_shown_while_the_agent_works():
    usage = Usage(input_tokens=1000, output_tokens=7, turns=14)
    kept = KEPT.model_copy(update={"usage": usage})
    status = decide(running(**record(checkpoint=kept))).status
    assert (status.checkpoint.input_tokens, status.checkpoint.output_tokens) == (1000, 7)
