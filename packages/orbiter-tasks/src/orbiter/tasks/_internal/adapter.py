"""Gives a store of six methods what a broker needs, within one process.

Without a compare-and-set in the store, two processes cannot share it; here a lock keeps the
coroutines of this process apart. A RUNNING task that nobody here runs is an orphan of a process
that is gone.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import cast
from weakref import WeakValueDictionary

from orbiter.tasks._internal.changes import moved, numbered
from orbiter.tasks._internal.watchers import Watchers
from orbiter.tasks.contract import (
    LEASE_SECONDS,
    UNGUARDED,
    Change,
    EventLog,
    Guard,
    LeasingStore,
    TaskStore,
    WatchableStore,
)
from orbiter.tasks.models import Task, TaskEvent, utc_now
from orbiter.tasks.state import TaskState, TransitionError


class FullStore(TaskStore, LeasingStore, WatchableStore, EventLog):
    """All that a broker asks of a store, for type checkers; nothing is made of it."""


# brokers of one process on the same store have to meet in one adapter; it keeps its store alive,
# so as long as there is an entry its id means that store
_adapters: WeakValueDictionary[int, "AdaptedStore"] = WeakValueDictionary()


def full(store: TaskStore) -> FullStore:
    """Return the store itself if it can do everything, else an adapter around it."""
    capable = (LeasingStore, WatchableStore, EventLog)
    if isinstance(store, AdaptedStore) or all(isinstance(store, kind) for kind in capable):
        return cast("FullStore", store)
    adapter = _adapters.get(id(store))
    if adapter is None:
        adapter = _adapters[id(store)] = AdaptedStore(store)
    return cast("FullStore", adapter)


class AdaptedStore(TaskStore):
    """A store of six methods with the missing capabilities added."""

    def __init__(self, store: TaskStore, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._store = store
        self._clock = clock
        self._watchers = Watchers()
        self._lock = asyncio.Lock()
        self._owners: dict[str, str] = {}

    async def create(self, task: Task) -> Task:
        """Keep a new task; see TaskStore."""
        created = await self._store.create(task)
        self._watchers.tell(Change(task.id, task.state, tuple(task.events)))
        return _numbered(created or task)

    async def get(self, task_id: str) -> Task | None:
        """Return a task; see TaskStore."""
        task = await self._store.get(task_id)
        return None if task is None else self._known(task)

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
        return [self._known(task) for task in await self._store.list_by_state(state)]

    async def next_pending(self) -> Task | None:
        """Return the oldest PENDING task; see TaskStore."""
        task = await self._store.next_pending()
        return None if task is None else _numbered(task)

    async def add_event(self, task_id: str, event: TaskEvent) -> None:
        """Append an event; see TaskStore."""
        async with self._lock:
            task = await self._store.get(task_id)
            if task is None:
                return
            if task.is_terminal:
                raise TransitionError(task_id, f"it is {task.state} and takes no further events")
            await self._store.add_event(task_id, event)
        self._watchers.tell(Change(task_id, task.state, [event]))

    async def events_after(self, task_id: str, seq: int) -> list[TaskEvent]:
        """Return the events with a higher `seq`; see EventLog."""
        task = await self.get(task_id)
        return [] if task is None else task.events[seq:]

    async def claim(self, owner: str, lease: float) -> Task | None:
        """Take the oldest PENDING task; see LeasingStore."""
        async with self._lock:
            task = await self._store.next_pending()
            if task is None or task.state is not TaskState.PENDING:
                return None
            return await self._move(self._known(task), TaskState.RUNNING, owner=owner)

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
        async with self._lock:
            task = await self.get(task_id)
            if task is None:
                return None
            if guard.expired and task_id in self._owners:
                raise TransitionError(task_id, f"it is run by {self._owners[task_id]}")
            return await self._move(
                task, state, guard=Guard(owner=guard.owner), owner=owner,
                result=result, error=error, events=events,
            )  # fmt: skip

    async def renew(self, task_ids: Collection[str], owner: str, lease: float) -> set[str]:
        """Say which tasks `owner` still runs; see LeasingStore."""
        held = set()
        for task_id in task_ids:
            task = await self.get(task_id)
            if task is not None and task.state is TaskState.RUNNING and task.owner == owner:
                held.add(task_id)
        return held

    async def expired(self) -> list[Task]:
        """Return the RUNNING tasks that nobody in this process runs."""
        running = await self.list_by_state(TaskState.RUNNING)
        return [task for task in running if task.id not in self._owners]

    def watch(self, watcher: Callable[[Change], None]) -> Callable[[], None]:
        """Call `watcher` after each change made through this object; see WatchableStore."""
        return self._watchers.add(watcher)

    async def _move(
        self,
        task: Task,
        state: TaskState,
        *,
        guard: Guard = UNGUARDED,
        owner: str | None = None,
        result: str | None = None,
        error: str | None = None,
        events: Sequence[TaskEvent] = (),
    ) -> Task | None:
        new = moved(task, state, self._clock(), guard=guard, owner=owner, events=events)
        for event in events:
            await self._store.add_event(task.id, event)
        await self._store.update_state(task.id, state, result=result, error=error)
        if owner is not None and state is TaskState.RUNNING:
            self._owners[task.id] = owner
        else:
            self._owners.pop(task.id, None)
        # some stores record the event of a transition themselves, some leave it to the caller
        changes = [event for event in await self._events(task.id) if event.new_state]
        if not changes or changes[-1].new_state is not state:
            await self._store.add_event(task.id, new.events[-1])
        now = await self.get(task.id)
        if now is not None:
            self._watchers.tell(Change(now.id, now.state, now.events[len(task.events) :]))
        return now

    async def _events(self, task_id: str) -> list[TaskEvent]:
        task = await self._store.get(task_id)
        return [] if task is None else task.events

    def _known(self, task: Task) -> Task:
        owner = self._owners.get(task.id)
        if task.state is not TaskState.RUNNING:
            owner = None
        return _numbered(task).model_copy(update={"owner": owner})


def _numbered(task: Task) -> Task:
    return task.model_copy(update={"events": numbered(task.events, 0)})
