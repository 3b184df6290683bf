"""Calls the functions that were registered for states of a task, once per transition, in order.

The events of the task are the truth: whoever catches up reads those that were not looked at yet.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass

from orbiter.tasks._internal.adapter import FullStore
from orbiter.tasks._internal.raised import Boundary
from orbiter.tasks.models import Task
from orbiter.tasks.state import TERMINAL_STATES, TaskNotFoundError, TaskState

logger = logging.getLogger("orbiter.tasks")
Callback = Callable[[Task], Awaitable[object]]
# the tasks whose callbacks run in this context: from within, one does not wait for them
_inside: ContextVar[frozenset[str]] = ContextVar("orbiter_tasks_callbacks", default=frozenset())


@dataclass(slots=True)
class Registration:
    """A callback, the states it is for, and the last event that was looked at for it."""

    states: frozenset[TaskState]
    callback: Callback
    seen: int


class Callbacks:
    """The registered callbacks of one broker."""

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
