"""At the end of a task: stop what lingers, announce what was not, go in time. Part of `plan`."""

from datetime import datetime, timedelta

from orbiter_operator.tasks.models import TaskStatus
from orbiter_operator.tasks.observed import Observed, slot_after
from orbiter_operator.tasks.plan.actions import (
    LINGERING,
    STOPPED_BY_US,
    DeleteJob,
    DeleteTask,
    ForgetSession,
    Plan,
    left,
    leftovers,
)
from orbiter_operator.tasks.plan.events import end_event

_FOR_DEPENDENTS_SECONDS = 60.0


def at_the_end(observed: Observed, now: datetime) -> Plan:
    """Tidy up after a task that has reached its final phase."""
    status = observed.status
    actions: tuple[DeleteJob | DeleteTask | ForgetSession, ...] = ()
    requeue_times: list[float] = []
    if stop := leftovers(observed.jobs):
        rest = left(status.completion_time, LINGERING, now)
        if rest <= 0 or status.phase == "Cancelled" or status.reason in STOPPED_BY_US:
            actions = stop
        else:
            requeue_times.append(rest)
    if has_session(observed) and not observed.queue_error:
        actions = (*actions, ForgetSession())
    lifetime = observed.spec.ttl_seconds_after_finished
    if lifetime is not None:
        rest = left(status.completion_time, timedelta(seconds=lifetime), now)
        if rest > 0:
            requeue_times.append(rest)
        elif observed.dependents_waiting:
            # They still have to see that this one was completed.
            requeue_times.append(_FOR_DEPENDENTS_SECONDS)
        else:
            actions = (*actions, DeleteTask())
    events = (end_event(status),) if observed.unacknowledged else ()
    slot = slot_after(observed, now)
    return Plan(
        actions=actions,
        status=_up_to_date(observed),
        events=events,
        slot=slot,
        requeue_after=min(requeue_times, default=None),
    )


def when_deleted(observed: Observed, now: datetime) -> Plan:
    """Stop a deleted task that somebody's finalizer keeps: it has its slot until it has stopped."""
    return Plan(actions=leftovers(observed.jobs), slot=slot_after(observed, now))


def has_session(observed: Observed) -> bool:
    """Whether a worker may have stored its agent's session: only questions make one do so."""
    return observed.status.input_request is not None or bool(observed.spec.input)


def _up_to_date(observed: Observed) -> TaskStatus | None:
    """The status of a task whose spec was changed after its end: it says that this was seen."""
    if observed.status.observed_generation == observed.generation:
        return None
    return observed.status.model_copy(update={"observed_generation": observed.generation})
