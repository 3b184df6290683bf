"""Who is told of a task: watchers of a store, those who wait, callbacks, and readers of events."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextvars import ContextVar
from dataclasses import dataclass
from weakref import WeakValueDictionary

from orbiter.tasks._internal.raised import Boundary
from orbiter.tasks.contract import Change, FullStore
from orbiter.tasks.models import Task, TaskEvent
from orbiter.tasks.state import TERMINAL_STATES, TaskNotFoundError, TaskState

logger = logging.getLogger("orbiter.tasks")
Callback = Callable[[Task], Awaitable[object]]
# the tasks whose callbacks run in this context: from within, one does not wait for them
_inside: ContextVar[frozenset[str]] = ContextVar("orbiter_tasks_callbacks", default=frozenset())


class Watchers:
    """Functions that are told of a store's changes; what one raises is logged and harms nobody."""

    def __init__(self) -> None:
        self._functions: list[Callable[[Change], None]] = []

    def add(self, watcher: Callable[[Change], None]) -> Callable[[], None]:
        """Add a function and return what removes it."""
        self._functions.append(watcher)
        return lambda: self._functions.remove(watcher)

    def tell(self, change: Change) -> None:
        """Call all of them."""
        for watcher in list(self._functions):
            try:
                watcher(change)
            except Exception:
                logger.exception("a watcher failed on a change of task %s", change.task_id)


class Signals:
    """One future per task somebody waits for; it is gone when nobody waits any more.

    Take the future first, look at the store next, wait last: no news falls in between.
    """

    def __init__(self) -> None:
        self._next: WeakValueDictionary[str, asyncio.Future[None]] = WeakValueDictionary()

    def next(self, task_id: str) -> asyncio.Future[None]:
        """Return what will be done with the next news of the task."""
        future = self._next.get(task_id)
        if future is None:
            future = self._next[task_id] = asyncio.get_running_loop().create_future()
        return future

    def tell(self, task_id: str) -> None:
        """Wake all who wait for this task."""
        future = self._next.pop(task_id, None)
        if future is not None and not future.done():
            future.set_result(None)


class Bell:
    """Wakes one loop; ringing it several times before it listens counts once."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake the loop."""
        self._rung.set()

    async def heard(self, timeout: float) -> None:
        """Wait until it is rung, at most so many seconds."""
        if not self._rung.is_set():
            handle = asyncio.get_running_loop().call_later(timeout, self._rung.set)
            try:
                await self._rung.wait()
            finally:
                handle.cancel()
        self._rung.clear()


class Readers:
    """Reads from a store, woken by signals and by time."""

    def __init__(
        self,
        store: FullStore,
        signals: Signals,
        poll_interval: float,
        idle: Callable[[Task], object],
    ) -> None:
        """Read from a store; `idle` is told of a task that nothing happened to for a while."""
        self._store = store
        self._signals = signals
        self._poll_interval = poll_interval
        self._idle = idle

    async def found(self, task_id: str) -> Task:
        """Return the task.

        Raises:
            TaskNotFoundError: It is unknown.
        """
        task = await self._store.get(task_id)
        if task is None:
            raise TaskNotFoundError(task_id)
        return task

    async def until(self, task_id: str, states: Collection[TaskState]) -> Task:
        """Return the task once it is in one of the states."""
        while True:
            news = self._signals.next(task_id)
            task = await self.found(task_id)
            if task.state in states:
                return task
            await self._news_of(task, news)

    async def events(self, task_id: str, after: int) -> AsyncIterator[TaskEvent]:
        """Yield the events behind `after` up to the terminal state."""
        while True:
            news = self._signals.next(task_id)
            # the state first: what brought the task there is among the events read after it
            task = await self.found(task_id)
            for event in await self._store.events_after(task_id, after):
                after = event.seq
                yield event
                if event.new_state in TERMINAL_STATES:
                    return
            if task.is_terminal:
                return
            await self._news_of(task, news)

    async def _news_of(self, task: Task, news: asyncio.Future[None]) -> None:
        heard, _ = await asyncio.wait({news}, timeout=self._poll_interval)
        if not heard:
            self._idle(task)


@dataclass(slots=True)
class Registration:
    """A callback, the states it is for, and the last event that was looked at for it."""

    states: frozenset[TaskState]
    callback: Callback
    seen: int


class Callbacks:
    """The callbacks of one broker: each is called once per transition, in order.

    The task's events are the truth: whoever catches up reads those that were not looked at yet.
    """

    def __init__(self, store: FullStore) -> None:
        self._store = store
        self._registered: dict[str, list[Registration]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._registered

    def ids(self) -> list[str]:
        """Return the tasks that have callbacks."""
        return list(self._registered)

    async def add(self, task_id: str, states: frozenset[TaskState], callback: Callback) -> None:
        """Register a callback; it is called at once if the task is in one of the states.

        Raises:
            TaskNotFoundError: The task is unknown.
        """
        task = await self._store.get(task_id)
        if task is None:
            raise TaskNotFoundError(task_id)
        if not task.is_terminal:
            registration = Registration(states, callback, len(task.events))
            self._registered.setdefault(task_id, []).append(registration)
        if task.state in states:
            await _call(callback, task)

    async def catch_up(self, task_id: str) -> None:
        """Call what is due; when this returns it has run, whoever ran it."""
        if task_id not in self._registered or task_id in _inside.get():
            return
        async with self._locks.setdefault(task_id, asyncio.Lock()):
            # callbacks may have brought the task into its next state
            while task_id in self._registered and await self._call_due(task_id):
                pass
        if task_id not in self._registered:
            self._locks.pop(task_id, None)

    async def _call_due(self, task_id: str) -> bool:
        """Call what is due and say whether there was any news."""
        registered = self._registered[task_id]
        events = await self._store.events_after(task_id, min(r.seen for r in registered))
        task = await self._store.get(task_id)
        for event in events:
            state = event.new_state
            for registration in list(registered):
                if event.seq <= registration.seen:
                    continue
                registration.seen = event.seq
                if state in registration.states and task is not None:
                    # a later state may be stored by now: the callback sees the one it is for
                    seen = task.model_copy(update={"state": state})
                    await _call(registration.callback, seen)
            if state in TERMINAL_STATES:
                self._registered.pop(task_id, None)
        return bool(events)


async def _call(callback: Callback, task: Task) -> None:
    token = _inside.set(_inside.get() | {task.id})
    boundary = Boundary()
    try:
        await callback(task)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or not boundary.is_own(error):
            raise
        logger.exception("a callback for task %s in state %s failed", task.id, task.state)
    finally:
        _inside.reset(token)
