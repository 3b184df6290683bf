"""Those who wait for a task or follow its events: any number of them, each at its own pace."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection

from orbiter.tasks._internal.adapter import FullStore
from orbiter.tasks._internal.signals import Signals
from orbiter.tasks.models import Task, TaskEvent
from orbiter.tasks.state import TERMINAL_STATES, TaskNotFoundError, TaskState


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
