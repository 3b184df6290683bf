"""Entry point of the receiver: `python -m orbiter_triggers.receiver`."""

import asyncio
import signal
import sys
from collections.abc import Sequence

from orbiter_triggers.command import run_program
from orbiter_triggers.receiver.settings import ReceiverSettings

_NAME = "orbiter-receiver"


def main(arguments: Sequence[str] | None = None) -> None:
    """Receive until told to stop; exits with 2 when the settings are wrong."""
    run_program(
        _NAME,
        "Takes the events of AgentTriggers in, which are signed,\nand puts them into Redis. Needs "
        "no way to the API server.",
        ReceiverSettings,
        _run,
        arguments,
    )


async def _run(settings: ReceiverSettings) -> int:
    import structlog
    from prometheus_client import CollectorRegistry

    from orbiter_operator.runtime.health import Health, HealthServer
    from orbiter_operator.runtime.logs import configure_logs
    from orbiter_operator.runtime.metrics import counter
    from orbiter_operator.streams.client import redis_client
    from orbiter_triggers.event_stream import EventStream
    from orbiter_triggers.receiver.app import Receiver

    configure_logs(settings.log_level, as_json=not sys.stderr.isatty())
    log = structlog.get_logger("orbiter_triggers.receiver")
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    registry = CollectorRegistry()
    requests = counter(
        registry,
        "orbiter_webhook_requests_total",
        "Requests to hooks, by what has become of them",
        "outcome",
    )
    redis = redis_client(settings.redis_url)
    receiver = Receiver(
        stream=EventStream(redis),
        master_key=settings.webhook_master_key,
        generation=settings.webhook_generation,
        count=lambda outcome: requests.labels(outcome).inc(),
        most=settings.max_connections,
        head_seconds=settings.head_seconds,
        body_seconds=settings.body_seconds,
    )
    servers = HealthServer(Health(), registry, settings.health_port, settings.metrics_port)
    async with servers, receiver.listen(settings.webhook_port) as port:
        log.info(
            "serving",
            port=port,
            health_port=servers.health_port,
            metrics_port=servers.metrics_port,
        )
        await stop.wait()
    await redis.aclose()
    log.info("stopped")
    return 0


if __name__ == "__main__":
    main()
