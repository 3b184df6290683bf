"""Gives a store of six methods what a broker needs, within one process.

Without a compare-and-set in the store, two processes cannot share it; here a lock keeps the
coroutines of this process apart. Leases are kept here too: a RUNNING task that nobody here has one
for is an orphan of a process that is gone.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast
from weakref import WeakValueDictionary

from orbiter.tasks._internal.changes import moved, numbered
from orbiter.tasks._internal.notifications import Watchers
from orbiter.tasks._keepable import shortened
from orbiter.tasks.contract import (
    LEASE_SECONDS,
    UNGUARDED,
    Change,
    EventLog,
    FullStore,
    Guard,
    LeasingStore,
    TaskStore,
    WatchableStore,
)
from orbiter.tasks.models import Task, TaskEvent, utc_now
from orbiter.tasks.state import TaskState, TransitionError

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


@dataclass(frozen=True, slots=True)
class _Lease:
    owner: str
    until: datetime


class AdaptedStore(TaskStore):
    """A store of six methods with the missing capabilities added."""

    def __init__(self, store: TaskStore, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._store = store
        self._clock = clock
        self._watchers = Watchers()
        self._lock = asyncio.Lock()
        self._leases: dict[str, _Lease] = {}

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
            return await self._move(self._known(task), TaskState.RUNNING, owner=owner, lease=lease)

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
            if guard.expired and not self._is_orphan(task_id):
                raise TransitionError(task_id, f"it is run by {self._leases[task_id].owner}")
            return await self._move(
                task, state, guard=Guard(owner=guard.owner), owner=owner, lease=lease,
                result=result, error=error, events=events,
            )  # fmt: skip

    async def renew(self, task_ids: Collection[str], owner: str, lease: float) -> set[str]:
        """Extend leases; see LeasingStore."""
        held = set()
        until = self._clock() + timedelta(seconds=lease)
        for task_id in task_ids:
            task = await self.get(task_id)
            if task is not None and task.state is TaskState.RUNNING and task.owner == owner:
                self._leases[task_id] = _Lease(owner, until)
                held.add(task_id)
        return held

    async def expired(self) -> list[Task]:
        """Return the RUNNING tasks that nobody in this process has a lease for."""
        running = await self.list_by_state(TaskState.RUNNING)
        return [task for task in running if self._is_orphan(task.id)]

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
        lease: float = LEASE_SECONDS,
        result: str | None = None,
        error: str | None = None,
        events: Sequence[TaskEvent] = (),
    ) -> Task | None:
        new = moved(task, state, self._clock(), guard=guard, owner=owner, events=events)
        for event in events:
            await self._store.add_event(task.id, event)
        await self._store.update_state(
            task.id,
            state,
            result=None if result is None else shortened(result),
            error=None if error is None else shortened(error),
        )
        if owner is not None and state is TaskState.RUNNING:
            self._leases[task.id] = _Lease(owner, self._clock() + timedelta(seconds=lease))
        else:
            self._leases.pop(task.id, None)
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
        lease = self._leases.get(task.id)
        if task.state is not TaskState.RUNNING:
            lease = None
        return _numbered(task).model_copy(
            update={"owner": lease and lease.owner, "lease_until": lease and lease.until}
        )

    def _is_orphan(self, task_id: str) -> bool:
        lease = self._leases.get(task_id)
        return lease is None or lease.until <= self._clock()


def _numbered(task: Task) -> Task:
    return task.model_copy(update={"events": numbered(task.events, 0)})
