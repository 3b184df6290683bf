"""What the metrics of tasks count."""

from prometheus_client import CollectorRegistry
from support.observed import observed

from orbiter_operator.tasks.metrics import TaskMetrics
from orbiter_operator.tasks.models import TaskStatus


def test_a_tenant_that_invents_reasons_makes_no_time_series_without_end() -> None:
    registry = CollectorRegistry()
    metrics = TaskMetrics(registry)
    for number in range(1000):
        metrics.changed(observed(), TaskStatus(phase="Failed", reason=f"Invented{number}"))
    (family,) = (found for found in registry.collect() if "finished" in found.name)
    totals = {
        sample.labels["reason"]: sample.value
        for sample in family.samples
        if sample.name == "orbiter_tasks_finished_total"
    }
    assert len(totals) == 101
    assert totals["Other"] == 900
    assert sum(totals.values()) == 1000
