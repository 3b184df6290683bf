"""Entry point of the courier: `python -m orbiter_triggers.courier`.

Reading order from here: `app` runs the loops that are put together here, each in a file of its own.
"""

import asyncio
import signal
import sys
from collections.abc import Sequence

from orbiter_triggers.command import EXIT_FAILED, EXIT_USAGE, run_program, say
from orbiter_triggers.courier.settings import CourierSettings

_NAME = "orbiter-courier"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the courier; exits with 2 when the settings are wrong, 1 when it had to give up."""
    run_program(
        _NAME,
        "Finds what no webhook has told, and tells GitHub what has become of it.\nNeeds the CRDs, "
        "Redis, a way to the API server and a credential of GitHub's.",
        CourierSettings,
        _run,
        arguments,
    )


async def _run(settings: CourierSettings) -> int:
    import kopf
    import structlog

    from orbiter_operator.kube.leader_election import LeaseLostError
    from orbiter_operator.runtime.logs import configure_logs

    configure_logs(settings.log_level, as_json=not sys.stderr.isatty())
    log = structlog.get_logger("orbiter_triggers.courier")
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await run_replica(settings, stop)
    except LeaseLostError as error:
        log.error("leaving", reason=str(error))
        return EXIT_FAILED
    except kopf.LoginError as error:
        say(_NAME, str(error))
        return EXIT_USAGE
    except Exception:
        log.exception("a part has failed; the process ends to start afresh")
        return EXIT_FAILED
    log.info("stopped")
    return 0


async def run_replica(settings: CourierSettings, stop: asyncio.Event) -> None:
    """Run a replica until `stop` is set or another replica takes over.

    Args:
        settings: What the environment says.
        stop: Set when the process should leave.

    Raises:
        LeaseLostError: Another replica is the active one now.
        kopf.LoginError: There is no way to the API server.
    """
    import time

    import structlog

    from orbiter_operator.kube.client import Kube
    from orbiter_operator.kube.connection import Credentials, load_connection
    from orbiter_operator.kube.leader_election import Leader
    from orbiter_operator.runtime.health import Health, HealthServer
    from orbiter_operator.runtime.metrics import Metrics
    from orbiter_operator.runtime.supervisor import end
    from orbiter_triggers.courier.loops import Loops

    log = structlog.get_logger("orbiter_triggers.courier")
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

        async def lead() -> None:
            await leader.acquire()
            async with Loops(settings, kube, leader, metrics, health) as loops:
                await loops.courier.run()

        work = asyncio.create_task(lead(), name="replica")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        held = leader.leading
        await end((work, stopping))
        if held:
            await leader.release()
        if not work.cancelled():
            work.result()


if __name__ == "__main__":
    main()
