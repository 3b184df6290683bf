"""Tasks on a cluster: a Task is an AgentTask, and Orbiter's operator runs it.

Needs `pip install orbiter-tasks[kubernetes]`. A broker over this store takes tasks in, watches and
cancels them and answers their questions; `claim` never gives it one, because the operator runs
them. With `run="here"` it does: the operator leaves those objects alone.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from orbiter.tasks._internal.agent_tasks import (
    is_managed,
    managed_status,
    manifest,
    read,
)
from orbiter.tasks._internal.cluster_runs import answer, cancel
from orbiter.tasks._internal.following import Following
from orbiter.tasks.contract import LEASE_SECONDS, UNGUARDED, Change, Guard
from orbiter.tasks.models import Task, TaskEvent, utc_now
from orbiter.tasks.state import ConflictError, TaskError, TaskState, TransitionError, refusal
from orbiter.tasks.versioned import VersionedStore, snapshot

if TYPE_CHECKING:
    from orbiter.tasks._internal.kube_api import AgentTaskApi

DEFAULT = "default"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NOT_OURS = "the operator runs it and writes its states and events; it can be cancelled or answered"


class KubernetesTaskStore(VersionedStore):
    """Keeps tasks as the AgentTasks of a namespace. Close it in the end."""

    def __init__(
        self,
        namespace: str = "default",
        *,
        specs: Mapping[str, Mapping[str, Any]] | None = None,
        run: Literal["cluster", "here"] = "cluster",
        kubeconfig: str | None = None,
        context: str | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """Name the namespace; nothing is asked of the cluster yet.

        Args:
            namespace: Where the AgentTasks are.
            specs: What a new task's `spec` has beside its prompt (agent, workspace, retry …), by
                the `config_name` of its metadata; `default` is for tasks without one.
            run: Who runs the tasks: `cluster` leaves that to the operator, `here` to brokers.
            kubeconfig: The file; by default what kubectl takes, or what a pod finds.
            context: Its context; by default the current one.
            clock: Tells the time, with its zone.
        """
        super().__init__(clock=clock)
        self.namespace = namespace
        self._specs = dict(specs or {})
        self._here = run == "here"
        self._access = (kubeconfig, context)
        self._connection: AgentTaskApi | None = None
        self._following = Following(self._tell)
        self._listeners = 0

    async def close(self) -> None:
        """Close the connections; the store opens them anew when it is used again."""
        self._following.stop()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def create(self, task: Task) -> Task:
        """Create an AgentTask; see TaskStore.

        Raises:
            TaskError: The id is taken or no name, or the API server refuses the object.
        """
        if not _NAME.fullmatch(task.id):
            raise TaskError(
                f"task id {task.id!r} is no name of an object: take up to 63 of a-z, 0-9 and '-'"
            )
        await self._insert(task)
        return snapshot(task)

    async def claim(self, owner: str, lease: float) -> Task | None:
        """Take the oldest PENDING task; none on a cluster, where the operator has them all."""
        return await super().claim(owner, lease) if self._here else None

    async def renew(self, task_ids: Collection[str], owner: str, lease: float) -> set[str]:
        """Extend leases; see LeasingStore."""
        return await super().renew(task_ids, owner, lease) if self._here else set()

    async def expired(self) -> list[Task]:
        """Return orphans; the operator looks after its own."""
        return await super().expired() if self._here else []

    async def add_event(self, task_id: str, event: TaskEvent) -> None:
        """Append an event; see TaskStore. The operator's tasks take none."""
        if not self._here:
            raise TransitionError(task_id, _NOT_OURS)
        await super().add_event(task_id, event)

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
        """Change the state; see LeasingStore.

        A task that the operator runs can be CANCELLED (`spec.desiredState`; this waits until it
        is) and, with an answer among the events, PENDING again (`spec.input`).
        """
        if self._here:
            return await super().move(
                task_id, state, guard=guard, owner=owner, lease=lease,
                result=result, error=error, events=events,
            )  # fmt: skip
        answers = [event.payload["answer"] for event in events if "answer" in event.payload]
        if state is TaskState.CANCELLED:
            task = await cancel(self._api(), task_id, self._following.learn)
        elif state is TaskState.PENDING and answers:
            task = await answer(self._api(), task_id, str(answers[-1]), self._following.learn)
        elif (task := await self._fresh(task_id)) is not None:
            raise TransitionError(task_id, refusal(task.state, state) or _NOT_OURS)
        return None if task is None else snapshot(task)

    def watch(self, watcher: Callable[[Change], None]) -> Callable[[], None]:
        """Call `watcher` after each change, whoever made it; see WatchableStore."""
        leave = super().watch(watcher)
        self._listeners += 1
        self._following.wanted = True

        def left() -> None:
            leave()
            self._listeners -= 1
            self._following.wanted = self._listeners > 0
            if not self._following.wanted:
                self._following.stop()

        return left

    def _api(self) -> "AgentTaskApi":
        """The connection; the first use of it begins to follow the changes, if somebody watches."""
        if self._connection is None:
            from orbiter.tasks._internal.kube_api import AgentTaskApi

            self._connection = AgentTaskApi(self.namespace, *self._access)
        self._following.start(self._connection)
        return self._connection

    def _spec(self, task: Task) -> Mapping[str, Any]:
        name = str(task.metadata.get("config_name") or DEFAULT)
        if name not in self._specs and name != DEFAULT:
            known = ", ".join(sorted(self._specs)) or "none"
            raise TaskError(f"unknown agent '{name}'; this store has specs for: {known}")
        return self._specs.get(name, {})

    async def _insert(self, task: Task) -> None:
        body = manifest(task, self._spec(task), managed=self._here)
        self._following.expect(task.id)
        made = await self._api().create(body)
        if self._here and (task.events or task.state is not TaskState.PENDING):
            body = {"status": managed_status(task)}
            made = await self._api().patch(task.id, body, status=True) or made
        self._following.learn(made)

    async def _load(self, task_id: str) -> Task | None:
        api = self._api()
        return self._following.known(task_id) or await self._fresh(task_id, api)

    async def _fresh(self, task_id: str, api: "AgentTaskApi | None" = None) -> Task | None:
        if not _NAME.fullmatch(task_id):
            return None
        obj = await (api or self._api()).get(task_id)
        return None if obj is None else self._following.learn(obj)

    async def _first_pending(self) -> Task | None:
        return next(iter(await self._in_state(TaskState.PENDING)), None)

    async def _in_state(self, state: TaskState) -> list[Task]:
        items, _ = await self._api().list()
        tasks = [read(item) for item in items if is_managed(item) is self._here]
        found = [task for task in tasks if task.state is state]
        return sorted(found, key=lambda task: (task.created_at, task.version))

    async def _change(self, task_id: str | None, change: Callable[[Task], Task]) -> Task | None:
        # Watchers are told where objects are learned, so that no change is told twice.
        changed = await self._apply(task_id, change)
        return None if changed is None else snapshot(changed[1])

    def _tell(self, task: Task, told: int) -> None:
        self._watchers.tell(Change(task.id, task.state, task.events[max(told, 0) :]))

    async def _apply(
        self, task_id: str | None, change: Callable[[Task], Task]
    ) -> tuple[Task, Task] | None:
        while True:
            task = await (self._first_pending() if task_id is None else self._fresh(task_id))
            if task is None:
                return None
            new = change(task)
            if new is task:
                return task, task
            version = {"resourceVersion": str(task.version)}
            body = {"metadata": version, "status": managed_status(new)}
            try:
                obj = await self._api().patch(task.id, body, status=True)
            except ConflictError:
                continue
            if obj is None:
                return None
            return task, self._following.learn(obj)
