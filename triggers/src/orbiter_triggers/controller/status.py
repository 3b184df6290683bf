"""What a trigger's status says whatever its source is, and which tasks there may be. Pure."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from orbiter_operator.kube.models import Condition, ConditionStatus
from orbiter_triggers.controller.cache import TaskState
from orbiter_triggers.controller.observed import Observed
from orbiter_triggers.models import TriggerStatus

HOUR: Final = timedelta(hours=1)
REFUSED: Final = "TaskRefused"


class Ready(NamedTuple):
    """What the condition Ready should say."""

    status: ConditionStatus
    reason: str
    message: str


class Room(NamedTuple):
    """Whether `maxPerHour` has room for one more task.

    Attributes:
        free: Whether it has.
        why: Why not, as a sentence.
        at: From when on it has.
    """

    free: bool
    why: str = ""
    at: datetime | None = None


def room(observed: Observed) -> Room:
    """Whether one more task may be made within this hour."""
    most = observed.spec.max_per_hour
    recent = [task for task in observed.tasks if task.created > observed.now - HOUR]
    if len(recent) < most:
        return Room(free=True)
    why = f"{len(recent)} tasks were made within an hour, spec.maxPerHour is {most}"
    return Room(free=False, why=why, at=recent[-most].created + HOUR)


def outdated_tasks(observed: Observed) -> tuple[tuple[TaskState, ...], datetime | None]:
    """Tasks beyond the limits of history, and when the next one will be old enough to go."""
    limits = observed.spec.history_limits
    ended = [task for task in observed.tasks if task.ended]
    good = [task for task in ended if task.phase == "Completed"]
    bad = [task for task in ended if task.phase != "Completed"]
    beyond = [
        *good[: max(len(good) - limits.successful, 0)],
        *bad[: max(len(bad) - limits.failed, 0)],
    ]
    # A task counts for spec.maxPerHour as long as that hour has not passed.
    old = tuple(task for task in beyond if task.created <= observed.now - HOUR)
    young = [task.created + HOUR for task in beyond if task.created > observed.now - HOUR]
    return old, min(young, default=None)


def active_tasks(observed: Observed) -> tuple[TaskState, ...]:
    """Its tasks that have not ended."""
    return tuple(task for task in observed.tasks if not task.ended)


def fired_or_before(observed: Observed, *, fired: bool) -> Ready:
    """That it is ready, unless the API server refuses its tasks, as far as anybody knows."""
    old = observed.status.condition("Ready")
    same = old is not None and old.observed_generation == observed.generation
    if old is not None and same and old.reason == REFUSED and not fired:
        return Ready(old.status, old.reason, old.message)
    return Ready("True", "AsExpected", "")


def status_with(observed: Observed, ready: Ready) -> TriggerStatus:
    """The status as it is now, but for what is of one source alone."""
    status, now = observed.status, observed.now
    conditions = [_condition(observed, "Ready", ready.status, ready.reason, ready.message, now)]
    if ready.reason == "InvalidSpec":
        text = ready.message
        conditions.append(_condition(observed, "Stalled", "True", ready.reason, text, now))
    newest = observed.tasks[-1].name if observed.tasks else status.last_task
    changed = {
        "conditions": tuple(conditions),
        "observed_generation": observed.generation,
        "active": len(active_tasks(observed)),
        "last_task": newest,
    }
    return status.model_copy(update=changed)


def _condition(
    observed: Observed, kind: str, holds: ConditionStatus, reason: str, message: str, now: datetime
) -> Condition:
    generation = observed.generation
    return observed.status.next_condition(kind, holds, reason, message, now, generation)


def until(now: datetime, *moments: datetime | None) -> float | None:
    """Seconds until the first of these; None when there is none."""
    left = [(moment - now).total_seconds() for moment in moments if moment is not None]
    return max(min(left), 0.0) if left else None
