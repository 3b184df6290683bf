"""A store somebody else might write: the six methods, no more, and rather careless."""

from orbiter.tasks import TaskError, TaskState, TaskStore
from orbiter.tasks.models import Task, TaskEvent


class SixMethods(TaskStore):
    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}

    async def create(self, task: Task) -> Task:
        if task.id in self.tasks:
            raise TaskError(f"{task.id} is taken")
        self.tasks[task.id] = task
        return task

    async def get(self, task_id: str) -> Task | None:
        return self.tasks.get(task_id)

    async def update_state(
        self,
        task_id: str,
        state: TaskState,
        *,
        result: str | None = None,
        error: str | None = None,
    ) -> Task | None:
        task = self.tasks.get(task_id)
        if task is not None:
            task.state = state
            task.result = result
            task.error = error
        return task

    async def list_by_state(self, state: TaskState) -> list[Task]:
        found = [task for task in self.tasks.values() if task.state is state]
        return sorted(found, key=lambda task: task.created_at)

    async def next_pending(self) -> Task | None:
        return next(iter(await self.list_by_state(TaskState.PENDING)), None)

    async def add_event(self, task_id: str, event: TaskEvent) -> None:
        self.tasks[task_id].events.append(event)
