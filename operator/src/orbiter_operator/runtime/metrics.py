"""The process's Prometheus metrics, and how others add theirs. Named in operator/README.md.

A frozen registry of its own, not the global one: tests run many operators in one process.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from orbiter_contracts import AGENTS
from orbiter_contracts.usage import TaskUsage

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_PAUSE_FACTOR: Final = 20
_OLDEST_SECONDS: Final = 5.0
_NO_LABEL: tuple[str, ...] = ()
MOST_SERIES: Final = 5000
OTHER: Final = "other"
DEFAULT: Final = "default"
"""The model of whoever names none: the agent's own choice."""
_MODELS: Final = 5
"""Names of models that one namespace may bring."""
_NAMED: Final = 1000
"""Series with a model's name, of each of the three kinds: cost, tokens in, tokens out."""
_OF_NAMESPACES: Final = 600
"""Series with a namespace's name alone."""
_LONGEST_MODEL: Final = 64
OUTCOMES: Final = ("completed", "failed", "cancelled", "asked", "retried", "answered")
"""How a task's attempt ended; `answered` is a session's turns."""
OPERATOR_GAUGES = {
    "orbiter_leader": "1 when this replica is the active one",
    "orbiter_tasks": "AgentTasks known",
    "orbiter_jobs_active": "AgentTasks with a slot: their Job runs or starts",
    "orbiter_tasks_waiting": "AgentTasks that wait for a slot",
    "orbiter_workqueue_depth": "Keys that wait for a reconcile worker",
    "orbiter_redis_up": "1 when Redis answered last",
    "orbiter_outputs_lag": "Outputs and lifecycle events not yet read",
    "orbiter_redis_memory_bytes": "Memory that Redis uses",
    "orbiter_redis_memory_max_bytes": "Memory beyond which Redis refuses writes",
}


class Metrics:
    """Counters and histograms that the other modules are handed as callbacks."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._requests = counter(
            self.registry,
            "orbiter_api_requests_total",
            "Requests to the API server",
            "verb",
            "resource",
        )
        self._reconciles = histogram(
            self.registry, "orbiter_reconcile_seconds", "One pass over one object", _FAST, "result"
        )
        # Finding a child by its labels costs more than counting.
        self._request_counters: dict[tuple[str, str], Counter] = {}
        self._good_passes = self._reconciles.labels("ok")
        self._bad_passes = self._reconciles.labels("retry")
        self._dead = counter(
            self.registry,
            "orbiter_dead_letters_total",
            "Queue entries nobody could read",
            "stream",
        )
        self._held, self._beyond = (
            Gauge(name, text, ("namespace",), registry=self.registry)
            for name, text in (
                ("orbiter_redis_bytes", "Bytes that a namespace's keys have in Redis"),
                ("orbiter_redis_quotas_exceeded", "How many times its quota that is: 0, 1 or 2"),
            )
        )

    def redis_bytes(self, held: Mapping[str, int], beyond: Mapping[str, int]) -> None:
        """The namespaces' keys were counted."""
        for gauge in (self._held, self._beyond):
            gauge.clear()
        for namespace, size in held.items():
            self._held.labels(namespace).set(size)
            self._beyond.labels(namespace).set(beyond.get(namespace, 0))

    def request(self, verb: str, resource: str) -> None:
        """A request was sent to the API server."""
        labels = (verb, resource)
        counter = self._request_counters.get(labels)
        if counter is None:
            counter = self._request_counters[labels] = self._requests.labels(verb, resource)
        counter.inc()

    def reconciled(self, seconds: float, ok: bool) -> None:
        """A pass over one object took so long."""
        (self._good_passes if ok else self._bad_passes).observe(seconds)

    def dead_letter(self, stream: str) -> None:
        """An entry of this stream could not be read."""
        self._dead.labels(stream).inc()

    def gauges(self, texts: dict[str, str], read: Callable[[], dict[str, float]]) -> None:
        """Add gauges that are read when they are asked for.

        Args:
            texts: What each is, by its full name.
            read: The figures of the moment, by name.
        """
        self.registry.register(_Gauges(texts, read))


