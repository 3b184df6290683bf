"""Entry point: the command line, the settings, signals and exit codes; then a replica's life.

From settings to a running process: health first, then the Lease, then the operator (`app`). What is
heavy is imported once the settings are known to be right.

Reading order from here: `app`, then the way of a task: informers and `streams/outputs` see a
change, `tasks/reconcile` observes, decides (`plan`) and acts (`executor`).
"""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pydantic_core import PydanticUndefined
from pydantic_settings import SettingsError

from orbiter_operator.settings import PREFIX, Settings

if TYPE_CHECKING:
    from orbiter_operator.kube.client import Kube
    from orbiter_operator.kube.leader_election import Leader
    from orbiter_operator.metrics import OperatorMetrics
    from orbiter_operator.runtime.health import Health
    from orbiter_operator.runtime.tracing import Tracing

_EXIT_USAGE = 2
_EXIT_FAILED = 1


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the operator; exits with 2 when the settings are wrong, 1 when it had to give up."""
    parser = argparse.ArgumentParser(
        prog="orbiter-operator",
        description=(
            "Runs AgentTasks: a queue entry and a Job for each attempt, and what comes of it in "
            "the task's status.\nNeeds the CRDs, a Redis or Valkey, and a way to the API server: "
            "the pod's\nservice account, or the current context of KUBECONFIG."
        ),
        epilog=_settings_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args(arguments)
    try:
        settings = Settings()
    except (ValidationError, SettingsError) as error:
        for line in _explain(error):
            print(f"orbiter-operator: {line}", file=sys.stderr)  # noqa: T201 - for a person
        sys.exit(_EXIT_USAGE)
    from orbiter_operator.pods.rules import installation_error
    from orbiter_operator.pods.template import WorkerDefaults

    if problem := installation_error(WorkerDefaults.of(settings)):
        print(f"orbiter-operator: {problem}", file=sys.stderr)  # noqa: T201 - for a person
        sys.exit(_EXIT_USAGE)
    import uvloop

    # Its TLS and streams are compiled: a third less CPU for each request to the API server.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(_run(settings)))


async def _run(settings: Settings) -> int:
    import kopf
    import structlog

    from orbiter_operator.kube.leader_election import LeaseLostError
    from orbiter_operator.runtime.logs import configure_logs

    configure_logs(settings.log_level, as_json=not sys.stderr.isatty())
    log = structlog.get_logger("orbiter_operator")
    stop = asyncio.Event()

    def take_signals() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)

    take_signals()
    try:
        await run_replica(settings, stop, take_signals)
    except LeaseLostError as error:
        log.error("leaving", reason=str(error))
        return _EXIT_FAILED
    except kopf.LoginError as error:
        print(f"orbiter-operator: {error}", file=sys.stderr)  # noqa: T201 - for a person
        return _EXIT_USAGE
    except Exception:
        log.exception("a part of the operator has failed; the process ends to start afresh")
        return _EXIT_FAILED
    log.info("stopped")
    return 0


async def run_replica(
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
    import time

    import structlog

    from orbiter_operator.kube.client import Kube
    from orbiter_operator.kube.connection import Credentials, load_connection
    from orbiter_operator.kube.leader_election import Leader
    from orbiter_operator.metrics import OperatorMetrics
    from orbiter_operator.runtime.health import Health, HealthServer
    from orbiter_operator.runtime.supervisor import end

    log = structlog.get_logger("orbiter_operator")
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
    kube: "Kube",
    leader: "Leader",
    metrics: "OperatorMetrics",
    health: "Health",
    take_signals: Callable[[], None],
) -> None:
    from orbiter_operator.app import Operator
    from orbiter_operator.streams.client import blocking_client, redis_client

    await leader.acquire()
    tracing = _tracing(settings.otlp_endpoint)
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
            trace=tracing.write if tracing else None,
        )
        await operator.run(take_signals)
    finally:
        if tracing:
            await asyncio.to_thread(tracing.close)
        await redis.aclose()
        await reader.aclose()


def _tracing(endpoint: str) -> "Tracing | None":
    if not endpoint:
        return None
    from orbiter_operator.runtime.tracing import Tracing

    return Tracing(endpoint)


def _settings_help() -> str:
    lines = ["settings (environment variables, default in brackets):"]
    for name, field in Settings.model_fields.items():
        default = field.default
        if default is PydanticUndefined:
            shown = (
                "computed"
                if name in ("identity", "lease_namespace")
                else json.dumps(field.get_default(call_default_factory=True))
            )
        else:
            shown = ",".join(default) if isinstance(default, tuple) else str(default)
        lines += [f"  {PREFIX}{name.upper()} [{shown}]", f"      {field.description}"]
    return "\n".join(lines)


def _explain(error: ValidationError | SettingsError) -> list[str]:
    """One line for each setting that is wrong; values are not repeated, they may be secret."""
    if isinstance(error, SettingsError):
        # pydantic-settings names the field in the middle of a sentence, and not the variable.
        field = str(error).partition('field "')[2].partition('"')[0]
        return [f"{PREFIX}{field.upper()}: must be JSON; --help has an example"]
    return [
        f"{PREFIX}{str(item['loc'][0]).upper()}: {item['msg'].removeprefix('Value error, ')}"
        for item in error.errors(include_url=False, include_input=False)
    ]


if __name__ == "__main__":
    main()
