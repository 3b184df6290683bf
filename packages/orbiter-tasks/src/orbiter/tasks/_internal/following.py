"""Follows the AgentTasks of a namespace, so that readers need not ask for each look."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from orbiter.tasks._internal.agent_tasks import Object, read
from orbiter.tasks.models import Task
from orbiter.tasks.state import TaskError

if TYPE_CHECKING:
    from orbiter.tasks._internal.kube_api import AgentTaskApi

logger = logging.getLogger("orbiter.tasks")
_PAUSE_SECONDS = 1.0


class Following:
    """What is known of the tasks: never older than what was read or written here before."""

    def __init__(self, changed: Callable[[Task, int], None]) -> None:
        """Know nothing yet.

        Args:
            changed: Called with a task and the number of its events that were reported before; -1
                when the task is new.
        """
        self._changed = changed
        self._tasks: dict[str, Task] = {}
        self._reported: dict[str, int] = {}
        self._run: asyncio.Task[None] | None = None
        self.wanted = False
        """Whether anybody wants to be told."""

    @property
    def active(self) -> bool:
        """Whether the changes are being followed."""
        return self._run is not None and not self._run.done()

    def known(self, task_id: str) -> Task | None:
        """The task as it is, while the changes are followed."""
        return self._tasks.get(task_id) if self.active else None

    def learn(self, obj: Object, *, tell: bool = True) -> Task:
        """Take note of an object; what is already known of its past is kept as it was reported."""
        task = read(obj)
        if not self.wanted:
            return task
        old = self._tasks.get(task.id)
        if old is not None:
            if old.version >= task.version:
                return old
            if len(old.events) <= len(task.events):
                task.events = [*old.events, *task.events[len(old.events) :]]
        reported = self._reported.get(task.id, -1)
        if self.active:
            self._tasks[task.id] = task
        self._reported[task.id] = len(task.events)
        if tell and (reported < 0 or reported < len(task.events)):
            self._changed(task, reported)
        return task

    def expect(self, task_id: str) -> None:
        """A task is about to be created here: it is news, also if a list has it first."""
        if self.wanted:
            self._reported.setdefault(task_id, -1)

    def start(self, api: "AgentTaskApi") -> None:
        """Follow the changes from now on, if anybody wants to be told."""
        if self.wanted and not self.active:
            self._run = asyncio.get_running_loop().create_task(self._follow(api))

    def stop(self) -> None:
        """Follow them no more."""
        if self._run is not None:
            self._run.cancel()
        self._run = None
        self._tasks.clear()
        self._reported.clear()

    async def _follow(self, api: "AgentTaskApi") -> None:
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list(api)
                async with aclosing(api.watch(version)) as changes:
                    async for change in changes:
                        version = change["object"]["metadata"]["resourceVersion"]
                        self._take(change["type"], change["object"])
            except TaskError as error:
                # A version that is too old, or a server that is away: list again.
                logger.info("the watch of the tasks begins anew: %s", error)
                version = ""
                await asyncio.sleep(_PAUSE_SECONDS)
            except Exception:
                logger.exception("the watch of the tasks broke; it begins anew")
                version = ""
                await asyncio.sleep(_PAUSE_SECONDS)

    def _take(self, kind: str, obj: Object) -> None:
        if kind == "DELETED":
            self._forget(obj["metadata"]["name"])
        elif kind != "BOOKMARK":
            self.learn(obj)

    async def _list(self, api: "AgentTaskApi") -> str:
        items, version = await api.list()
        names = {item["metadata"]["name"] for item in items}
        for name, task in list(self._tasks.items()):
            # What was made since the list was taken may have been answered before it.
            if name not in names and task.version <= int(version):
                self._forget(name)
        for item in items:
            # What was there before anybody asked is no news.
            self.learn(item, tell=item["metadata"]["name"] in self._reported)
        return version

    def _forget(self, name: str) -> None:
        self._tasks.pop(name, None)
        self._reported.pop(name, None)
