"""Word of tasks that wait for a broker which nobody has entered."""

import logging

from orbiter.tasks._internal.dispatcher import Dispatcher
from orbiter.tasks.contract import TaskStore
from orbiter.tasks.models import Task
from orbiter.tasks.state import TaskState
from orbiter.tasks.store import TaskStoreMemory

logger = logging.getLogger("orbiter.tasks")


class Idle:
    """Says once that nobody runs a task; only of a store in memory that is sure."""

    def __init__(self, store: TaskStore, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._silent = not isinstance(store, TaskStoreMemory)

    def tell(self, task: Task) -> None:
        """Take word of a task that nothing happened to for a while."""
        if task.state is TaskState.PENDING and not (self._silent or self._dispatcher.entered):
            self._silent = True
            logger.warning("task %s is pending: tasks run inside `async with broker:`", task.id)
