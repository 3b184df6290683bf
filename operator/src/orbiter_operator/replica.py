"""From settings to a running process: health first, then the Lease, then the operator.

Between `main`, which knows about the command line and signals, and `app`, which does the work.
"""

import asyncio
import time
from collections.abc import Callable

import structlog

from orbiter_operator.app import Operator, OperatorMetrics
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.credentials import Credentials, load_connection
from orbiter_operator.kube.leader_election import Leader
from orbiter_operator.runtime.health import Health, HealthServer
from orbiter_operator.runtime.supervisor import end
from orbiter_operator.settings import Settings
from orbiter_operator.streams.client import blocking_client, redis_client

log = structlog.get_logger(__name__)


async def run(
    settings: Settings, stop: asyncio.Event, take_signals: Callable[[], None] = lambda: None
) -> None:
    """Run a replica until `stop` is set or another replica takes over.

    Args:
        settings: What the environment says.
        stop: Set when the process should leave.
        take_signals: Sets the process's signal handlers; called again when kopf has set its own.

    Raises:
        LeaseLostError: Another replica is the active one now.
        kopf.LoginError: There is no way to the API server.
    """
    metrics, health = OperatorMetrics(), Health()
    servers = HealthServer(health, metrics.registry, settings.health_port, settings.metrics_port)
    async with servers, Kube(Credentials(load_connection), count=metrics.request) as kube:
        log.info("serving", health_port=servers.health_port, metrics_port=servers.metrics_port)
        leader = Leader(
            kube,
            namespace=settings.lease_namespace,
            name=settings.lease_name,
            identity=settings.identity,
            duration=settings.lease_duration_seconds,
            renew=settings.lease_renew_seconds,
            clock=time.monotonic,
        )
        work = asyncio.create_task(
            _lead(settings, kube, leader, metrics, health, take_signals), name="replica"
        )
        stopping = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        held = leader.leading
        await end((work, stopping))
        if held:
            await leader.release()
        if not work.cancelled():
            work.result()


async def _lead(
    settings: Settings,
    kube: Kube,
    leader: Leader,
    metrics: OperatorMetrics,
    health: Health,
    take_signals: Callable[[], None],
) -> None:
    await leader.acquire()
    redis = redis_client(settings.redis_url)
    reader = blocking_client(settings.redis_url)
    try:
        operator = Operator(
            settings=settings,
            kube=kube,
            redis=redis,
            reader=reader,
            leader=leader,
            metrics=metrics,
            health=health,
        )
        await operator.run(take_signals)
    finally:
        await redis.aclose()
        await reader.aclose()
