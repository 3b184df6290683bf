"""/healthz, /readyz and /metrics over HTTP, before anything else runs.

Healthy: the event loop turns and the parts that should run do. Ready: this replica does its duty,
which is to serve when it is active and to wait when it is not. The answers name what is missing.
"""

from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

log = structlog.get_logger(__name__)


class Health:
    """What the probes ask. Each check answers None, or what is wrong in words."""

    def __init__(self) -> None:
        self._alive: dict[str, Callable[[], str | None]] = {}
        self._ready: dict[str, Callable[[], str | None]] = {}

    def alive_if(self, name: str, check: Callable[[], str | None]) -> None:
        """Add a check whose failure a restart would cure."""
        self._alive[name] = check

    def ready_if(self, name: str, check: Callable[[], str | None]) -> None:
        """Add a check whose failure will pass by itself."""
        self._ready[name] = check

    def alive(self) -> list[str]:
        """What is wrong beyond repair."""
        return _wrong(self._alive)

    def ready(self) -> list[str]:
        """What is wrong at the moment."""
        return _wrong(self._alive) + _wrong(self._ready)


class HealthServer:
    """The HTTP servers of probes and metrics.

    Args:
        health: The checks.
        registry: The metrics.
        health_port: Port of the probes; 0 picks one.
        metrics_port: Port of the metrics; 0 picks one.
    """

    def __init__(
        self, health: Health, registry: CollectorRegistry, health_port: int, metrics_port: int
    ) -> None:
        self._health = health
        self._registry = registry
        self._wanted = (health_port, metrics_port)
        self._runners: list[web.AppRunner] = []
        self.health_port = 0
        self.metrics_port = 0

    async def __aenter__(self) -> "HealthServer":
        probes = web.Application()
        probes.router.add_get("/healthz", self._answer(self._health.alive))
        probes.router.add_get("/readyz", self._answer(self._health.ready))
        metrics = web.Application()
        metrics.router.add_get("/metrics", self._metrics)
        self.health_port = await self._serve(probes, self._wanted[0])
        self.metrics_port = await self._serve(metrics, self._wanted[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        for runner in self._runners:
            await runner.cleanup()

    async def _serve(self, application: web.Application, port: int) -> int:
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._runners.append(runner)
        # On every address, because the kubelet asks from outside; a free port on one of them only.
        site = web.TCPSite(runner, None if port else "127.0.0.1", port)
        await site.start()
        bound: int = runner.addresses[0][1]
        return bound

    @staticmethod
    def _answer(
        check: Callable[[], list[str]],
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handler(_: web.Request) -> web.StreamResponse:
            wrong = check()
            return web.Response(text="\n".join(wrong) or "ok", status=503 if wrong else 200)

        return handler

    async def _metrics(self, _: web.Request) -> web.Response:
        body = generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _wrong(checks: dict[str, Callable[[], str | None]]) -> list[str]:
    answers = ((name, check()) for name, check in checks.items())
    return [f"{name}: {answer}" for name, answer in answers if answer is not None]
