"""/healthz, /readyz and /metrics over HTTP, before anything else runs.

Healthy: the event loop turns and the parts that should run do. Ready: this replica does its duty,
which is to serve when it is active and to wait when it is not. The answers name what is missing.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from orbiter_operator.runtime.port import Answer, Port


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
        self._registry = registry
        probes = {
            "/healthz": lambda: _answer(health.alive()),
            "/readyz": lambda: _answer(health.ready()),
        }
        self._health = Port("health", probes, health_port)
        self._metrics = Port("metrics", {"/metrics": self._shown}, metrics_port)
        self._open = AsyncExitStack()

    @property
    def health_port(self) -> int:
        """Where the probes are answered."""
        return self._health.number

    @property
    def metrics_port(self) -> int:
        """Where the metrics are."""
        return self._metrics.number

    async def __aenter__(self) -> "HealthServer":
        async with AsyncExitStack() as opened:
            for port in (self._health, self._metrics):
                await opened.enter_async_context(port)
            self._open = opened.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def _shown(self) -> Answer:
        return Answer(generate_latest(self._registry), content_type=CONTENT_TYPE_LATEST)


def _answer(wrong: list[str]) -> Answer:
    status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
    return Answer("\n".join(wrong).encode() or b"ok", status)


def _wrong(checks: dict[str, Callable[[], str | None]]) -> list[str]:
    answers = ((name, check()) for name, check in checks.items())
    return [f"{name}: {answer}" for name, answer in answers if answer is not None]
