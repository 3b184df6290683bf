"""When the cluster has taken an attempt's worker: count that, and go on in another pod. Pure.

Only what Pod, Job and Redis show is a disruption, never what the worker says or how it ended. It
is counted in the step that makes the condition Started False, so in whatever order things are
seen it counts once. A Job that is not over makes the next pod itself. One that is gone, or takes
too long over that, is followed by the Job `NAME-ATTEMPT-rN`, where N is the count. What the new pod
goes on from is the attempt's checkpoint, which its worker finds by itself. The attempt stays the
same, and so does its message.
"""

from datetime import datetime

from orbiter_operator.kube.models import NOT_SERVED
from orbiter_operator.kube.names import job_name, resume_of, worker_id
from orbiter_operator.pods.reasons import (
    NO_POD_AFTER,
    Explanation,
    node_lost,
    why_replaced,
    why_taken,
)
from orbiter_operator.pods.state import PodState
from orbiter_operator.streams.pending_outputs import AttemptRecord
from orbiter_operator.tasks.observed import (
    Observed,
    continuation,
    identity,
    name_of_job,
)
from orbiter_operator.tasks.plan.actions import (
    LIMIT_EXCEEDED,
    NEXT_POD_AFTER,
    REQUEUE_SECONDS,
    Plan,
    Publish,
    StartAttempt,
    leftovers,
)
from orbiter_operator.tasks.plan.conditions import checkpoint_words
from orbiter_operator.tasks.plan.events import disrupted_event
from orbiter_operator.tasks.plan.status import (
    goes_on,
    last_checkpoint,
    refused,
    substitute,
    wait,
    write,
)


def after_disruption(observed: Observed, now: datetime, attempt: int) -> Plan | None:
    """Count a disruption and go on behind it.

    Args:
        observed: The task, in its attempt.
        now: The time.
        attempt: Which attempt.

    Returns:
        What to do; None when there was no disruption, or its Job goes on by itself.
    """
    if observed.spec.disruption.policy == "Fail" or observed.spec_error or observed.queue_error:
        return None
    if observed.spec.desired_state == "Cancelled":
        return None
    job, pods = observed.job(attempt), observed.pods_of(attempt)
    record = observed.record_of(attempt)
    lost = next((pod for pod in reversed(pods) if pod.lost(now)), None)
    slow = _makes_no_pod(observed, now, attempt)
    over = lost is not None or job is None or job.over or slow is not None
    if lost is None and over and (record is None or any(pod.alive(now) for pod in pods)):
        return None  # not before it is certain that nobody works, and has answered
    why = slow or _why(observed, attempt, lost)
    if why is None:
        return None
    count = observed.status.disruptions
    before = resume_of(observed.name, attempt, name_of_job(observed, attempt)) or 0
    if observed.status.works(attempt) or (over and before >= count):
        return _count(observed, now, attempt, why)
    return _go_on(observed, now, attempt, why) if over else None


def _makes_no_pod(observed: Observed, now: datetime, attempt: int) -> Explanation | None:
    """Why a Job has lost its pod that takes too long over the next one; None: it does not.

    One that waits in a queue of Kueue is left alone: another would have to queue up anew.
    """
    job, counted = observed.job(attempt), observed.status.condition("Disrupted")
    if job is None or job.state != "active" or observed.queue:
        return None
    if job.resume >= observed.status.disruptions:
        return None  # it was made for this disruption, and something else keeps its pod
    if counted is None or counted.status != "True" or observed.status.attempts != attempt:
        return None
    if any(not pod.taken for pod in observed.pods_of(attempt)):
        return None
    if max(counted.last_transition_time, job.created) + NEXT_POD_AFTER > now:
        return None
    return Explanation(reason=counted.reason, message=counted.message)


