"""Claims tasks and runs them, so many at a time; keeps their leases; finds orphans."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from orbiter.tasks._internal.notifications import Bell
from orbiter.tasks.contract import FullStore, Guard
from orbiter.tasks.models import EventType, Task, TaskEvent
from orbiter.tasks.state import TaskError, TaskState, TransitionError

logger = logging.getLogger("orbiter.tasks")
# how long a run may take to end after it was cancelled
STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Rules:
    """How a dispatcher works; see TaskBroker for what they mean."""

    poll_interval: float
    concurrency: int
    lease: float
    orphan_retries: int


class Dispatcher:
    """What runs the tasks of one broker."""

    def __init__(
        self,
        store: FullStore,
        run: Callable[[Task, str], Coroutine[Any, Any, None]],
        owner: str,
        rules: Rules,
    ) -> None:
        self._store = store
        self._run = run
        self._owner = owner
        self._rules = rules
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._bell = Bell()
        self._leaving = False
        self._entered = False
        # cancelled while they were being claimed: news of it overtook the claim
        self._dropped: set[str] = set()
        self._loops: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to work.

        Raises:
            TaskError: It works already.
        """
        if self._entered:
            raise TaskError(
                "this TaskBroker is entered already: use it as it is, or give a second one the "
                "same store"
            )
        self._entered = True
        self._leaving = False
        self._loops = [
            asyncio.create_task(self._dispatch()),
            asyncio.create_task(self._keep_leases()),
        ]

    def left(self) -> None:
        """Say that everything has ended, and that it may begin again."""
        self._entered = False

    @property
    def entered(self) -> bool:
        """Whether it works, or is about to end."""
        return self._entered

    def ring(self) -> None:
        """Say that there may be a new task."""
        self._bell.ring()

    def cancel(self, task_id: str) -> None:
        """Stop the run of a task, if it is here; the store is left alone."""
        run = self._runs.get(task_id)
        if run is None:
            self._dropped.add(task_id)
        elif run is not asyncio.current_task():
            run.cancel()

    async def cancelled(self, task_id: str) -> bool:
        """Stop the run of a task, wait until it has ended, and say whether it has."""
        run = self._runs.get(task_id)
        if run is None:
            return True
        if run is asyncio.current_task():
            return False
        run.cancel()
        await asyncio.wait({run}, timeout=STOP_SECONDS)
        if not run.done():
            logger.warning("task %s does not stop; what it still does is not stored", task_id)
        return run.done()

    async def stop(self, finish: float) -> None:
        """Claim nothing more, let runs finish for so many seconds, re-queue the rest."""
        self._leaving = True
        self._bell.ring()
        dispatching, leases = self._loops
        try:
            await dispatching
            if self._runs and finish > 0:
                await asyncio.wait(self._runs.values(), timeout=finish)
        finally:
            try:
                await asyncio.gather(*(self._requeue(task_id) for task_id in list(self._runs)))
            finally:
                leases.cancel()
                await asyncio.wait({leases})

    async def _requeue(self, task_id: str) -> None:
        if not await self.cancelled(task_id):
            # somebody may run it again when its lease is over, not while it still runs here
            return
        try:
            await self._store.move(task_id, TaskState.PENDING, guard=Guard(owner=self._owner))
        except TransitionError as refused:
            logger.debug("not re-queued: %s", refused)

    async def _dispatch(self) -> None:
        while not self._leaving:
            try:
                await self._claim_some()
            except TaskError as error:  # the store's own sentence says it all
                logger.error("no task could be claimed: %s; next try in a moment", error)
            except Exception:
                logger.exception("no task could be claimed; next try in a moment")
            await self._bell.heard(self._rules.poll_interval)

    async def _claim_some(self) -> None:
        while len(self._runs) < self._rules.concurrency and not self._leaving:
            self._dropped.clear()
            task = await self._store.claim(self._owner, self._rules.lease)
            if task is None:
                return
            if task.id in self._dropped:
                continue
            if task.id in self._runs:
                # our lease had run out and somebody re-queued the task: one run at a time
                await self.cancelled(task.id)
            run = asyncio.create_task(self._run(task, self._owner))
            self._runs[task.id] = run
            run.add_done_callback(partial(self._ended, task.id))

    def _ended(self, task_id: str, run: asyncio.Task[None]) -> None:
        if self._runs.get(task_id) is run:
            del self._runs[task_id]
        if not run.cancelled() and run.exception() is not None:
            logger.error("the run of task %s broke", task_id, exc_info=run.exception())
        self._bell.ring()

    async def _keep_leases(self) -> None:
        period = min(self._rules.lease / 3, max(self._rules.poll_interval, 0.5))
        while True:
            try:
                await self._renew()
                await self._take_in_orphans()
            except TaskError as error:
                logger.error("leases could not be looked after: %s; next try later", error)
            except Exception:
                logger.exception("leases could not be looked after; next try in %s s", period)
            await asyncio.sleep(period)

    async def _renew(self) -> None:
        ids = set(self._runs)
        held = await self._store.renew(ids, self._owner, self._rules.lease)
        for task_id in ids - held:
            # cancelled, or taken over after a lapse
            self.cancel(task_id)

    async def _take_in_orphans(self) -> None:
        for task in await self._store.expired():
            if task.id in self._runs:
                continue
            times = 1 + sum("orphaned" in event.payload for event in task.events)
            note = TaskEvent(
                task_id=task.id,
                event_type=EventType.LOG,
                payload={"orphaned": times, "owner": task.owner},
            )
            retried = times <= self._rules.orphan_retries
            logger.warning(
                "task %s was left by %s: %s",
                task.id,
                task.owner,
                "re-queued" if retried else "fails",
            )
            try:
                await self._store.move(
                    task.id,
                    TaskState.PENDING if retried else TaskState.FAILED,
                    guard=Guard(owner=task.owner, expired=True),
                    error=None if retried else _lost(task, times),
                    events=[note],
                )
            except TransitionError as refused:
                logger.debug("another broker was first: %s", refused)


def _lost(task: Task, times: int) -> str:
    return (
        f"the process that ran the task ({task.owner or 'unknown'}) is gone, {times} "
        f"time{'s' if times > 1 else ''} by now; submit it again, or allow more orphan_retries"
    )
