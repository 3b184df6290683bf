"""What the server counts, for Prometheus. A registry a server: two in a process do not meet."""

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from orbiter.types import Usage

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The counters and gauges of one server."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "orbiter_server_requests_total", "Requests by route, method and status",
            ["route", "method", "status"], registry=registry,
        )  # fmt: skip
        self.runs = Counter(
            "orbiter_server_runs_total", "Runs that ended", ["agent", "status"], registry=registry
        )
        self.tokens = Counter(
            "orbiter_server_tokens_total", "Tokens of model calls", ["agent", "direction"],
            registry=registry,
        )  # fmt: skip
        self.active_runs = Gauge("orbiter_server_active_runs", "Runs that go on", registry=registry)
        self.streams = Gauge(
            "orbiter_server_event_streams", "Open event streams", registry=registry
        )
        self.sockets = Gauge("orbiter_server_sockets", "Open WebSockets", registry=registry)

    def count_tokens(self, agent: str, usage: Usage) -> None:
        """Add what a run took."""
        self.tokens.labels(agent, "input").inc(usage.input_tokens)
        self.tokens.labels(agent, "output").inc(usage.output_tokens)

    def text(self) -> bytes:
        """Return all of it as Prometheus reads it."""
        return generate_latest(self._registry)
