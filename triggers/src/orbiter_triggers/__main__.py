"""Entry point: the command line, the settings, signals and exit codes; then a replica's life.

Reading order from here: `controller/app`, then the way of a trigger: `controller/cache` sees it,
`controller/reconcile` observes, decides (`controller/plan`, `schedule`) and acts (`template`).
"""

import asyncio
import signal
import sys
from collections.abc import Sequence

from orbiter_triggers.command import EXIT_FAILED, EXIT_USAGE, run_program, say
from orbiter_triggers.settings import Settings

_NAME = "orbiter-triggers"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the controller; exits with 2 when the settings are wrong, 1 when it had to give up."""
    run_program(
        _NAME,
        "Makes the AgentTasks of AgentTriggers.\nNeeds the CRDs and a way to the API server: "
        "the pod's\nservice account, or the current context of KUBECONFIG.",
        Settings,
        _run,
        arguments,
    )


async def _run(settings: Settings) -> int:
    import kopf
    import structlog

    from orbiter_operator.kube.leader_election import LeaseLostError
    from orbiter_operator.runtime.logs import configure_logs

    configure_logs(settings.log_level, as_json=not sys.stderr.isatty())
    log = structlog.get_logger("orbiter_triggers")
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


async def run_replica(settings: Settings, stop: asyncio.Event) -> None:
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
    from orbiter_operator.streams.client import blocking_client, redis_client
    from orbiter_triggers.controller.app import Triggers, Webhooks

    log = structlog.get_logger("orbiter_triggers")
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
            webhooks = None
            if settings.redis_url and settings.webhook_master_key:
                webhooks = Webhooks(
                    redis_client(settings.redis_url),
                    blocking_client(settings.redis_url),
                    settings.webhook_master_key,
                    settings.webhook_generation,
                    settings.webhook_url,
                )
            triggers = Triggers(
                namespaces=settings.watch_namespaces,
                resync_seconds=settings.resync_seconds,
                kube=kube,
                leader=leader,
                metrics=metrics,
                health=health,
                webhooks=webhooks,
            )
            await triggers.run()

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
