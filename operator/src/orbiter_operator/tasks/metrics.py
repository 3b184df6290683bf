"""What is counted of AgentTasks."""

from prometheus_client import CollectorRegistry

from orbiter_contracts.usage import TaskUsage
from orbiter_operator.runtime.metrics import Spending, counter, histogram
from orbiter_operator.tasks.models import FINAL, TaskStatus
from orbiter_operator.tasks.observed import Observed

_SECONDS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0)
_MOST_REASONS = 100
"""Reasons with a time series of their own. An output's reason is any word that its worker likes."""


def _outcome(status: TaskStatus) -> str:
    """How the attempt ended that was paid for."""
    if status.phase in FINAL:
        return str(status.phase).lower()
    return "asked" if status.phase == "InputRequired" else "retried"


class TaskMetrics:
    """Counters and histograms of tasks.

    Args:
        registry: Where they are registered.
        spending: Counts by namespace, agent and model.
    """

    def __init__(self, registry: CollectorRegistry, spending: Spending | None = None) -> None:
        self._spending = spending
        self._finished = counter(
            registry,
            "orbiter_tasks_finished_total",
            "AgentTasks that reached a final phase",
            "phase",
            "reason",
        )
        self._reasons: set[str] = set()
        self._retries = counter(
            registry, "orbiter_task_retries_total", "Attempts that another one follows", "status"
        )
        self._disruptions = counter(
            registry,
            "orbiter_task_disruptions_total",
            "Workers that the cluster took away",
            "reason",
        )
        self._start = histogram(
            registry, "orbiter_task_start_seconds", "From creation to Running", _SECONDS
        )
        self._duration = histogram(
            registry, "orbiter_task_duration_seconds", "From start to completion", _SECONDS
        )
        self._cost = counter(registry, "orbiter_cost_usd_total", "US dollars that agents reported")
        self._tokens = counter(registry, "orbiter_tokens_total", "Tokens of models", "direction")

    def changed(self, observed: Observed, status: TaskStatus) -> None:
        """A task's status was written."""
        before = observed.status
        if status.disruptions > before.disruptions:
            self._disruptions.labels(self._counted(status.reason or "")).inc()
        if status.phase == "Running" and before.start_time is None and status.start_time:
            waited = (status.start_time - observed.created).total_seconds()
            self._start.observe(max(waited, 0.0))
        if status.result is not None and status.usage is not None:
            self._spent(before, status)
            if self._spending:
                self._spending.spent(
                    *(before.usage, status.usage),
                    namespace=observed.namespace,
                    agent=observed.spec.agent.type,
                    model=observed.spec.agent.model,
                    outcome=_outcome(status),
                )
        if status.reason == "Retrying" and before.reason != "Retrying":
            self._retries.labels(status.result.status if status.result else "").inc()
        if status.phase in FINAL and before.phase != status.phase:
            self._finished.labels(status.phase, self._counted(status.reason or "")).inc()
            if status.duration_ms is not None:
                self._duration.observe(status.duration_ms / 1000)

    def _counted(self, reason: str) -> str:
        if len(self._reasons) < _MOST_REASONS:
            self._reasons.add(reason)
        return reason if reason in self._reasons else "Other"

    def _spent(self, before: TaskStatus, status: TaskStatus) -> None:
        old, new = before.usage or TaskUsage(), status.usage
        if new is None:
            return
        self._cost.inc(max((new.cost_usd or 0.0) - (old.cost_usd or 0.0), 0.0))
        self._tokens.labels("input").inc(max(new.input_tokens - old.input_tokens, 0))
        self._tokens.labels("output").inc(max(new.output_tokens - old.output_tokens, 0))
