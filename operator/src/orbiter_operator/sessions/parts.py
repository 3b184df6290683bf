"""All parts that serve POSessions, put together. Used by `app`, beside those of tasks.

They have a work queue of their own, so that a burst of tasks does not keep a session from waking.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from redis.asyncio import Redis

from orbiter_contracts import WorkerLifecycleEvent
from orbiter_operator.kube.client import DEPLOYMENTS, PO_SESSIONS, PODS, Kube
from orbiter_operator.kube.events import EventPoster
from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.names import SELECTOR, SESSION_UID, Key
from orbiter_operator.pods.template import PO_KEY, WorkerDefaults
from orbiter_operator.runtime.reconciler import WorkQueue
from orbiter_operator.runtime.supervisor import Part, every
from orbiter_operator.sessions.cache import EVERY_SECONDS, SessionCache, SessionResync
from orbiter_operator.sessions.executor import SessionExecutor
from orbiter_operator.sessions.metrics import SessionMetrics
from orbiter_operator.sessions.observe import SessionObserver
from orbiter_operator.sessions.reconcile import SessionReconciler
from orbiter_operator.sessions.streams import SessionQueues, registry_key
from orbiter_operator.sessions.users import SessionUsers
from orbiter_operator.sessions.wake import Waker
from orbiter_operator.settings import Settings

_WORKERS = 16
_PODS = f"{SELECTOR},{SESSION_UID}"


class Sessions:
    """The sessions' side of the active operator.

    Args:
        settings: What the environment says.
        kube: The API client.
        redis: A client for short commands.
        reader: A client for blocking reads.
        events: Posts Kubernetes Events.
        metrics: Where sessions are counted.
        defaults: What is the same for all workers.
        allowed: Raises unless this replica is the active one.
        measure: Called with the seconds a pass took and whether it succeeded.
        clock: The time.
        resync: Seconds between two comparisons of all sessions with their streams.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        kube: Kube,
        redis: Redis,
        reader: Redis,
        events: EventPoster,
        metrics: SessionMetrics,
        defaults: WorkerDefaults,
        allowed: Callable[[], None],
        measure: Callable[[float, bool], None],
        clock: Callable[[], datetime],
        resync: float = EVERY_SECONDS,
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(time.monotonic)
        self.store = SessionCache(self.queue.add)
        self._metrics = metrics
        registry = registry_key(settings.lease_namespace, settings.lease_name)
        queues = SessionQueues(redis, registry)
        self._users = SessionUsers(
            redis,
            url=settings.redis_url,
            master_key=settings.redis_master_key,
            shared_secret=(defaults.redis_secret, PO_KEY),
        )
        self.waker: Waker[Key] = Waker(redis=redis, reader=reader, woken=self._message)
        self._observer = SessionObserver(
            store=self.store,
            queues=queues,
            users=self._users,
            defaults=defaults,
            queue_address=settings.redis_address,
        )
        executor = SessionExecutor(
            kube=kube,
            store=self.store,
            users=self._users,
            events=events,
            metrics=metrics,
            defaults=defaults,
            allowed=allowed,
            clock=clock,
        )
        self._reconcile = SessionReconciler(
            queue=self.queue,
            store=self.store,
            queues=queues,
            users=self._users,
            observer=self._observer,
            executor=executor,
            waker=self.waker,
            metrics=metrics,
            kube=kube,
            measure=measure,
            image_patience=timedelta(seconds=settings.image_pull_timeout_seconds),
            clock=clock,
        )
        where = settings.watch_namespaces
        self._resync = SessionResync(
            store=self.store,
            queues=queues,
            queue=self.queue,
            kube=kube,
            namespaces=where,
            every=resync,
        )
        self.children = (
            Informer(
                kube, DEPLOYMENTS, self.store.deployments, namespaces=where, selector=SELECTOR
            ),
            Informer(kube, PODS, self.store.pods, namespaces=where, selector=_PODS),
        )
        sessions = Informer(kube, PO_SESSIONS, self.store, namespaces=where)
        self.informers = (sessions, *self.children)

    def parts(self) -> dict[str, Part]:
        """How to start what runs side by side for ever, by name."""
        deployments, pods = self.children
        return {
            "deployments": deployments.follow,
            "session pods": pods.follow,
            "waker": self.waker.run,
            "session resync": self._resync.run,
            **({"session users": self._users.run} if self._users.managed else {}),
            **every(_WORKERS, "session", partial(self.queue.work, self._reconcile)),
        }

    def heard(self, event: WorkerLifecycleEvent) -> None:
        """A worker has said something about itself: reconcile its session."""
        for key in self.store.with_worker(event.worker_id):
            self._observer.hear(event.worker_id, event.event)
            self.queue.add(key)

    def gauges(self) -> dict[str, float]:
        """Figures of the moment."""
        return self._metrics.gauges()

    def _message(self, key: Key, entry: str) -> None:
        self._metrics.message(key, entry)
        self.queue.add(key)
