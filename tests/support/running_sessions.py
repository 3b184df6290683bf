"""The operator's side of sessions inside the test's own process, on a fake API server.

All its parts are the real ones; only kopf, which follows POSessions in the program, is an informer
here. It starts in milliseconds, and a test can look into it. Crashes need the whole program: see
the tests that start it as a process.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import kopf
from redis.asyncio import Redis
from support.fake_api import FakeApi
from support.redis_server import RedisServer

from orbiter_operator.budgets.store import Budgets
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.connection import Credentials
from orbiter_operator.kube.events import EventPoster
from orbiter_operator.metrics import OperatorMetrics
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.profiles.wiring import profiles_of
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.sessions.cache import EVERY_SECONDS
from orbiter_operator.sessions.reconcile import Sessions
from orbiter_operator.settings import Settings
from orbiter_operator.streams.client import blocking_client, redis_client
from orbiter_operator.streams.outputs import Consumer
from orbiter_operator.streams.pending_outputs import PendingOutputs
from orbiter_operator.streams.quota import Quotas
from orbiter_operator.streams.tenants import Tenants, keys_of
from orbiter_operator.streams.users import RedisUsers

DEFAULTS = WorkerDefaults(
    images={"claude": "worker-claude:1"},
    pull_policy="IfNotPresent",
    redis_secret="orbiter-redis",
    service_account="orbiter-worker",
    resources={},
    grace_seconds=60,
    job_ttl_seconds=0,
)


class RunningSessions:
    """What a test may ask of the running parts."""

    def __init__(self, sessions: Sessions, metrics: OperatorMetrics) -> None:
        self.sessions = sessions
        self._metrics = metrics

    def metric(self, name: str, **labels: str) -> float:
        """A metric's value; 0 when it has none yet."""
        return self._metrics.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def running_sessions(
    api: FakeApi,
    server: RedisServer,
    *,
    resync: float = EVERY_SECONDS,
    not_served: Callable[[str], str | None] = lambda namespace: None,
    **settings: Any,
) -> AsyncIterator[RunningSessions]:
    """Run the sessions' parts until the block ends."""
    chosen = Settings(
        lease_namespace="orbiter-system",
        **{"image_pull_timeout_seconds": 300, "redis_url": server.url} | settings,
    )
    metrics = OperatorMetrics()
    tenants = Tenants(keys_of(chosen), chosen.watch_namespaces)
    redis, reader = redis_client(chosen.redis_url), blocking_client(chosen.redis_url)
    users = RedisUsers(
        redis,
        url=chosen.redis_url,
        master_key=chosen.redis_master_key,
        generation=chosen.redis_password_generation,
    )
    quotas = Quotas(redis, users, chosen, metrics.redis_bytes)
    async with Kube(Credentials(lambda: kopf.ConnectionInfo(server=api.url))) as kube:
        profiles, following = profiles_of(kube, DEFAULTS, (), lambda: None, users)
        events = EventPoster(kube, "operator-0")
        budgets = Budgets(kube, events, (), lambda: None, _now)
        sessions = Sessions(
            settings=chosen,
            kube=kube,
            tenants=tenants,
            redis=redis,
            reader=reader,
            users=users,
            events=events,
            metrics=metrics.sessions,
            profiles=profiles,
            budgets=budgets,
            defaults=DEFAULTS._replace(redis_functions=users.managed),
            allowed=lambda: None,
            measure=metrics.reconciled,
            clock=_now,
            quotas=quotas,
            not_served=not_served,
            resync=resync,
        )
        consumer = _consumer(redis, reader, tenants, sessions)
        following = (*following, budgets.informer)
        for informer in (*following, *sessions.informers):
            await informer.compare()
        parts = sessions.parts() | {
            "sessions": sessions.informers[0].follow,
            "consumer": consumer.run,
            "acknowledger": consumer.run_acknowledger,
            "redis users": users.run,
            "redis quotas": quotas.run,
            "budgets": budgets.run,
            **{one.plural: one.follow for one in following},
        }
        tasks = {asyncio.create_task(part(), name=name) for name, part in parts.items()}
        try:
            yield RunningSessions(sessions, metrics)
        finally:
            await end(tasks)
            await _close(redis, reader)


def _consumer(redis: Redis, reader: Redis, tenants: Tenants, sessions: Sessions) -> Consumer:
    return Consumer(
        redis=redis,
        reader=reader,
        tenants=tenants,
        pending=PendingOutputs(),
        enqueue=lambda key: None,
        connected=sessions.queue.retry_now,
        dead=lambda stream: None,
        heard=sessions.heard,
    )


def _now() -> datetime:
    return datetime.now(UTC)


async def _close(*clients: Redis) -> None:
    for client in clients:
        await client.aclose()
