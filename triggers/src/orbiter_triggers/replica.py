"""The life of a replica, of which one is active: signals, exit codes, health, the Lease."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from orbiter_triggers.command import EXIT_FAILED, EXIT_USAGE, say
from orbiter_triggers.settings import ReplicaSettings

if TYPE_CHECKING:
    from orbiter_operator.kube.client import Kube
    from orbiter_operator.kube.leader_election import Leader
    from orbiter_operator.runtime.health import Health
    from orbiter_operator.runtime.metrics import Metrics

    Lead = Callable[[Kube, Leader, Metrics, Health], Awaitable[None]]


async def run_replica(name: str, settings: ReplicaSettings, lead: "Lead", *, logger: str) -> int:
    """Run a replica until it is told to stop or another one takes over; returns its exit code.

    Args:
        name: How the program is called.
        settings: What its environment says.
        lead: What it does once it is the active one, with the API client, its hold on the Lease,
            where everything is counted, and where the parts say how they are.
        logger: Whose lines its log has.
    """
    import kopf
    import structlog

    from orbiter_operator.kube.leader_election import LeaseLostError
    from orbiter_operator.runtime.logs import configure_logs

    configure_logs(settings.log_level, as_json=not sys.stderr.isatty())
    log = structlog.get_logger(logger)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await _serve(settings, lead, stop, logger)
    except LeaseLostError as error:
        log.error("leaving", reason=str(error))
        return EXIT_FAILED
    except kopf.LoginError as error:
        say(name, str(error))
        return EXIT_USAGE
    except Exception:
        log.exception("a part has failed; the process ends to start afresh")
        return EXIT_FAILED
    log.info("stopped")
    return 0


async def _serve(settings: ReplicaSettings, lead: "Lead", stop: asyncio.Event, logger: str) -> None:
    import time

    import structlog

    from orbiter_operator.kube.client import Kube
    from orbiter_operator.kube.connection import Credentials, load_connection
    from orbiter_operator.kube.leader_election import Leader
    from orbiter_operator.runtime.health import Health, HealthServer
    from orbiter_operator.runtime.metrics import Metrics
    from orbiter_operator.runtime.supervisor import end

    log = structlog.get_logger(logger)
    metrics, health = Metrics(), Health()
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

        async def active() -> None:
            await leader.acquire()
            await lead(kube, leader, metrics, health)

        work = asyncio.create_task(active(), name="replica")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        held = leader.leading
        await end((work, stopping))
        if held:
            await leader.release()
        if not work.cancelled():
            work.result()
