"""What notifications are made of, for the courier that runs them."""

import time
from contextlib import AsyncExitStack

from redis.asyncio import Redis

from orbiter_contracts.queues import BARE
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.leader_election import Leader
from orbiter_operator.runtime.health import Health
from orbiter_operator.runtime.metrics import Metrics, counter
from orbiter_triggers.courier.notify.notifier import Notifier
from orbiter_triggers.courier.notify.outbox import Outbox
from orbiter_triggers.courier.notify.sender import Sender, guarded_session
from orbiter_triggers.courier.notify.settings import NotifySettings

_GAUGES = {
    "orbiter_notifications_waiting": "Notifications that are still to be told",
    "orbiter_notifications_oldest_seconds": "For how long the one has waited that waits longest",
}


class Notifications:
    """All of it; its session is open within `async with`.

    Args:
        settings: What the environment says.
        kube: The API client.
        redis: A client for short commands.
        leader: This replica's hold on the Lease.
        metrics: Where everything is counted.
        health: Where it says how it is.
    """

    def __init__(
        self,
        settings: NotifySettings,
        kube: Kube,
        redis: Redis,
        leader: Leader,
        metrics: Metrics,
        health: Health,
    ) -> None:
        self._settings, self._kube, self._redis, self._leader = settings, kube, redis, leader
        self._count = counter(
            metrics.registry,
            "orbiter_notifications_total",
            "Tries to tell a receiver, by what has become of them",
            "outcome",
        )
        self._dead = metrics.dead_letter
        self._open = AsyncExitStack()
        self._notifier: Notifier | None = None
        health.ready_if("notifications", self._problem)
        metrics.gauges(_GAUGES, self._gauges)

    async def __aenter__(self) -> "Notifications":
        settings = self._settings
        session = guarded_session(settings.notify_private_networks)
        await self._open.enter_async_context(session)
        waiting = BARE.notifications_waiting(settings.lease_namespace, settings.lease_name)
        self._notifier = Notifier(
            kube=self._kube,
            outbox=Outbox(self._redis, waiting, self._dead),
            sender=Sender(
                kube=self._kube,
                session=session,
                clock=time.time,
                allow_http=settings.notify_allow_http,
            ),
            namespaces=settings.watch_namespaces,
            identity=settings.identity,
            allowed=self._leader.check,
            count=lambda outcome: self._count.labels(outcome).inc(),
            base=settings.notify_source,
            resync_seconds=settings.resync_seconds,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._notifier = None
        await self._open.aclose()

    async def run(self) -> None:
        """Tell until cancelled."""
        if self._notifier is None:
            raise RuntimeError("Notifications are run outside of their `async with` block")
        await self._notifier.run()

    def _problem(self) -> str | None:
        return self._notifier.problem() if self._notifier else None

    def _gauges(self) -> dict[str, float]:
        return self._notifier.gauges() if self._notifier else dict.fromkeys(_GAUGES, 0.0)