class MetricsPage:
    """What Prometheus reads, made anew only after twenty times as long as it took to make.

    Whoever can connect may ask for it. Made for each of them, twenty requests a second would take
    all of the event loop: with a hundred namespaces it is 45 ms of CPU, and grows with them.

    Args:
        registry: What is shown.
        clock: Seconds that only ever grow.
    """

    def __init__(
        self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._text, self._good_until = b"", -math.inf

    def text(self) -> bytes:
        """The page, as it was within the last five seconds."""
        began = self._clock()
        if began >= self._good_until:
            self._text = generate_latest(self._registry)
            ended = self._clock()
            self._good_until = ended + min((ended - began) * _PAUSE_FACTOR, _OLDEST_SECONDS)
        return self._text


class _Gauges(Collector):
    def __init__(self, texts: dict[str, str], read: Callable[[], dict[str, float]]) -> None:
        self._texts = texts
        self._read = read

    def collect(self) -> Iterable[Metric]:
        values = self._read()
        for name, text in self._texts.items():
            if name in values:
                yield GaugeMetricFamily(name, text, value=values[name])

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(name, text) for name, text in self._texts.items()]


def counter(registry: CollectorRegistry, name: str, text: str, *labels: str) -> Counter:
    """A counter of this registry."""
    return Counter(name, text, labels or _NO_LABEL, registry=registry)


def histogram(
    registry: CollectorRegistry, name: str, text: str, buckets: tuple[float, ...], *labels: str
) -> Histogram:
    """A histogram of this registry."""
    return Histogram(name, text, labels or _NO_LABEL, registry=registry, buckets=buckets)


class Spending:
    """Cost and tokens by namespace, agent, model and outcome: few series, whatever tenants make up.

    A model's name is the tenant's own, and namespaces are many. So each namespace has a handful of
    names, and all together a thousand; what is beyond counts under `other`, and no cent is lost.
    There are at most 3 x (1,000 + 600 + 42) series: below `MOST_SERIES`.

    Args:
        registry: Where the counters are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("namespace", "agent", "model", "outcome")
        self._cost = counter(
            registry, "orbiter_agent_cost_usd_total", "US dollars that agents reported", *labels
        )
        self._tokens = counter(
            *(registry, "orbiter_agent_tokens_total", "Tokens of models"), *labels, "direction"
        )
        self._named: set[tuple[str, ...]] = set()
        self._unnamed: set[tuple[str, ...]] = set()
        self._models: dict[str, set[str]] = {}

    def spent(
        self,
        before: TaskUsage | None,
        after: TaskUsage | None,
        *,
        namespace: str,
        agent: str,
        model: str | None,
        outcome: str,
    ) -> None:
        """Count what a usage has grown by.

        Args:
            before: As it was told last.
            after: As it is told now.
            namespace: Of the task or session.
            agent: Its type.
            model: As its spec names it, with its profile; None for the agent's own choice.
            outcome: One of `OUTCOMES`.
        """
        old, new = before or TaskUsage(), after or TaskUsage()
        labels = self._labels(namespace, agent, model or DEFAULT, outcome)
        if cost := max((new.cost_usd or 0.0) - (old.cost_usd or 0.0), 0.0):
            self._cost.labels(*labels).inc(cost)
        for direction, grown in (
            ("input", (new.input_tokens or 0) - (old.input_tokens or 0)),
            ("output", (new.output_tokens or 0) - (old.output_tokens or 0)),
        ):
            if grown > 0:
                self._tokens.labels(*labels, direction).inc(grown)

    def _labels(self, namespace: str, agent: str, model: str, outcome: str) -> tuple[str, ...]:
        kind = agent if agent in AGENTS else OTHER
        if self._known(namespace, model):
            labels = (namespace, kind, model, outcome)
            if _within(self._named, labels, _NAMED):
                return labels
        labels = (namespace, kind, OTHER, outcome)
        if _within(self._unnamed, labels, _OF_NAMESPACES):
            return labels
        return (OTHER, kind, OTHER, outcome)

    def _known(self, namespace: str, model: str) -> bool:
        if model == DEFAULT:
            return True
        if len(model) > _LONGEST_MODEL or not model.isprintable():
            return False
        # No more namespaces are remembered than could have series of their own.
        if namespace not in self._models and len(self._models) >= _NAMED:
            return False
        mine = self._models.setdefault(namespace, set())
        if len(mine) < _MODELS:
            mine.add(model)
        return model in mine


def _within(known: set[tuple[str, ...]], labels: tuple[str, ...], most: int) -> bool:
    """Whether a series is there already, or may be."""
    if labels not in known and len(known) < most:
        known.add(labels)
    return labels in known
