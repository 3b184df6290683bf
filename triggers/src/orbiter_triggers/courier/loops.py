"""What the courier is made of: its clients, and one loop for each thing that it does.

A loop is a coroutine function that never returns; one more is one more entry of `_loops`.
"""

import time
from contextlib import AsyncExitStack
from operator import attrgetter
from pathlib import Path

from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.leader_election import Leader
from orbiter_operator.kube.names import Key
from orbiter_operator.runtime.health import Health
from orbiter_operator.runtime.metrics import Metrics, counter
from orbiter_operator.runtime.reconciler import WorkQueue
from orbiter_operator.runtime.supervisor import Part
from orbiter_operator.streams.client import redis_client
from orbiter_triggers.courier.app import Courier
from orbiter_triggers.courier.cache import CourierCache
from orbiter_triggers.courier.client import Github
from orbiter_triggers.courier.credentials import GithubCredentials
from orbiter_triggers.courier.notify.wiring import Notifications
from orbiter_triggers.courier.poll import Poll
from orbiter_triggers.courier.records import Records
from orbiter_triggers.courier.settings import CourierSettings
from orbiter_triggers.courier.threads import Threads

_GAUGES = {
    "orbiter_courier_leader": "1 when this replica is the active one",
    "orbiter_courier_requests_remaining": "Requests that GitHub still takes within this hour",
}


class Loops:
    """All of it, from `async with` on.

    Args:
        settings: What the environment says.
        kube: The API client.
        leader: This replica's hold on the Lease.
        metrics: Where everything is counted.
        health: Where the parts say how they are.
    """

    def __init__(
        self,
        settings: CourierSettings,
        kube: Kube,
        leader: Leader,
        metrics: Metrics,
        health: Health,
    ) -> None:
        self._settings = settings
        self._kube = kube
        self._leader = leader
        self._metrics = metrics
        self._open = AsyncExitStack()
        requests = counter(
            metrics.registry,
            "orbiter_courier_requests_total",
            "Requests to GitHub, by what has become of them",
            "outcome",
        )
        credentials = GithubCredentials(Path(settings.github_credentials))
        # Without one it may still tell what becomes of tasks.
        if settings.github_repositories or not settings.notify:
            health.ready_if("credential", credentials.problem)
        self.github = Github(
            settings.github_url,
            credentials,
            private=settings.github_private_networks,
            count=lambda outcome: requests.labels(outcome).inc(),
            write_pause=settings.github_write_seconds,
            ca=settings.github_ca,
            allowed=leader.check,
        )
        self.redis = redis_client(settings.redis_url)
        self.notifications = (
            Notifications(settings, kube, self.redis, leader, metrics, health)
            if settings.notify
            else None
        )
        self._tasks: WorkQueue[Key] = WorkQueue(time.monotonic, attrgetter("namespace"))
        self.cache = CourierCache(self._tasks.add)
        self.courier = Courier(
            namespaces=settings.watch_namespaces,
            resync_seconds=settings.resync_seconds,
            kube=kube,
            leader=leader,
            health=health,
            cache=self.cache,
            loops=self._loops() | self._tells(),
        )
        metrics.gauges(_GAUGES, self._gauges)

    async def __aenter__(self) -> "Loops":
        self._open.push_async_callback(self.redis.aclose)
        await self._open.enter_async_context(self.github)
        if self.notifications is not None:
            await self._open.enter_async_context(self.notifications)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def _loops(self) -> dict[str, Part]:
        found = counter(
            self._metrics.registry,
            "orbiter_courier_poll_total",
            "What polls have found, and what has become of them",
            "outcome",
        )
        poll = Poll(
            cache=self.cache,
            github=self.github,
            redis=self.redis,
            may_see=self._settings.has_repository,
            allowed=self._leader.check,
            count=lambda outcome: found.labels(outcome).inc(),
            interval=self._settings.poll_seconds,
        )
        threads = Threads(
            queue=self._tasks,
            cache=self.cache,
            kube=self._kube,
            github=self.github,
            api=self._settings.github_url,
            records=Records(self.redis),
            may_see=self._settings.has_repository,
            allowed=self._leader.check,
            answers=self._settings.answers,
            link=self._settings.task_url,
        )
        return {"poll": poll.run, "threads": threads.run}

    def _tells(self) -> dict[str, Part]:
        return {"notifications": self.notifications.run} if self.notifications else {}

    def _gauges(self) -> dict[str, float]:
        return {
            "orbiter_courier_leader": float(self._leader.leading),
            "orbiter_courier_requests_remaining": float(self.github.limits.remaining or 0),
        }
