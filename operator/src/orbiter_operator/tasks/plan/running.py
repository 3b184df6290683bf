"""After an attempt began: whether its worker starts, runs, has died, or has asked.

The order of the questions is the order of authority: an output decides, whoever published it (see
`result`); then the user's wish; then what Kubernetes says of the Job and its Pod.

While a task waits for the answer to its agent's question no pod runs. The answer begins the next
attempt, which continues the agent's session; if none comes in time the task has failed, and a
cancelled task waits no longer. Pure; part of `plan`.
"""

from datetime import datetime, timedelta

from orbiter_operator.kube.models import NOT_SERVED, Event
from orbiter_operator.pods.reasons import (
    NO_POD_AFTER,
    STARTS_WITHIN,
    Explanation,
    image_is_hopeless,
    node_lost,
    why_ended_silently,
    why_leaving,
    why_not_running,
)
from orbiter_operator.pods.state import JobState, PodState
from orbiter_operator.tasks.observed import Observed, identity, slot_after
from orbiter_operator.tasks.plan.actions import (
    LINGERING,
    NEXT_POD_AFTER,
    REQUEUE_SECONDS,
    DeleteJob,
    Plan,
    Publish,
    left,
    leftovers,
)
from orbiter_operator.tasks.plan.conditions import resumed_words
from orbiter_operator.tasks.plan.events import (
    cancelled_words,
    end_event,
    headline,
    resumed_event,
    waiting_events,
)
from orbiter_operator.tasks.plan.status import (
    give_up,
    goes_on,
    pending_status,
    readable,
    substitute,
    write,
)

SETTLING = timedelta(seconds=15)
"""How long a new Job may be silent before the status of a task that waited says that it starts."""
_KUEUE_ANSWERS_SECONDS = 2.0


def during_attempt(
    observed: Observed, now: datetime, attempt: int, image_patience: timedelta
) -> Plan:
    """Follow the attempt to its output, or to one published in its worker's place."""
    job, pods, record = (
        observed.job(attempt),
        observed.pods_of(attempt),
        observed.record_of(attempt),
    )
    if observed.spec.disruption.policy != "Fail":
        # The Job makes another: `disruption` has counted those that were taken away.
        present = tuple(pod for pod in pods if not pod.taken or job is None or job.over)
    else:
        present = pods
    stop = leftovers(observed.jobs)
    if observed.queue_error:
        return _queue_away(observed, now, stop)
    if observed.spec.desired_state == "Cancelled":
        why = Explanation(reason="Cancelled", message=_cancelled(observed))
        return _end(observed, now, attempt, why, stop, "cancelled")
    if gone := [pod for pod in pods if pod.lost(now)]:
        return _end(observed, now, attempt, node_lost(gone[-1]), stop)
    if job is None or job.over:
        if any(pod.alive(now) for pod in pods):
            return Plan(slot="take", requeue_after=REQUEUE_SECONDS)
        if record is None:
            return Plan(slot="take", reobserve=True)
        return _end(observed, now, attempt, why_ended_silently(job, pods, record), ())
    if image_is_hopeless(present, now, image_patience):
        why = why_not_running(job, present, now) or Explanation(
            reason="ImagePullFailed", message=""
        )
        return _end(observed, now, attempt, why, stop)
    return _on_its_way(observed, now, attempt, job, present, image_patience)


def _end(
    observed: Observed,
    now: datetime,
    attempt: int,
    why: Explanation,
    stop: tuple[DeleteJob, ...],
    status: str = "failed",
) -> Plan:
    """Publish what the worker cannot; the next pass finds that output, or the worker's own."""
    output = substitute(observed, now, attempt, why, status)
    return Plan(
        actions=(Publish(attempt=attempt, output=output), *stop), slot="take", reobserve=True
    )


def _cancelled(observed: Observed) -> str:
    return cancelled_words(observed.spec.cancelled_by, "cancelled by spec.desiredState")


def _queue_away(observed: Observed, now: datetime, stop: tuple[DeleteJob, ...]) -> Plan:
    """Say so and wait. A cancelled worker is stopped all the same; its output follows later."""
    running = observed.status.phase == "Running"
    status = write(
        observed,
        now,
        "Running" if running else "Pending",
        "QueueUnavailable",
        observed.queue_error or "",
        admitted=True,
        started=running,
    )
    cancelled = observed.spec.desired_state == "Cancelled"
    return Plan(actions=stop if cancelled else (), status=status, slot="take")


def _may_be_busy(pod: PodState) -> bool:
    """Whether a worker may have said that it is busy: not one whose container cannot begin.

    Who says so may be anybody that writes to the workers' stream.
    """
    return pod.unschedulable is None and (not pod.waiting_reason or pod.exit_code is not None)


def _busy_since(observed: Observed) -> datetime | None:
    """When the attempt's worker began by its own word, unless that one was taken away since."""
    disrupted = observed.status.condition("Disrupted")
    if observed.busy_since is None or disrupted is None or disrupted.status != "True":
        return observed.busy_since
    return observed.busy_since if observed.busy_since > disrupted.last_transition_time else None


