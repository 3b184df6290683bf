"""The active controller: all parts put together and run side by side.

Everything is listed before anything is decided: a trigger goes by the tasks that it has.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter

import structlog

from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.leader_election import Leader, LeaseLostError
from orbiter_operator.kube.names import Key
from orbiter_operator.kube.resources import AGENT_TASKS, AGENT_TRIGGERS
from orbiter_operator.runtime.health import Health
from orbiter_operator.runtime.metrics import Metrics, counter
from orbiter_operator.runtime.reconciler import WORKERS, WorkQueue
from orbiter_operator.runtime.supervisor import Part, Supervisor, every
from orbiter_triggers.controller.cache import TriggerCache
from orbiter_triggers.controller.reconcile import TriggerReconciler
from orbiter_triggers.naming import TRIGGER

log = structlog.get_logger(__name__)
# Not the operator's names: an alert goes by whether there is an active operator.
_GAUGES = {
    "orbiter_triggers_leader": "1 when this replica is the active one",
    "orbiter_triggers": "AgentTriggers known",
    "orbiter_triggers_workqueue_depth": "Keys that wait for a reconcile worker",
}
_STUCK_SECONDS = 120.0
_RETRY_SECONDS = 1.0


def _now() -> datetime:
    return datetime.now(UTC)


class Triggers:
    """Everything the active replica runs.

    Args:
        namespaces: Which namespaces; empty for all.
        resync_seconds: Seconds between two full comparisons with the cluster.
        kube: The API client.
        leader: This replica's hold on the Lease.
        metrics: Where everything is counted.
        health: Where the parts say how they are.
        clock: The time.
    """

    def __init__(
        self,
        *,
        namespaces: Sequence[str],
        resync_seconds: float,
        kube: Kube,
        leader: Leader,
        metrics: Metrics,
        health: Health,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self._leader, self._metrics = leader, metrics
        self._resync_seconds = resync_seconds
        self.queue: WorkQueue[Key] = WorkQueue(time.monotonic, attrgetter("namespace"))
        self.cache = TriggerCache(self.queue.add)
        tasks = counter(
            metrics.registry, "orbiter_trigger_tasks_total", "Tasks made by triggers", "namespace"
        )
        self._reconcile = TriggerReconciler(
            queue=self.queue,
            cache=self.cache,
            kube=kube,
            allowed=leader.check,
            measure=self._measured,
            made=lambda namespace: tasks.labels(namespace).inc(),
            clock=clock,
        )
        self._informers = (
            Informer(kube, AGENT_TASKS, self.cache.tasks, namespaces=namespaces, selector=TRIGGER),
            Informer(kube, AGENT_TRIGGERS, self.cache, namespaces=namespaces),
        )
        self._listed = False
        self._supervisor = Supervisor(fatal=(LeaseLostError,))
        self._last_pass = time.monotonic()
        health.alive_if("work queue", self._stuck)
        health.ready_if("lists", lambda: None if self._listed else "not everything is listed yet")
        health.ready_if("watches", self._interrupted)
        health.ready_if("parts", self._supervisor.problem)
        metrics.gauges(_GAUGES, self._gauges)

    async def run(self) -> None:
        """Run until cancelled.

        Raises:
            LeaseLostError: Another replica is the active one now.
        """
        parts: dict[str, Part] = {"lease": self._leader.keep, "work": self._work}
        await self._supervisor.run(parts)

    async def _work(self) -> None:
        await self._list_everything()
        workers = every(WORKERS, "reconcile", partial(self.queue.work, self._reconcile))
        watches: dict[str, Part] = {one.plural: one.follow for one in self._informers}
        await self._supervisor.run({**watches, "resync": self._resync, **workers})

    async def _list_everything(self) -> None:
        """Have all tasks, then all triggers, through every failure of the API server."""
        while not self._listed:
            try:
                for informer in self._informers:
                    await informer.compare()
            except (ApiError, *TRANSPORT_ERRORS, ValueError) as error:
                log.warning("cannot list", error=repr(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._listed = True

    async def _resync(self) -> None:
        """Make up for lost events: compare, and look at every trigger again."""
        while True:
            await asyncio.sleep(self._resync_seconds)
            for informer in self._informers:
                await informer.compare()
            for key in self.cache:
                self.queue.add(key)

    def _measured(self, seconds: float, ok: bool) -> None:
        self._last_pass = time.monotonic()
        self._metrics.reconciled(seconds, ok)

    def _stuck(self) -> str | None:
        if not len(self.queue):
            self._last_pass = time.monotonic()
        silent = time.monotonic() - self._last_pass
        return f"no pass has ended for {silent:.0f} s" if silent > _STUCK_SECONDS else None

    def _interrupted(self) -> str | None:
        kinds = [one.plural for one in self._informers if not one.synced]
        return f"the watch of {', '.join(kinds)} is interrupted" if kinds else None

    def _gauges(self) -> dict[str, float]:
        return {
            "orbiter_triggers_leader": float(self._leader.leading),
            "orbiter_triggers": float(len(self.cache)),
            "orbiter_triggers_workqueue_depth": float(len(self.queue)),
        }
