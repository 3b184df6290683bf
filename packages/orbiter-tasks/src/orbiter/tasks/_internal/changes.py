"""What a change makes of a task: pure functions, the same for every store."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from orbiter.tasks._keepable import shortened
from orbiter.tasks.contract import LEASE_SECONDS, UNGUARDED, Guard
from orbiter.tasks.models import EventType, Task, TaskEvent
from orbiter.tasks.state import TERMINAL_STATES, TaskState, TransitionError, refusal


def moved(
    task: Task,
    state: TaskState,
    now: datetime,
    *,
    guard: Guard = UNGUARDED,
    owner: str | None = None,
    lease: float = LEASE_SECONDS,
    result: str | None = None,
    error: str | None = None,
    events: Sequence[TaskEvent] = (),
) -> Task:
    """Return the task in its next state; the arguments are those of LeasingStore.move.

    Raises:
        TransitionError: The state may not follow, or the guard does not hold.
    """
    reason = refusal(task.state, state) or _unmet(task, guard, now)
    if reason is not None:
        raise TransitionError(task.id, reason)
    running = state is TaskState.RUNNING
    change = state_change(task.id, state, now)
    return task.model_copy(
        update={
            "state": state,
            "result": task.result if result is None else shortened(result),
            "error": task.error if error is None else shortened(error),
            "owner": owner if running else None,
            "lease_until": now + timedelta(seconds=lease) if running else None,
            "events": [*task.events, *numbered([*events, change], len(task.events))],
            "updated_at": now,
            "version": task.version + 1,
        }
    )


def noted(task: Task, event: TaskEvent, now: datetime) -> Task:
    """Return the task with one more event.

    Raises:
        TransitionError: The task is over.
    """
    if task.state in TERMINAL_STATES:
        raise TransitionError(task.id, over(task.state))
    return task.model_copy(
        update={
            "events": [*task.events, *numbered([event], len(task.events))],
            "updated_at": now,
            "version": task.version + 1,
        }
    )


def renewed(task: Task, owner: str, lease: float, now: datetime) -> Task:
    """Return the task with a longer lease; the same task when `owner` does not have it."""
    if not holds(task, owner):
        return task
    until = now + timedelta(seconds=lease)
    return task.model_copy(update={"lease_until": until, "version": task.version + 1})


def holds(task: Task, owner: str) -> bool:
    """Say whether `owner` runs the task."""
    return task.state is TaskState.RUNNING and task.owner == owner


def is_expired(task: Task, now: datetime) -> bool:
    """Say whether a RUNNING task's lease has run out; without a lease it began with the state."""
    until = task.lease_until or task.updated_at + timedelta(seconds=LEASE_SECONDS)
    return task.state is TaskState.RUNNING and until <= now


def state_change(task_id: str, state: TaskState, now: datetime) -> TaskEvent:
    """Build the event of a transition."""
    return TaskEvent(
        task_id=task_id,
        event_type=EventType.STATE_CHANGE,
        payload={"state": state.value},
        timestamp=now,
    )


def numbered(events: Sequence[TaskEvent], count: int) -> list[TaskEvent]:
    """Give events their place behind the first `count` ones."""
    return [
        event if event.seq == seq else event.model_copy(update={"seq": seq})
        for seq, event in enumerate(events, count + 1)
    ]


def over(state: TaskState) -> str:
    """Say why nothing can happen to a task of this terminal state."""
    return f"it is {state} and takes no further events"


def _unmet(task: Task, guard: Guard, now: datetime) -> str | None:
    if guard.owner is not None and not holds(task, guard.owner):
        return f"it is {task.state}, run by {task.owner or 'nobody'}, no longer by {guard.owner}"
    if guard.expired and not is_expired(task, now):
        return f"its lease lasts until {task.lease_until}"
    return None
