"""At the end of a task: stop what lingers, announce what was not, go in time. Part of `plan`."""

from datetime import datetime, timedelta

from orbiter_operator.facts import Observed
from orbiter_operator.models import FINAL
from orbiter_operator.outcome import announcement, give_up
from orbiter_operator.places import place_after
from orbiter_operator.steps import DeleteJob, DeleteTask, Plan

LINGERING = timedelta(seconds=120)
"""A worker that has published leaves within seconds; after so long its Job is deleted."""
STOPPED_BY_US = ("Cancelled", "ImagePullFailed", "NodeLost")
"""Reasons of outputs whose worker may still be there: its Job has to be deleted."""
_FOR_DEPENDENTS_SECONDS = 60.0


def at_the_end(observed: Observed, now: datetime) -> Plan:
    """Tidy up after a task that has reached its final phase, or that waits for an answer."""
    status = observed.status
    if status.phase == "InputRequired" and observed.spec.desired_state == "Cancelled":
        end = give_up(observed, now, "Cancelled", "Cancelled", "cancelled by spec.desiredState")
        return end.model_copy(update={"steps": leftovers(observed)})
    steps: tuple[DeleteJob | DeleteTask, ...] = ()
    dues: list[float] = []
    if stop := leftovers(observed):
        left = _left(status.completion_time, LINGERING, now)
        if left <= 0 or status.phase == "Cancelled" or status.reason in STOPPED_BY_US:
            steps = stop
        else:
            dues.append(left)
    lifetime = observed.spec.ttl_seconds_after_finished
    if status.phase in FINAL and lifetime is not None:
        left = _left(status.completion_time, timedelta(seconds=lifetime), now)
        if left > 0:
            dues.append(left)
        elif observed.dependents_waiting:
            # They still have to see that this one was completed.
            dues.append(_FOR_DEPENDENTS_SECONDS)
        else:
            steps = (*steps, DeleteTask())
    event = announcement(status) if observed.news else None
    place = place_after(observed, now)
    return Plan(steps=steps, event=event, place=place, due=min(dues, default=None))


def leftovers(observed: Observed) -> tuple[DeleteJob, ...]:
    """The deletion of every Job that may still run."""
    return tuple(
        DeleteJob(name=job.name) for job in observed.jobs if not job.over and not job.deleting
    )


def _left(since: datetime | None, span: timedelta, now: datetime) -> float:
    return ((since or now) + span - now).total_seconds()
