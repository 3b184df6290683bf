"""VersionedStore: a whole store made of a few primitives, the chief one being compare-and-set.

Memory, JSON and SQLite stores are made this way; so can yours be. A change is decided by pure
functions on a snapshot and written only if the task still has the snapshot's version.
"""

import copy
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from orbiter.tasks._internal.changes import holds, is_expired, moved, noted, renewed
from orbiter.tasks._internal.notifications import Watchers
from orbiter.tasks.contract import LEASE_SECONDS, UNGUARDED, Change, Guard, TaskStore
from orbiter.tasks.models import Task, TaskEvent, utc_now
from orbiter.tasks.state import TaskState


class VersionedStore(TaskStore):
    """Everything a broker can use, on top of a few private methods."""

    def __init__(self, *, clock: Callable[[], datetime] = utc_now) -> None:
        """Create the store.

        Args:
            clock: Tells the time, with its zone; leases are measured by it.
        """
        self._clock = clock
        self._watchers = Watchers()

    @abstractmethod
    async def _insert(self, task: Task) -> None:
        """Keep a new task; raise TaskError if its id is taken."""

    @abstractmethod
    async def _load(self, task_id: str) -> Task | None:
        """Return a task, which is never changed in place."""

    @abstractmethod
    async def _first_pending(self) -> Task | None:
        """Return the oldest PENDING task."""

    @abstractmethod
    async def _in_state(self, state: TaskState) -> list[Task]:
        """Return the tasks in a state, oldest first."""

    async def _swap(self, old: Task, new: Task) -> bool:
        """Put `new` in the place of `old` if its version is still that of `old`, in one step.

        Only a store that has an `_apply` of its own can do without.
        """
        raise NotImplementedError

    async def _apply(
        self, task_id: str | None, change: Callable[[Task], Task]
    ) -> tuple[Task, Task] | None:
        """Change a task, or the oldest PENDING one, and return it as it was and as it is.

        `change` may be called several times and returns the very same task to change nothing.
        """
        while True:
            task = await (self._first_pending() if task_id is None else self._load(task_id))
            if task is None:
                return None
            new = change(task)
            if new is task or await self._swap(task, new):
                return task, new

    async def create(self, task: Task) -> Task:
        """Keep a new task; see TaskStore."""
        await self._insert(snapshot(task))
        self._watchers.tell(Change(task.id, task.state, task.events))
        return snapshot(task)

    async def get(self, task_id: str) -> Task | None:
        """Return a task; see TaskStore."""
        task = await self._load(task_id)
        return None if task is None else snapshot(task)

    async def update_state(
        self,
        task_id: str,
        state: TaskState,
        *,
        result: str | None = None,
        error: str | None = None,
    ) -> Task | None:
        """Change the state; see TaskStore."""
        return await self.move(task_id, state, result=result, error=error)

    async def list_by_state(self, state: TaskState) -> list[Task]:
        """Return the tasks in a state, oldest first."""
        return [snapshot(task) for task in await self._in_state(state)]

    async def next_pending(self) -> Task | None:
        """Return the oldest PENDING task; see TaskStore."""
        task = await self._first_pending()
        return None if task is None else snapshot(task)

    async def add_event(self, task_id: str, event: TaskEvent) -> None:
        """Append an event; see TaskStore."""
        await self._change(task_id, lambda task: noted(task, event, self._clock()))

    async def events_after(self, task_id: str, seq: int) -> list[TaskEvent]:
        """Return the events with a higher `seq`; see EventLog."""
        task = await self._load(task_id)
        return [] if task is None else task.events[seq:]

    async def claim(self, owner: str, lease: float) -> Task | None:
        """Take the oldest PENDING task; see LeasingStore."""
        return await self._change(
            None,
            lambda task: moved(task, TaskState.RUNNING, self._clock(), owner=owner, lease=lease),
        )

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
        """Change the state if the guard holds; see LeasingStore."""
        return await self._change(
            task_id,
            lambda task: moved(
                task, state, self._clock(), guard=guard, owner=owner, lease=lease,
                result=result, error=error, events=events,
            ),
        )  # fmt: skip

    async def renew(self, task_ids: Collection[str], owner: str, lease: float) -> set[str]:
        """Extend leases; see LeasingStore."""
        held = set()
        for task_id in task_ids:
            task = await self._change(
                task_id, lambda task: renewed(task, owner, lease, self._clock())
            )
            if task is not None and holds(task, owner):
                held.add(task_id)
        return held

    async def expired(self) -> list[Task]:
        """Return the RUNNING tasks whose lease has run out."""
        now = self._clock()
        running = await self._in_state(TaskState.RUNNING)
        return [snapshot(task) for task in running if is_expired(task, now)]

    def watch(self, watcher: Callable[[Change], None]) -> Callable[[], None]:
        """Call `watcher` after each change made through this object; see WatchableStore."""
        return self._watchers.add(watcher)

    async def _change(self, task_id: str | None, change: Callable[[Task], Task]) -> Task | None:
        changed = await self._apply(task_id, change)
        if changed is None:
            return None
        old, new = changed
        if len(new.events) > len(old.events):
            self._watchers.tell(Change(new.id, new.state, new.events[len(old.events) :]))
        return snapshot(new)


def snapshot(task: Task) -> Task:
    """Copy a task so that whoever gets it may do with it what he likes."""
    metadata = copy.deepcopy(task.metadata) if task.metadata else {}
    return task.model_copy(update={"events": list(task.events), "metadata": metadata})
