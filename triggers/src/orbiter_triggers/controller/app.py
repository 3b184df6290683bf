"""The active controller: all parts put together and run side by side.

Everything is listed before anything is decided: a trigger goes by the tasks that it has.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

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
from orbiter_triggers.controller.events import Events
from orbiter_triggers.controller.hooks import Hooks
from orbiter_triggers.controller.received import Received, hooks_in, uid_with_events
from orbiter_triggers.controller.reconcile import TriggerReconciler
from orbiter_triggers.naming import TRIGGER

log = structlog.get_logger(__name__)
# Not the operator's names: an alert goes by whether there is an active operator.
_GAUGES = {
    "orbiter_triggers_leader": "1 when this replica is the active one",
    "orbiter_triggers": "AgentTriggers known",
    "orbiter_triggers_workqueue_depth": "Keys that wait for a reconcile worker",
    "orbiter_triggers_waiting_events": "Events about which nothing is decided yet",
}
_STUCK_SECONDS = 120.0
_RETRY_SECONDS = 1.0


class Webhooks(NamedTuple):
    """How events come in.

    Attributes:
        redis: A client for short commands.
        reader: A client for blocking reads.
        master_key: What the secrets of hooks follow from.
        generation: Of these secrets.
        url: Where the receiver is reached; may be empty.
    """

    redis: Redis
    reader: Redis
    master_key: str
    generation: int = 1
    url: str = ""


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
        webhooks: How events come in; None where none are received.
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
        webhooks: Webhooks | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self._leader, self._metrics = leader, metrics
        self._resync_seconds = resync_seconds
        self.queue: WorkQueue[Key] = WorkQueue(time.monotonic, attrgetter("namespace"))
        self.cache = TriggerCache(self.queue.add)
        self.events: Events | None = None
        self._received: Received | None = None
        if webhooks is not None:
            self.events, self._received = self._receive(webhooks, kube)
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
            received=self._received,
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

    def _receive(self, webhooks: Webhooks, kube: Kube) -> tuple[Events, Received]:
        events = Events(
            redis=webhooks.redis,
            reader=webhooks.reader,
            uid_of=partial(uid_with_events, self.cache),
            arrived=self.queue.add,
            allowed=self._leader.check,
            dead=self._metrics.dead_letter,
        )
        hooks = Hooks(
            kube=kube,
            master_key=webhooks.master_key,
            generation=webhooks.generation,
            url=webhooks.url,
            hooks_of=partial(hooks_in, self.cache),
            allowed=self._leader.check,
        )
        return events, Received(self.cache, events, hooks)

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
        reads: dict[str, Part] = {"events": self.events.run} if self.events else {}
        await self._supervisor.run({**watches, **reads, "resync": self._resync, **workers})

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
            if self._received is not None:
                with suppress(RedisError, OSError):  # next time, then: it is for weeks
                    await self._received.remember()

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
            "orbiter_triggers_waiting_events": float(
                len(self.events.pending if self.events else ())
            ),
        }
