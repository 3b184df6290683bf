"""POSessions, reconciled: what wakes each, what a deleted one leaves, and all parts put together.

The loop is in `runtime/reconciler`; what to do about a session, `plan_session` decides. The keys of
a deleted session go once its last pod has ended, whose worker would make them anew. `app` runs
`Sessions` beside the parts of tasks, with a work queue of their own: no burst of tasks keeps a
session from waking.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import Any

import structlog
from redis.asyncio import Redis

from orbiter_contracts import WorkerLifecycleEvent
from orbiter_contracts.queues import BARE, Keys, KeysOf
from orbiter_operator.budgets.store import Budgets
from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.kube.events import EventPoster
from orbiter_operator.kube.informer import Informer, refresh
from orbiter_operator.kube.models import RefusedError
from orbiter_operator.kube.names import SELECTOR, SESSION_UID, Key
from orbiter_operator.kube.resources import DEPLOYMENTS, PO_SESSIONS, PODS
from orbiter_operator.pods.template import PO_KEY, WorkerDefaults
from orbiter_operator.profiles.store import Profiles
from orbiter_operator.runtime.reconciler import WORKERS, Reconciler, WorkQueue
from orbiter_operator.runtime.supervisor import Part, every
from orbiter_operator.sessions import cache
from orbiter_operator.sessions.cache import EVERY_SECONDS, SessionCache, SessionResync, worker_id_of
from orbiter_operator.sessions.charges import TurnCharges
from orbiter_operator.sessions.executor import SessionExecutor
from orbiter_operator.sessions.metrics import SessionMetrics
from orbiter_operator.sessions.migration import Migration, keys_to_wipe
from orbiter_operator.sessions.models import ObservedSession
from orbiter_operator.sessions.observe import SessionObserver
from orbiter_operator.sessions.plan import SessionPlan, plan_session
from orbiter_operator.sessions.refusals import Refusals
from orbiter_operator.sessions.streams import SessionQueues, registry_key
from orbiter_operator.sessions.users import SessionUsers
from orbiter_operator.sessions.wake import Waker
from orbiter_operator.settings import Settings
from orbiter_operator.streams.client import RETRIED
from orbiter_operator.streams.quota import Quotas
from orbiter_operator.streams.tenants import Tenants
from orbiter_operator.streams.users import RedisUsers

log = structlog.get_logger(__name__)
_TIDY_RETRY_SECONDS = 2.0
Object = dict[str, Any]


class SessionReconciler(Reconciler[Key, ObservedSession, SessionPlan]):
    """Brings one session at a time to where it should be.

    Args:
        queue: Where keys come back to.
        store: POSessions, Deployments and Pods.
        observer: Collects what a decision depends on.
        executor: Carries plans out.
        charges: What turns cost the namespaces' budgets.
        waker: Told which sessions to watch for messages.
        metrics: Where what happens is counted.
        keys: Which keys a namespace has.
        kube: The API client, for a session that turns out to be out of date.
        measure: Called with the seconds a pass took and whether it succeeded.
        decide: Decides what to do about a session.
    """

    def __init__(
        self,
        *,
        queue: WorkQueue[Key],
        store: SessionCache,
        observer: SessionObserver,
        executor: SessionExecutor,
        charges: TurnCharges,
        waker: Waker[Key],
        metrics: SessionMetrics,
        keys: KeysOf,
        kube: Kube,
        measure: Callable[[float, bool], None],
        decide: Callable[[ObservedSession], SessionPlan],
    ) -> None:
        super().__init__(queue=queue, retried=RETRIED, measure=measure)
        self._store = store
        self._observer = observer
        self._executor, self._charges = executor, charges
        self._waker = waker
        self._metrics = metrics
        self._keys, self._kube = keys, kube
        self._decide = decide

    async def tidy_up(self, key: Key) -> bool:
        """Delete what deleted sessions of this name have left, once their pods have ended."""
        for obj in self._store.removed(key):
            uid = obj["metadata"]["uid"]
            if self._store.deployments.of(key, uid) or self._store.pods.of(key, uid):
                # The end of the last pod brings the key back; this is for a lost event.
                self._queue.requeue_at(key, time.monotonic() + _TIDY_RETRY_SECONDS)
                self._waker.unwatch(key)
                return False
            own, *others = keys_to_wipe(obj, self._keys(key.namespace))
            record = cache.record_of(obj, own)
            shared = any(other != key for other in self._store.with_worker(worker_id_of(obj)))
            await self._charges.gone(key, uid, record)
            await self._executor.tidy(key, record, others, shared=shared)
            self._observer.forget(key, record.worker_id)
            self._store.tidied(key, uid)
            log.info("session deleted", session=str(key), kept=record.retain or shared)
        return True

    async def observe(
        self, key: Key, learned: dict[str, Any]
    ) -> tuple[Object, ObservedSession] | None:
        """The session as it is now."""
        if self._store.removed(key):
            # Deleted and made anew meanwhile: what the old one has left goes first, or a
            # message to the new one would go with it.
            self._queue.add(key)
            return None
        obj = self._store.get(key)
        if obj is None:
            self._waker.unwatch(key)
            self._metrics.forget(key)
            return None
        return obj, await self._observer.observe(key, obj, **learned)

    def plan(self, observed: ObservedSession) -> SessionPlan:
        """Decide what to do about it."""
        return self._decide(observed)

    async def execute(
        self, key: Key, obj: Object, observed: ObservedSession, decision: SessionPlan
    ) -> bool:
        """Pay for a turn and act, then watch for messages or leave that to the worker."""
        if await self._charges.before(key, observed, decision):
            return True
        await self._executor.run(key, obj, observed, decision)
        if decision.watch == "input" and observed.queue is not None:
            source = observed.keys.po_input(observed.worker_id)
            self._waker.watch(key, source, observed.queue.last_message)
        else:
            self._waker.unwatch(key)
        if decision.requeue:
            self._queue.add(key)
        return await self._charges.after(observed, decision) or decision.reobserve

    async def learn(
        self, key: Key, error: Exception, learned: dict[str, Any]
    ) -> dict[str, Any] | None:
        """A refused Deployment, or a session that somebody else has changed."""
        match error:
            case RefusedError():
                return {"refusal": error.refusal}
            case ApiError(status=404 | 409):
                await refresh(self._kube, PO_SESSIONS, self._store, key)
                return {}
        return None


_PODS = f"{SELECTOR},{SESSION_UID}"


class Sessions:
    """The sessions' side of the active operator.

    Args:
        settings: What the environment says.
        kube: The API client.
        tenants: Told of the sessions' namespaces.
        redis: A client for short commands.
        reader: A client for blocking reads.
        users: The users that the operator makes in Redis.
        events: Posts Kubernetes Events.
        metrics: Where sessions are counted.
        profiles: Which profile each session has.
        budgets: What their turns may cost.
        defaults: What is the same for all workers.
        allowed: Raises unless this replica is the active one.
        measure: Called with the seconds a pass took and whether it succeeded.
        clock: The time.
        quotas: Who may add nothing more in Redis.
        not_served: Why no worker may run in a namespace, if so.
        resync: Seconds between two comparisons of all sessions with their streams.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        kube: Kube,
        tenants: Tenants,
        redis: Redis,
        reader: Redis,
        users: RedisUsers,
        events: EventPoster,
        metrics: SessionMetrics,
        profiles: Profiles,
        budgets: Budgets,
        defaults: WorkerDefaults,
        allowed: Callable[[], None],
        measure: Callable[[float, bool], None],
        clock: Callable[[], datetime],
        quotas: Quotas,
        not_served: Callable[[str], str | None] = lambda namespace: None,
        resync: float = EVERY_SECONDS,
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(time.monotonic, attrgetter("namespace"))
        self._tenants, self._metrics = tenants, metrics
        self.store = SessionCache(tenants.seeing(self.queue.add))
        quotas.subscribe(self.store.touch)
        registry = registry_key(settings.lease_namespace, settings.lease_name)
        queues, migration = SessionQueues(redis, registry), Migration(redis)
        session_users = SessionUsers(users, shared_secret=(defaults.redis_secret, PO_KEY))
        patience = timedelta(seconds=settings.image_pull_timeout_seconds)
        budgets.serve(cache.KIND, self.store.knows, self.queue.add)
        charges = TurnCharges(budgets, queues, Refusals(redis), allowed, clock)
        self.waker: Waker[Key] = Waker(redis=redis, reader=reader, woken=self._message)
        self._observer = SessionObserver(
            store=self.store,
            queues=queues,
            migration=migration,
            users=session_users,
            profiles=profiles,
            defaults=defaults,
            keys=tenants.keys,
            queue_address=settings.redis_address,
            over_quota=quotas.why,
            not_served=not_served,
            budget=charges.told,
        )
        executor = SessionExecutor(
            kube=kube,
            store=self.store,
            queues=queues,
            users=session_users,
            profiles=profiles,
            events=events,
            metrics=metrics,
            defaults=defaults,
            allowed=allowed,
            clock=clock,
        )
        self._reconcile = SessionReconciler(
            queue=self.queue,
            store=self.store,
            observer=self._observer,
            executor=executor,
            charges=charges,
            waker=self.waker,
            metrics=metrics,
            keys=tenants.keys,
            kube=kube,
            measure=measure,
            decide=lambda observed: plan_session(observed, clock(), image_patience=patience),
        )
        self._resync = SessionResync(
            store=self.store,
            queues=queues,
            migration=migration,
            queue=self.queue,
            kube=kube,
            namespaces=settings.watch_namespaces,
            keys=tenants.keys,
            every=resync,
        )
        informer = partial(Informer, kube, namespaces=settings.watch_namespaces)
        deployments = informer(DEPLOYMENTS, self.store.deployments, selector=SELECTOR)
        self.children = (deployments, informer(PODS, self.store.pods, selector=_PODS))
        self.informers = (informer(PO_SESSIONS, self.store), *self.children)

    def parts(self) -> dict[str, Part]:
        """How to start what runs side by side for ever, by name."""
        return {
            "deployments": self.children[0].follow,
            "session pods": self.children[1].follow,
            "waker": self.waker.run,
            "session resync": self._resync.run,
            **every(WORKERS, "session", partial(self.queue.work, self._reconcile)),
        }

    def heard(self, event: WorkerLifecycleEvent, keys: Keys = BARE) -> None:
        """A worker has said something about itself: reconcile its session."""
        for key in self.store.with_worker(event.worker_id):
            if keys not in (self._tenants.keys(key.namespace), self._observer.keys_in_use(key)):
                continue  # nobody speaks for another namespace
            self._observer.hear(event.worker_id, event.event)
            self.queue.add(key)

    def gauges(self) -> dict[str, float]:
        """Figures of the moment."""
        return self._metrics.gauges()

    def _message(self, key: Key, entry: str) -> None:
        self._metrics.message(key, entry)
        self.queue.add(key)
