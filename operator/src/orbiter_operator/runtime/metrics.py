"""The operator's Prometheus metrics. Names and meanings are listed in operator/README.md.

A frozen registry of its own, not the global one: tests run many operators in one process.
"""

from collections.abc import Callable, Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from orbiter_operator.sessions.metrics import GAUGES as SESSION_GAUGES
from orbiter_operator.sessions.metrics import SessionMetrics
from orbiter_operator.tasks.models import FINAL, TaskStatus
from orbiter_operator.tasks.observed import Observed

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_SLOW = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0)
_NO_LABEL: tuple[str, ...] = ()


class Metrics:
    """Counters and histograms that the other modules are handed as callbacks."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._finished = self._counter(
            "orbiter_tasks_finished_total",
            "AgentTasks that reached a final phase",
            "phase",
            "reason",
        )
        self._retries = self._counter(
            "orbiter_task_retries_total", "Attempts that another one follows", "status"
        )
        self._start = self._histogram(
            "orbiter_task_start_seconds", "From creation to Running", _SLOW
        )
        self._duration = self._histogram(
            "orbiter_task_duration_seconds", "From start to completion", _SLOW
        )
        self._cost = self._counter("orbiter_cost_usd_total", "US dollars that agents reported")
        self._tokens = self._counter("orbiter_tokens_total", "Tokens of models", "direction")
        self._requests = self._counter(
            "orbiter_api_requests_total", "Requests to the API server", "verb", "resource"
        )
        self._reconciles = self._histogram(
            "orbiter_reconcile_seconds", "One pass over one object", _FAST, "result"
        )
        # Finding a child by its labels costs more than counting.
        self._request_counters: dict[tuple[str, str], Counter] = {}
        self._good_passes = self._reconciles.labels("ok")
        self._bad_passes = self._reconciles.labels("retry")
        self._dead = self._counter(
            "orbiter_dead_letters_total", "Queue entries nobody could read", "stream"
        )
        self.sessions = SessionMetrics(self.registry)

    def request(self, verb: str, resource: str) -> None:
        """A request was sent to the API server."""
        place = (verb, resource)
        counter = self._request_counters.get(place)
        if counter is None:
            counter = self._request_counters[place] = self._requests.labels(verb, resource)
        counter.inc()

    def reconciled(self, seconds: float, ok: bool) -> None:
        """A pass over one object took so long."""
        (self._good_passes if ok else self._bad_passes).observe(seconds)

    def dead_letter(self, stream: str) -> None:
        """An entry of this stream could not be read."""
        self._dead.labels(stream).inc()

    def changed(self, observed: Observed, status: TaskStatus) -> None:
        """A task's status was written."""
        before = observed.status
        if status.phase == "Running" and before.phase != "Running" and status.start_time:
            waited = (status.start_time - observed.created).total_seconds()
            self._start.observe(max(waited, 0.0))
        if status.result is not None and status.usage is not None:
            self._spent(before, status)
        if status.reason == "Retrying" and before.reason != "Retrying":
            self._retries.labels(status.result.status if status.result else "").inc()
        if status.phase in FINAL and before.phase != status.phase:
            self._finished.labels(status.phase, status.reason).inc()
            if status.duration_ms is not None:
                self._duration.observe(status.duration_ms / 1000)

    def gauges(self, read: Callable[[], dict[str, float]]) -> None:
        """Add gauges that are read when they are asked for, by full name."""
        self.registry.register(_Gauges(read))

    def _spent(self, before: TaskStatus, status: TaskStatus) -> None:
        old, new = before.usage, status.usage
        if new is None:
            return
        self._cost.inc(max((new.cost_usd or 0.0) - ((old and old.cost_usd) or 0.0), 0.0))
        self._tokens.labels("input").inc(
            max(new.input_tokens - (old.input_tokens if old else 0), 0)
        )
        self._tokens.labels("output").inc(
            max(new.output_tokens - (old.output_tokens if old else 0), 0)
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels or _NO_LABEL, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(name, text, labels or _NO_LABEL, registry=self.registry, buckets=buckets)


GAUGES = {
    "orbiter_leader": "1 when this replica is the active one",
    "orbiter_tasks": "AgentTasks known",
    "orbiter_jobs_active": "AgentTasks with a Job that runs or starts",
    "orbiter_tasks_waiting": "AgentTasks that wait for a place",
    "orbiter_workqueue_depth": "Keys that wait for a reconcile worker",
    "orbiter_redis_up": "1 when Redis answered last",
    "orbiter_outputs_lag": "Outputs and lifecycle events not yet read",
    **SESSION_GAUGES,
}


class _Gauges(Collector):
    def __init__(self, read: Callable[[], dict[str, float]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        values = self._read()
        for name, text in GAUGES.items():
            if name in values:
                yield GaugeMetricFamily(name, text, value=values[name])

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(name, text) for name, text in GAUGES.items()]
