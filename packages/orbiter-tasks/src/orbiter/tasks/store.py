"""The stores that need nothing but Python: one in memory, one with a JSON file a task.

SQLite is in `orbiter.tasks.sqlite`; what a store is stands in `orbiter.tasks.contract`.
"""

import asyncio
import heapq
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import ParamSpec, TypeVar

from orbiter.tasks._internal.json_files import TaskFiles
from orbiter.tasks.contract import TaskStore
from orbiter.tasks.models import Task, utc_now
from orbiter.tasks.state import TaskError, TaskState
from orbiter.tasks.versioned import VersionedStore

__all__ = ["TaskStore", "TaskStoreJson", "TaskStoreMemory"]

P = ParamSpec("P")
T = TypeVar("T")


class TaskStoreMemory(VersionedStore):
    """Keeps tasks as long as the process lives."""

    def __init__(self, *, clock: Callable[[], datetime] = utc_now) -> None:
        """Create an empty store.

        Args:
            clock: Tells the time, with its zone.
        """
        super().__init__(clock=clock)
        self._tasks: dict[str, Task] = {}
        self._places: dict[str, int] = {}
        self._by_state: dict[TaskState, set[str]] = {state: set() for state in TaskState}
        # may name tasks that are PENDING no longer; they are dropped when they come first
        self._queue: list[tuple[datetime, int, str]] = []

    async def _insert(self, task: Task) -> None:
        if task.id in self._tasks:
            raise TaskError(f"there is a task {task.id} already; give the new one another id")
        self._places[task.id] = len(self._places)
        self._put(task)

    async def _load(self, task_id: str) -> Task | None:
        return self._tasks.get(task_id)

    async def _swap(self, old: Task, new: Task) -> bool:
        if self._tasks[old.id].version != old.version:
            return False
        self._by_state[old.state].discard(old.id)
        self._put(new, queue=new.state is not old.state)
        return True

    async def _first_pending(self) -> Task | None:
        while self._queue:
            task = self._tasks[self._queue[0][2]]
            if task.state is TaskState.PENDING:
                return task
            heapq.heappop(self._queue)
        return None

    async def _in_state(self, state: TaskState) -> list[Task]:
        tasks = [self._tasks[task_id] for task_id in self._by_state[state]]
        return sorted(tasks, key=lambda task: (task.created_at, self._places[task.id]))

    def _put(self, task: Task, *, queue: bool = True) -> None:
        self._tasks[task.id] = task
        self._by_state[task.state].add(task.id)
        if queue and task.state is TaskState.PENDING:
            heapq.heappush(self._queue, (task.created_at, self._places[task.id], task.id))


class TaskStoreJson(VersionedStore):
    """Keeps each task in a JSON file; several processes may share the directory.

    A file is replaced as a whole, so whoever is killed leaves no half of one. What was written
    survives the process; surviving a power failure is a database's business.
    """

    def __init__(self, directory: str | Path, *, clock: Callable[[], datetime] = utc_now) -> None:
        """Name the directory, which is made when it is first used.

        Args:
            directory: Where the files are; nothing else in it ends in `.json`.
            clock: Tells the time, with its zone.
        """
        super().__init__(clock=clock)
        self.directory = Path(directory)
        self._files = TaskFiles(self.directory)
        # one thread: operations of this store never meet each other
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="task-files")

    async def _insert(self, task: Task) -> None:
        await self._do(self._files.insert, task)

    async def _load(self, task_id: str) -> Task | None:
        return await self._do(self._files.load, task_id)

    async def _apply(
        self, task_id: str | None, change: Callable[[Task], Task]
    ) -> tuple[Task, Task] | None:
        return await self._do(self._files.change, task_id, change)

    async def _first_pending(self) -> Task | None:
        return await self._do(self._files.first_pending)

    async def _in_state(self, state: TaskState) -> list[Task]:
        return await self._do(self._files.in_state, state)

    async def _do(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: work(*args, **kwargs))
