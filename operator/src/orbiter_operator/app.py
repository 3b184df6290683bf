"""The active operator: all parts put together and run side by side.

Everything is listed before anything is decided, and kopf begins last (see `handlers`).
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter

import kopf
from redis.asyncio import Redis

from orbiter_operator.budgets.store import Budgets
from orbiter_operator.handlers import WatchState, run_kopf
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.events import EventPoster
from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.kopf_codec import Followed
from orbiter_operator.kube.leader_election import Leader, LeaseLostError
from orbiter_operator.kube.names import SELECTOR, Key
from orbiter_operator.kube.resources import AGENT_TASKS, JOBS, PO_SESSIONS, PODS
from orbiter_operator.metrics import GAUGES, OperatorMetrics
from orbiter_operator.namespaces.reconcile import Namespaces
from orbiter_operator.namespaces.users import NamespaceUsers
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.profiles.wiring import profiles_of
from orbiter_operator.runtime import supervisor
from orbiter_operator.runtime.health import Health
from orbiter_operator.runtime.reconciler import WORKERS, WorkQueue
from orbiter_operator.runtime.supervisor import UNHURRIED_SECONDS, Part, Supervisor, Throttle, every
from orbiter_operator.sessions.cache import KIND as SESSION
from orbiter_operator.sessions.deployment import records_of
from orbiter_operator.sessions.reconcile import Sessions
from orbiter_operator.settings import Settings
from orbiter_operator.streams.attempts import Attempts
from orbiter_operator.streams.intake import Intake
from orbiter_operator.streams.outputs import Consumer
from orbiter_operator.streams.pending_outputs import PendingOutputs
from orbiter_operator.streams.quota import HARD_LIMIT, Quotas
from orbiter_operator.streams.tenants import Tenants, keys_of
from orbiter_operator.streams.transcripts import Transcripts
from orbiter_operator.streams.users import RedisUsers
from orbiter_operator.tasks.cache import KIND as TASK
from orbiter_operator.tasks.cache import TaskCache
from orbiter_operator.tasks.capacity import Capacity
from orbiter_operator.tasks.charges import Charges, told
from orbiter_operator.tasks.executor import Executor
from orbiter_operator.tasks.job import task_builder
from orbiter_operator.tasks.observe import Observer
from orbiter_operator.tasks.reconcile import TaskReconciler
from orbiter_operator.tasks.resync import TaskResync
from orbiter_operator.tasks.trace import Write, traced

_STUCK_SECONDS, _FATAL = 120.0, (LeaseLostError, kopf.LoginError)
_now = partial(datetime.now, UTC)


class Operator:
    """Everything the active replica runs.

    Args:
        settings: What the environment says.
        kube: The API client.
        redis: A client for short commands.
        reader: A client for blocking reads.
        leader: This replica's hold on the Lease.
        metrics: Where everything is counted.
        health: Where the parts say how they are.
        trace: Takes the spans of tasks; None when nobody wants them.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        kube: Kube,
        redis: Redis,
        reader: Redis,
        leader: Leader,
        metrics: OperatorMetrics,
        health: Health,
        trace: Write | None = None,
    ) -> None:
        self._settings, self._leader, self._metrics = settings, leader, metrics
        self.queue: WorkQueue[Key] = WorkQueue(time.monotonic, attrgetter("namespace"))
        where, pending, attempts = settings.watch_namespaces, PendingOutputs(), Attempts(redis)
        tenants = Tenants(keys_of(settings), where, lambda route: self.store.began_bare(route))
        self.store = TaskCache(tenants.seeing(self.queue.add))
        self.capacity, defaults = Capacity(settings.job_limit), WorkerDefaults.of(settings)
        self.users = RedisUsers.of(redis, settings)
        self._quotas = Quotas(redis, self.users, settings, metrics.redis_bytes)
        self._quotas.subscribe(self.store.touch)
        # Events of Jobs and Pods are many; what is urgent of them the workers tell by the queue.
        throttle, events = Throttle(UNHURRIED_SECONDS), EventPoster(kube, settings.identity)
        profiles, following = profiles_of(kube, defaults, where, leader.check, self.users)
        profiles.subscribe(self.store.wake)
        self._budgets = Budgets(kube, events, where, leader.check, _now)
        self._budgets.serve(TASK, self.store.is_unfinished, self.queue.add)
        self.sessions = Sessions(
            settings=settings,
            kube=kube,
            tenants=tenants,
            redis=redis,
            reader=reader,
            users=self.users,
            events=events,
            metrics=metrics.sessions,
            profiles=profiles,
            budgets=self._budgets,
            defaults=defaults,
            allowed=leader.check,
            measure=self._measured,
            clock=_now,
            quotas=self._quotas,
            not_served=lambda namespace: self._namespaces.why_not_served(namespace),
        )
        self.consumer = Consumer(
            redis=redis,
            reader=reader,
            tenants=tenants,
            pending=pending,
            enqueue=self.queue.add,
            connected=self._connected,
            dead=metrics.dead_letter,
            heard=self.sessions.heard,
        )
        observer = Observer(
            store=self.store,
            pending=pending,
            attempts=attempts,
            capacity=self.capacity,
            kube=kube,
            profiles=profiles,
            budget=partial(told, self._budgets),
            defaults=defaults,
            keys=tenants.keys,
            over_quota=partial(self._quotas.why, least=HARD_LIMIT),
            not_served=lambda namespace: self._namespaces.why_not_served(namespace),
            traced=trace is not None,
        )
        executor = Executor(
            kube=kube,
            attempts=attempts,
            store=self.store,
            pending=pending,
            events=events,
            defaults=defaults,
            allowed=leader.check,
            started=throttle.expect,
            changed=traced(metrics.tasks.changed, trace, _now),
            wrote=observer.wrote,
            clock=_now,
        )
        self._reconcile = TaskReconciler(
            queue=self.queue,
            store=self.store,
            pending=pending,
            capacity=self.capacity,
            observer=observer,
            executor=executor,
            charges=Charges(self._budgets),
            attempts=attempts,
            keys=tenants.keys,
            adopt_namespace=settings.adopt_namespace,
            kube=kube,
            settled=self.consumer.settled,
            measure=self._measured,
            image_patience=timedelta(seconds=settings.image_pull_timeout_seconds),
            queue_address=settings.redis_address,
            clock=_now,
        )
        self._intake = Intake(
            redis=redis,
            reader=reader,
            kube=kube,
            tenants=tenants,
            namespace=settings.adopt_namespace,
            build=task_builder(settings.adopt_agent, settings.adopt_ttl_seconds),
            free_slots=self.capacity.free_slots,
            allowed=leader.check,
            dead=metrics.dead_letter,
        )
        children = partial(Informer, kube, namespaces=where, selector=SELECTOR, throttle=throttle)
        ours = children(JOBS, self.store.jobs), children(PODS, self.store.pods)
        self._followed = (*following, self._budgets.informer, *ours)
        self._namespaces = Namespaces(
            settings=settings,
            kube=kube,
            users=NamespaceUsers(
                self.users,
                keys=tenants.keys,
                records=lambda namespace, keys: records_of(namespace, defaults, keys),
            ),
            workers=(self.store.jobs, self.store.pods, self.sessions.store.pods),
            allowed=leader.check,
            measure=metrics.reconciled,
            changed=self._served_or_not,
        )
        kinds = (Informer(kube, AGENT_TASKS, self.store, namespaces=where), *self._followed)
        self._resync = TaskResync(
            informers=(*kinds, *self.sessions.informers, *self._namespaces.informers),
            store=self.store,
            capacity=self.capacity,
            queue=self.queue,
            redis=redis,
            tenants=tenants,
            pending=pending,
            every=settings.resync_seconds,
            dead=metrics.dead_letter,
        )
        self._watches = WatchState(AGENT_TASKS.plural, PO_SESSIONS.plural)
        self._supervisor, self._last_pass = Supervisor(fatal=_FATAL), time.monotonic()
        health.alive_if("work queue", self._stuck)
        health.ready_if("lists", lambda: self._resync.missing)
        health.ready_if("watches", self._watches_interrupted)
        health.ready_if("redis", self._redis_away)
        health.ready_if("parts", self._supervisor.problem)
        metrics.gauges(GAUGES, self._gauges)

    async def run(self, take_signals: Callable[[], None]) -> None:
        """Run until cancelled.

        Args:
            take_signals: Sets the process's signal handlers again after kopf has set its own.

        Raises:
            LeaseLostError: Another replica is the active one now.
            kopf.LoginError: There is no way to the API server any more.
        """
        await self._resync.list_everything()
        supervisor.tune_gc()
        parts: dict[str, Part] = {
            "lease": self._leader.keep,
            "consumer": self.consumer.run,
            "acknowledger": self.consumer.run_acknowledger,
            **{one.plural: one.follow for one in self._followed},
            **self._resync.parts(),
            "budgets": self._budgets.run,
            "transcripts": Transcripts(self.users.redis, self._settings).run,
            "kopf": partial(self._follow_own_kinds, take_signals),
            **self.sessions.parts(),
            **every(WORKERS, "reconcile", partial(self.queue.work, self._reconcile)),
        }
        if self.users.managed:
            parts |= {"redis users": self.users.run, "redis quotas": self._quotas.run}
            parts |= self._namespaces.parts()
        if self._settings.adopt_namespace or self._settings.key_prefixes:
            parts["intake"] = self._intake.run
        await self._supervisor.run(parts)

    async def _follow_own_kinds(self, take_signals: Callable[[], None]) -> None:
        # Give the other parts a turn first, so that kopf does not take them for its own.
        await asyncio.sleep(0)
        tasks = Followed(AGENT_TASKS, TASK, self.store)
        sessions = Followed(PO_SESSIONS, SESSION, self.sessions.store)
        await run_kopf(
            (tasks, sessions), self._settings.watch_namespaces, take_signals, self._watches
        )

    def _served_or_not(self, namespace: str) -> None:
        self.store.touch(namespace)
        self.sessions.store.touch(namespace)

    def _connected(self) -> None:
        for each in (self.queue, self.sessions.queue, self._namespaces.queue):
            each.retry_now()

    def _measured(self, seconds: float, ok: bool) -> None:
        self._last_pass = time.monotonic()
        self._metrics.reconciled(seconds, ok)

    def _stuck(self) -> str | None:
        if not len(self.queue) and not len(self.sessions.queue):
            self._last_pass = time.monotonic()
        silent = time.monotonic() - self._last_pass
        return f"no pass has ended for {silent:.0f} s" if silent > _STUCK_SECONDS else None

    def _watches_interrupted(self) -> str | None:
        informers = (*self._followed, *self.sessions.children)
        kinds = [one.plural for one in informers if not one.synced] + self._watches.interrupted
        return f"the watch of {', '.join(kinds)} is interrupted" if kinds else None

    def _redis_away(self) -> str | None:
        return (
            None if self.consumer.reachable else f"{self._settings.redis_address} does not answer"
        )

    def _gauges(self) -> dict[str, float]:
        running, waiting = self.capacity.totals()
        return {
            "orbiter_leader": float(self._leader.leading),
            "orbiter_tasks": float(len(self.store)),
            "orbiter_jobs_active": float(running),
            "orbiter_tasks_waiting": float(waiting),
            "orbiter_workqueue_depth": float(len(self.queue) + len(self.sessions.queue)),
            "orbiter_redis_up": float(self.consumer.reachable),
        } | {**self._resync.gauges, **self.sessions.gauges()}