def _resumed(observed: Observed, words: str, attempt: int) -> tuple[Event, ...]:
    disrupted = observed.status.condition("Disrupted")
    if disrupted is None or disrupted.status != "True" or observed.status.attempts != attempt:
        return ()
    return (resumed_event(words, attempt, observed.status.disruptions),)


def _on_its_way(
    observed: Observed,
    now: datetime,
    attempt: int,
    job: JobState,
    pods: tuple[PodState, ...],
    image_patience: timedelta,
) -> Plan:
    pod = pods[-1] if pods else None
    since = _busy_since(observed) if pod is None or _may_be_busy(pod) else None
    since = since or (pod.began if pod else None)
    if since is not None:
        since = min(since, now)  # a worker's word, and its clock may be anything
        works = f"attempt {attempt} works" if attempt > 1 else "the agent works"
        resumes = goes_on(observed, attempt)
        if observed.status.attempts == attempt:
            works = resumed_words(observed.status, resumes=resumes) or works
        leaves = None
        if pod and (pod.disruption or pod.deleted_at) and observed.spec.disruption.policy != "Fail":
            # When it is gone nothing else says why.
            leaves = why_leaving(job, pod)
            works = leaves.message
        does = observed.doing if leaves is None and not observed.over_quota else None
        said = {"progress": does, "headline": headline(does)} if does else {}
        status = write(
            observed,
            now,
            "Running",
            "RedisQuotaExceeded" if observed.over_quota else "Running",
            observed.over_quota or works,
            admitted=True,
            started=True,
            disrupted=("Unknown", leaves.reason, leaves.message) if leaves else None,
            **identity(observed, attempt)
            | {"start_time": observed.status.start_time or since}
            | said,
        )
        dying = any(pod.deleted_at and not pod.over for pod in pods)
        return Plan(
            status=status,
            events=_resumed(observed, works, attempt),
            slot="take",
            requeue_after=REQUEUE_SECONDS if dying else None,
        )
    disrupted = observed.status.condition("Disrupted")
    again = job.state == "active" and job.resume < observed.status.disruptions
    if pod is None and again and disrupted and disrupted.status == "True":
        # Why is said already, and what follows when it takes too long is in `disruption`.
        rest = left(disrupted.last_transition_time, NEXT_POD_AFTER, now)
        return Plan(slot="take", requeue_after=max(rest, 1.0))
    why = why_not_running(job, pods, now, observed.kueue)
    if why is not None and pod is None and observed.not_served:
        why = Explanation(reason=NOT_SERVED, message=observed.not_served)
    if why is None and observed.status.phase and now - job.created < SETTLING:
        patience = SETTLING if pod else NO_POD_AFTER
        return Plan(
            slot="take", requeue_after=max((job.created + patience - now).total_seconds(), 1.0)
        )
    requeue_after = NO_POD_AFTER.total_seconds() if pod is None else None
    if job.state == "suspended" and job.queue and not observed.kueue:
        requeue_after = _KUEUE_ANSWERS_SECONDS
    if pod and pod.waiting_since:
        requeue_after = max((pod.waiting_since + image_patience - now).total_seconds(), 1.0)
    elif why is None and pod and pod.began is None:
        since = pod.starting_since or now  # that a node has taken it is heard with something else
        requeue_after = max((since + STARTS_WITHIN - now).total_seconds(), 1.0)
    if why is None and observed.status.reason == "Starting":
        # Said already; a line in `kubectl get -w` only to add the pod's name would look the same.
        return Plan(slot="take", requeue_after=requeue_after)
    status = pending_status(observed, now, attempt, why)
    events = waiting_events(observed.status, why.reason, why.message, attempt) if why else ()
    return Plan(status=status, events=events, slot="take", requeue_after=requeue_after)


def while_asking(observed: Observed, now: datetime) -> Plan:
    """Wait for the answer, or give up."""
    if observed.spec.desired_state == "Cancelled":
        end = give_up(observed, now, "Cancelled", "Cancelled", _cancelled(observed))
        return end.model_copy(update={"actions": leftovers(observed.jobs)})
    asked = observed.status.input_request
    since = (asked.asked_at if asked else None) or now
    patience = timedelta(seconds=observed.spec.input_timeout_seconds)
    rest = left(since, patience, now)
    if rest <= 0:
        waited = readable(round(patience.total_seconds() * 1000))
        question = asked.question if asked else ""
        text = f"nobody answered within {waited}: {question}"
        end = give_up(observed, now, "Failed", "InputTimeout", text)
        return end.model_copy(update={"actions": leftovers(observed.jobs)})
    stop = leftovers(observed.jobs)
    # It has published and leaves by itself; a worker that does not would work for nobody.
    lingers = left(since, LINGERING, now) if stop else 0.0
    return Plan(
        actions=stop if lingers <= 0 else (),
        events=(end_event(observed.status),) if observed.unacknowledged else (),
        slot=slot_after(observed, now),
        requeue_after=min(rest, lingers) if lingers > 0 else rest,
    )