def _why(observed: Observed, attempt: int, lost: PodState | None) -> Explanation | None:
    if lost is not None:
        return node_lost(lost)
    job, pods = observed.job(attempt), observed.pods_of(attempt)
    name = observed.status.pod_name
    seen = observed.status.condition("Disrupted")
    vanished = name and all(pod.name != name for pod in pods) and observed.status.works(attempt)
    if vanished and seen is not None and seen.status == "Unknown":
        return Explanation(reason=seen.reason, message=seen.message)
    if job is None or job.over:
        return why_taken(job, pods, observed.record_of(attempt) or AttemptRecord())
    if not observed.status.works(attempt) or not name:
        return None
    return why_replaced(job, next((pod for pod in pods if pod.name == name), None), name)


def _count(observed: Observed, now: datetime, attempt: int, why: Explanation) -> Plan:
    limit = observed.spec.disruption.limit
    count = observed.status.disruptions + 1
    if count > limit:
        often = "once" if limit == 1 else f"{limit} times"
        anew = "--resume " if goes_on(observed, attempt) else ""
        text = (
            f"disrupted more than {often} (spec.disruption.limit); to go on: kubectl orbiter retry "
            f"{anew}{observed.name}; last: {why.message}"
        )
        end = Explanation(reason=LIMIT_EXCEEDED, message=text, detail=why.detail)
        output = substitute(observed, now, attempt, end)
        return Plan(
            actions=(Publish(attempt=attempt, output=output), *leftovers(observed.jobs)),
            slot="take",
            reobserve=True,
        )
    kept = last_checkpoint(observed, attempt)
    next_step = checkpoint_words(kept, resumes=goes_on(observed, attempt))
    status = write(
        observed,
        now,
        "Pending",
        why.reason,
        f"{why.message}; {next_step}",
        admitted=True,
        started=False,
        disrupted=("True", why.reason, why.message),
        **identity(observed, attempt) | {"disruptions": count, "pod_name": None},
    )
    told = disrupted_event(why.reason, f"{why.message}; {next_step}", attempt, count)
    return Plan(status=status, events=(told,), slot="take", reobserve=True)


def _go_on(observed: Observed, now: datetime, attempt: int, why: Explanation) -> Plan | None:
    """The next Job of the same attempt; None when there is nothing that it could be told."""
    count = observed.status.disruptions
    if observed.not_served:
        held = wait(observed, now, NOT_SERVED, observed.not_served)
        return held.model_copy(update={"slot": "take"})
    if observed.refusal:
        held = refused(observed, now, attempt, observed.refusal, count)
        return held.model_copy(update={"slot": "take"})
    spoken = continuation(observed, attempt)
    prompt = spoken.answer if spoken else observed.prompt
    record = observed.record_of(attempt)
    if record is not None and record.entry is None:
        if observed.adopted and attempt == 1:
            return None  # somebody else's entry, which nobody here can put on the queue again
        if prompt is None and observed.data_error:
            return None  # what it was told is lost, and can be said no more
        if prompt is None:
            return Plan(slot="take", requeue_after=REQUEUE_SECONDS)
    name = job_name(observed.name, attempt, count)
    status = write(
        observed,
        now,
        "Pending",
        why.reason,
        f"job {name} is starting after {why.reason} ({count})",
        admitted=True,
        started=False,
        **identity(observed, attempt)
        | {"job_name": name, "worker_id": worker_id(observed.namespace, name), "pod_name": None},
    )
    start = StartAttempt(
        attempt=attempt, prompt=prompt or "", anew=spoken.anew if spoken else None, resume=count
    )
    return Plan(
        actions=(*leftovers(observed.jobs), start),
        status=status,
        slot="take",
        requeue_after=NO_POD_AFTER.total_seconds(),
    )


def may_be_taken(base: Observed, attempt: int, record: AttemptRecord | None) -> bool:
    """Whether the pod that worked has to leave or has left, as far as the status knows one."""
    if not base.status.works(attempt):
        disrupted = base.status.condition("Disrupted")
        return record is None and disrupted is not None and disrupted.status == "True"
    if not base.status.pod_name:
        return False
    pods = (pod for pod in base.pods_of(attempt) if pod.name == base.status.pod_name)
    return all(pod.taken or pod.deleted_at for pod in pods)
