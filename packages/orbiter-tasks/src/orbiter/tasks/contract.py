"""What a store must do, and what it may do beyond that.

The six methods of TaskStore are enough for a worker and a broker of one process. A store that has
the methods of LeasingStore can be shared by brokers of many processes; one that has `watch` is
dispatched from without polling; one that has `events_after` spares readers what they have read.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from orbiter.tasks.models import Task, TaskEvent
from orbiter.tasks.state import TaskState

LEASE_SECONDS = 10.0


class TaskStore(ABC):
    """Keeps tasks. What it returns are snapshots."""

    @abstractmethod
    async def create(self, task: Task) -> Task:
        """Keep a new task.

        Raises:
            TaskError: Its id is taken.
        """

    @abstractmethod
    async def get(self, task_id: str) -> Task | None:
        """Return a task with its events; None when the id is unknown."""

    @abstractmethod
    async def update_state(
        self,
        task_id: str,
        state: TaskState,
        *,
        result: str | None = None,
        error: str | None = None,
    ) -> Task | None:
        """Bring a task into another state and record the event of it.

        Returns:
            The task as it is now; None when the id is unknown.

        Raises:
            TransitionError: The state may not follow the present one; the text says why.
        """

    @abstractmethod
    async def list_by_state(self, state: TaskState) -> list[Task]:
        """Return the tasks in a state, oldest first."""

    @abstractmethod
    async def next_pending(self) -> Task | None:
        """Return the oldest PENDING task, unchanged; None when there is none."""

    @abstractmethod
    async def add_event(self, task_id: str, event: TaskEvent) -> None:
        """Append an event; the store gives it its `seq`.

        Raises:
            TransitionError: The task is over, nothing happens to it any more.
        """


@dataclass(frozen=True, slots=True)
class Guard:
    """What must be so for a change to happen; checked in the same moment the change is made.

    Attributes:
        owner: The task is run by this owner; None does not ask.
        expired: The lease of whoever runs it has run out.
    """

    owner: str | None = None
    expired: bool = False


UNGUARDED = Guard()


@runtime_checkable
class LeasingStore(Protocol):
    """A store that compares and sets in one step, also between processes."""

    async def claim(self, owner: str, lease: float) -> Task | None:
        """Bring the oldest PENDING task into RUNNING for `owner`; None when there is none.

        Args:
            owner: Whoever will run it.
            lease: Seconds until it counts as orphaned, unless renewed.
        """
        ...

    async def move(
        self,
        task_id: str,
        state: TaskState,
        *,
        guard: Guard = UNGUARDED,
        owner: str | None = None,
        lease: float = LEASE_SECONDS,
        result: str | None = None,
        error: str | None = None,
        events: Sequence[TaskEvent] = (),
    ) -> Task | None:
        """Change the state as `update_state` does, if `guard` holds.

        Args:
            task_id: The task.
            state: Its next state.
            guard: What else must be so.
            owner: Whoever runs it from now on, with the state RUNNING.
            lease: Seconds the owner has it, with the state RUNNING.
            result: The new result, if any.
            error: The new error, if any.
            events: Events recorded in the same step, before the one of the new state.

        Raises:
            TransitionError: The state may not follow, or the guard does not hold.
        """
        ...

    async def renew(self, task_ids: Collection[str], owner: str, lease: float) -> set[str]:
        """Extend leases by `lease` seconds from now and return the ids `owner` still has."""
        ...

    async def expired(self) -> list[Task]:
        """Return the RUNNING tasks whose lease has run out."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """A task is new or has changed: its state now, and the events that came with it."""

    task_id: str
    state: TaskState
    events: Sequence[TaskEvent] = ()


@runtime_checkable
class WatchableStore(Protocol):
    """A store that tells of changes made through it."""

    def watch(self, watcher: Callable[[Change], None]) -> Callable[[], None]:
        """Call `watcher` after each change, in the event loop; return what ends that."""
        ...


@runtime_checkable
class EventLog(Protocol):
    """A store that can return a part of the events."""

    async def events_after(self, task_id: str, seq: int) -> list[TaskEvent]:
        """Return the events with a higher `seq`, in order; none for an unknown task."""
        ...


class FullStore(TaskStore, LeasingStore, WatchableStore, EventLog):
    """All that a broker asks of a store, for type checkers; nothing is made of it."""
