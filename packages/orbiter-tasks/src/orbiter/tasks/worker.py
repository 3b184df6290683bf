"""The Worker: runs one task with its agent and writes down how it ended. It keeps no state."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orbiter.agent import Provider
from orbiter.tasks._internal.adapter import full
from orbiter.tasks._internal.agent_run import question_payload, run_task
from orbiter.tasks._internal.raised import Boundary, reason
from orbiter.tasks.agents import InputRequiredError, TaskAgent, named
from orbiter.tasks.contract import LEASE_SECONDS, FullStore, Guard, TaskStore
from orbiter.tasks.models import EventType, Task, TaskEvent, new_id
from orbiter.tasks.state import TaskState, TransitionError
from orbiter.types import StreamEvent

logger = logging.getLogger("orbiter.tasks")
STORE_TRIES = 5


class Worker:
    """Runs tasks of a store."""

    def __init__(
        self,
        store: TaskStore,
        model: Provider | str | None = None,
        agent_specs: Mapping[str, TaskAgent] | Sequence[TaskAgent] | None = None,
        *,
        listener: Callable[[str, StreamEvent], object] | None = None,
        sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        """Create a worker.

        Args:
            store: Where the tasks are.
            model: A ModelProvider, used for all agents, or "provider:name" for those without one.
            agent_specs: What can run tasks, by the `config_name` they ask for.
            listener: Called with a task's id and each event of its agent's run, as it happens.
            sleep: Waits between the tries to reach a store that fails.
        """
        self._store: FullStore = full(store)
        self._model = model
        self._agents = named(agent_specs or {})
        self._listener = listener
        self._sleep = sleep

    def register_agents(self, agents: Mapping[str, TaskAgent] | Sequence[TaskAgent]) -> None:
        """Add what can run tasks; a known name is replaced.

        Raises:
            TaskError: Something cannot run a task.
        """
        self._agents.update(named(agents))

    async def execute(self, task_id: str) -> None:
        """Run a task to its end, or to a question.

        An agent that raises makes the task FAILED, whatever it raises; KeyboardInterrupt then
        goes its way. Cancelling this coroutine cancels the task.

        Raises:
            TransitionError: The task is already run by somebody, or over.
        """
        owner = new_owner()
        task = await self._store.move(task_id, TaskState.RUNNING, owner=owner)
        if task is None:
            logger.warning("task %s not found: nothing to run", task_id)
            return
        lease = asyncio.create_task(self._keep(task_id, owner))
        try:
            await self.run(task, owner)
        except asyncio.CancelledError:
            await self._settle(task_id, owner, TaskState.CANCELLED)
            raise
        finally:
            lease.cancel()

    async def run(self, task: Task, owner: str) -> None:
        """Run a task that `owner` has claimed and keeps; cancelling leaves it as it is."""

        async def emit(kind: EventType, payload: dict[str, Any]) -> None:
            event = TaskEvent(task_id=task.id, event_type=kind, payload=payload)
            try:
                await self._store.add_event(task.id, event)
            except TransitionError as refused:
                logger.info("event dropped: %s", refused)
            except Exception:
                logger.exception("an event of task %s could not be stored", task.id)

        async def resumed(payload: dict[str, Any]) -> None:
            await self._resumed(task.id, owner, payload)

        boundary = Boundary()
        try:
            result = await run_task(task, self._agents, self._model, emit, self._listener, resumed)
        except InputRequiredError as asked:
            question = TaskEvent(
                task_id=task.id, event_type=EventType.LOG, payload=question_payload(asked)
            )
            await self._settle(task.id, owner, TaskState.INPUT_REQUIRED, events=[question])
        except BaseException as error:
            if not boundary.is_own(error):
                raise
            text = reason(error)
            logger.error("task %s failed: %s", task.id, text, exc_info=error)
            await self._settle(task.id, owner, TaskState.FAILED, error=text)
            if isinstance(error, KeyboardInterrupt):
                # somebody wants the whole program to end
                raise
        else:
            await self._settle(task.id, owner, TaskState.COMPLETED, result=result)

    async def _resumed(self, task_id: str, owner: str, payload: dict[str, Any]) -> None:
        """Write down that what was approved begins; raises where that cannot be known later."""
        event = TaskEvent(task_id=task_id, event_type=EventType.LOG, payload=payload)
        for attempt in range(STORE_TRIES):
            try:
                # whoever was stopped for long would do it beside the worker that has the task now
                if task_id not in await self._store.renew([task_id], owner, LEASE_SECONDS):
                    raise TransitionError(task_id, "another worker has it by now")
                await self._store.add_event(task_id, event)
                return
            except TransitionError:
                raise
            except Exception:
                if attempt == STORE_TRIES - 1:
                    raise
                logger.exception("task %s goes on with an answer, but the store fails", task_id)
                await self._sleep(0.1 * 4**attempt)

    async def _settle(self, task_id: str, owner: str, state: TaskState, **fields: Any) -> None:
        refused_with = ""
        for attempt in range(STORE_TRIES):
            try:
                kept = await self._store.move(task_id, state, guard=Guard(owner=owner), **fields)
                if kept is None:
                    logger.error("task %s is %s, but no longer in the store", task_id, state)
                return
            except TransitionError as refused:
                # cancelled or taken over meanwhile: what we found out no longer counts
                logger.info("outcome %s dropped: %s", state, refused)
                return
            except Exception as error:
                logger.exception("task %s is %s, but the store fails", task_id, state)
                refused_with = reason(error)
                await self._sleep(0.1 * 4**attempt)
        if state in (TaskState.COMPLETED, TaskState.INPUT_REQUIRED):
            # perhaps it is this outcome that the store does not take
            text = f"it was {state}, but the store could not keep that: {refused_with}"
            await self._settle(task_id, owner, TaskState.FAILED, error=text)
            return
        logger.error("task %s is left to whoever finds its lease expired", task_id)

    async def _keep(self, task_id: str, owner: str) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            try:
                await self._store.renew([task_id], owner, LEASE_SECONDS)
            except Exception:
                logger.exception("the lease of task %s could not be renewed", task_id)


def new_owner() -> str:
    """Return a name for whoever runs tasks here, unlike all others."""
    return f"{socket.gethostname()}:{os.getpid()}:{new_id()[:8]}"
