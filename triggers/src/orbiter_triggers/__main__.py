"""Entry point: the command line, the settings, signals and exit codes; then a replica's life.

Reading order from here: `controller/app`, then the way of a trigger: `controller/cache` sees it,
`controller/reconcile` observes, decides (`controller/plan`, `schedule`) and acts (`template`).
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import PydanticUndefined

from orbiter_triggers.settings import PREFIX, Settings

_EXIT_USAGE = 2
_EXIT_FAILED = 1


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the controller; exits with 2 when the settings are wrong, 1 when it had to give up."""
    parser = argparse.ArgumentParser(
        prog="orbiter-triggers",
        description=(
            "Makes the AgentTasks of AgentTriggers.\nNeeds the CRDs and a way to the API server: "
            "the pod's\nservice account, or the current context of KUBECONFIG."
        ),
        epilog=_settings_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args(arguments)
    try:
        settings = Settings()
    except ValidationError as error:
        # Values are not repeated: they may be secret.
        for item in error.errors(include_url=False, include_input=False):
            name = f"{PREFIX}{str(item['loc'][0]).upper()}"
            _say(f"{name}: {item['msg'].removeprefix('Value error, ')}")
        sys.exit(_EXIT_USAGE)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(_run(settings)))


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
        return _EXIT_FAILED
    except kopf.LoginError as error:
        _say(str(error))
        return _EXIT_USAGE
    except Exception:
        log.exception("a part has failed; the process ends to start afresh")
        return _EXIT_FAILED
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
    from orbiter_triggers.controller.app import Triggers

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
            triggers = Triggers(
                namespaces=settings.watch_namespaces,
                resync_seconds=settings.resync_seconds,
                kube=kube,
                leader=leader,
                metrics=metrics,
                health=health,
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


def _settings_help() -> str:
    lines = ["settings (environment variables, default in brackets):"]
    for name, field in Settings.model_fields.items():
        default = field.default
        if default is PydanticUndefined:
            shown = "computed"
        else:
            shown = ",".join(default) if isinstance(default, tuple) else str(default)
        lines += [f"  {PREFIX}{name.upper()} [{shown}]", f"      {field.description}"]
    return "\n".join(lines)


def _say(text: str) -> None:
    print(f"orbiter-triggers: {text}", file=sys.stderr)  # noqa: T201 - for a person


if __name__ == "__main__":
    main()
