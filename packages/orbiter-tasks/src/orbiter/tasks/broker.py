"""The TaskBroker: takes tasks in, has them run, and lets anybody watch them.

All it knows is in its store. Several brokers, also of several processes, may share a store.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, Literal, Self

from orbiter.agent import Provider
from orbiter.tasks._idle import Idle
from orbiter.tasks._internal.adapter import full
from orbiter.tasks._internal.background import Background
from orbiter.tasks._internal.dispatcher import Dispatcher, Rules
from orbiter.tasks._internal.notifications import Callback, Callbacks, Readers, Signals
from orbiter.tasks._internal.waiting import answer_event
from orbiter.tasks._shown import shown
from orbiter.tasks.agents import TaskAgent
from orbiter.tasks.contract import LEASE_SECONDS, Change, TaskStore
from orbiter.tasks.models import Task, TaskEvent
from orbiter.tasks.state import TERMINAL_STATES, TaskError, TaskState, TransitionError
from orbiter.tasks.store import TaskStoreMemory
from orbiter.tasks.worker import Worker, new_owner
from orbiter.types import StreamEvent

logger = logging.getLogger("orbiter.tasks")


class TaskBroker:
    """Use it as `async with TaskBroker() as broker`: tasks run while you are inside."""

    def __init__(
        self,
        store: TaskStore | None = None,
        poll_interval: float = 0.5,
        model: Provider | str | None = None,
        activity: Callable[[TaskEvent], object] | None = None,
        *,
        agent_specs: Mapping[str, TaskAgent] | Sequence[TaskAgent] | None = None,
        concurrency: int = 16,
        lease_seconds: float = LEASE_SECONDS,
        orphan_retries: int = 0,
        on_exit: Literal["finish", "requeue"] = "finish",
        exit_timeout: float = 10.0,
        listener: Callable[[str, StreamEvent], object] | None = None,
    ) -> None:
        """Create a broker; nothing runs before `async with`.

        Args:
            store: Where the tasks are; None keeps them in memory.
            poll_interval: Seconds between two looks into the store, for changes of other processes.
            model: A ModelProvider, used for all agents, or "provider:name" for those without one.
            activity: Called with each event of a task that this process causes.
            agent_specs: What can run tasks, by the `config_name` they ask for.
            concurrency: Tasks that run at the same time.
            lease_seconds: A task whose process was not heard of for so long is an orphan.
            orphan_retries: How often an orphan is run again, half of whose work may be done.
            on_exit: `finish` lets running tasks end, `requeue` and any exception put them back.
            exit_timeout: Seconds running tasks have to finish before they are re-queued.
            listener: Called with a task's id and each event of its run here; raising fails it.
        """
        self.store: TaskStore = _checked(store)
        self._store = full(self.store)
        self._worker = Worker(self._store, model, agent_specs, listener=listener)
        self._poll_interval = poll_interval
        self._activity = activity
        self._exit_seconds = exit_timeout if on_exit == "finish" else 0.0
        self._callbacks = Callbacks(self._store)
        self._signals = Signals()
        self._dispatcher = Dispatcher(
            self._store,
            self._worker.run,
            new_owner(),
            Rules(poll_interval, concurrency, lease_seconds, orphan_retries),
        )
        idle = Idle(self.store, self._dispatcher).tell
        self._readers = Readers(self._store, self._signals, poll_interval, idle)
        self._background = Background()
        self._observer: asyncio.Task[None] | None = None
        self._unwatch = self._store.watch(self._changed)

    def register_agents(self, agents: Mapping[str, TaskAgent] | Sequence[TaskAgent]) -> None:
        """Add what can run tasks, by name or with one."""
        self._worker.register_agents(agents)

    async def __aenter__(self) -> Self:
        """Begin to run tasks; a TaskError when it was entered already and not left."""
        self._dispatcher.start()
        if self._observer is not None:  # back again: leaving had stopped the watch
            self._unwatch = self._store.watch(self._changed)
        self._observer = asyncio.create_task(self._observe())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop running tasks, as `on_exit` says."""
        try:
            await self._dispatcher.stop(self._exit_seconds if kind is None else 0.0)
            for task_id in self._callbacks.ids():
                await self._callbacks.catch_up(task_id)
        finally:
            self._unwatch()
            if self._observer is not None:
                self._observer.cancel()
            await self._background.settle(self._poll_interval)
            self._dispatcher.left()

    async def submit(self, input: str, **metadata: Any) -> str:
        """Take a task in and return its id.

        Args:
            input: What the agent is asked.
            **metadata: `system_prompt` and `config_name` configure the agent, `messages` (JSON) is
                the conversation before; the rest is yours.
        """
        return (await self._store.create(Task(input=input, metadata=metadata))).id

    async def poll(self, task_id: str) -> Task | None:
        """Return the task as it is now; None when it is unknown."""
        return await self._store.get(task_id)

    async def wait(
        self,
        task_id: str,
        *,
        until: Collection[TaskState] | None = None,
        timeout: float | None = None,
    ) -> Task:
        """Wait until the task is in one of the states, or over.

        Args:
            task_id: The task.
            until: By default the terminal states and INPUT_REQUIRED.
            timeout: Seconds to wait at most; the task goes on.

        Raises:
            TimeoutError: It took longer.
            TaskNotFoundError: The task is unknown.
        """
        states = TERMINAL_STATES | ({TaskState.INPUT_REQUIRED} if until is None else _set(until))
        try:
            async with asyncio.timeout(timeout) as limit:
                task = await self._readers.until(task_id, states)
                await self._callbacks.catch_up(task_id)
                return task
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"task {task_id} took longer than {timeout} s") from None

    def stream(self, task_id: str, *, after: int = 0) -> AsyncIterator[TaskEvent]:
        """Yield the events of the task from its first on, then live, up to its terminal state.

        Args:
            task_id: The task.
            after: The `seq` of the last event already seen.

        Raises:
            TaskNotFoundError: The task is unknown.
        """
        return self._readers.events(task_id, after)

    async def cancel(self, task_id: str) -> Task:
        """Cancel the task and return it; one that is over stays as it is.

        Raises:
            TaskNotFoundError: The task is unknown.
        """
        try:
            await self._store.move(task_id, TaskState.CANCELLED)
        except TransitionError as refused:
            logger.debug("not cancelled: %s", refused)
        task = await self._readers.found(task_id)
        if task.state is TaskState.CANCELLED:
            await self._dispatcher.cancelled(task_id)
        await self._callbacks.catch_up(task_id)
        return task

    async def cancel_all(self) -> list[Task]:
        """Cancel every task of the store that is not over, and return them."""
        tasks: dict[str, Task] = {}
        for state in (TaskState.PENDING, TaskState.INPUT_REQUIRED, TaskState.RUNNING):
            tasks.update((task.id, task) for task in await self._store.list_by_state(state))
        return [await self.cancel(task_id) for task_id in tasks]

    async def answer(
        self, task_id: str, text: str, *, by: str = "", request_id: str | None = None
    ) -> Task:
        """Answer an INPUT_REQUIRED task; a tool that waits takes what `approval.read_reply` reads.

        `request_id` is `task.input_request.id` as who answers (`by`) has seen it; only a question,
        and the first request of a task, take an answer without it.

        Raises:
            TransitionError: The task asks nothing.
            InputAnswerError: It is no answer, or (OtherRequestError) one to something else.
            TaskNotFoundError: The task is unknown.
        """
        task = await self._readers.found(task_id)
        answer = answer_event(task, text, by, request_id)
        return await self._store.move(task_id, TaskState.PENDING, events=[answer]) or task

    async def notify(self, task_id: str, states: Collection[TaskState], callback: Callback) -> None:
        """Call `callback(task)` each time the task comes into one of the states.

        It is called at once if the task is in one of them already. What it raises is logged.
        When `wait` or `cancel` return, the callbacks of what they waited for have run.

        Raises:
            TaskNotFoundError: The task is unknown.
        """
        await self._callbacks.add(task_id, _set(states), callback)

    def _changed(self, change: Change) -> None:
        if change.state is TaskState.PENDING:
            self._dispatcher.ring()
        elif change.state is TaskState.CANCELLED:
            self._dispatcher.cancel(change.task_id)
        self._signals.tell(change.task_id)
        if change.task_id in self._callbacks and self._observer is not None:
            self._background.spawn(self._callbacks.catch_up(change.task_id))
        for event in change.events:
            self._background.call(self._activity, event)

    async def _observe(self) -> None:
        while True:
            await asyncio.sleep(self._poll_interval)  # for transitions made by other processes
            for task_id in self._callbacks.ids():
                self._background.spawn(self._callbacks.catch_up(task_id))


def _set(states: Collection[TaskState]) -> frozenset[TaskState]:
    # a state is a string too, and a string a collection
    return frozenset({states} if isinstance(states, TaskState) else states)


def _checked(store: TaskStore | None) -> TaskStore:
    if store is not None and not isinstance(store, TaskStore):
        raise TaskError(f'store= got {shown(store)}: give TaskStoreSqlite("tasks.db")')
    return store if store is not None else TaskStoreMemory()
