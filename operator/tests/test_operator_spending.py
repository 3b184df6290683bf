"""What agents cost, in counters that no tenant can make many of."""

from prometheus_client import CollectorRegistry, generate_latest
from support.observed import observed, spec

from orbiter_contracts import AGENTS
from orbiter_contracts.outcome import Result
from orbiter_contracts.usage import TaskUsage
from orbiter_operator.runtime.metrics import MOST_SERIES, OTHER, OUTCOMES, Metrics, Spending
from orbiter_operator.tasks.metrics import TaskMetrics
from orbiter_operator.tasks.models import TaskStatus

USED = TaskUsage(input_tokens=100, output_tokens=10, cost_usd=0.5)
Series = dict[tuple[str, ...], float]


def series(registry: CollectorRegistry, name: str = "orbiter_agent") -> Series:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in registry.collect()
        if family.name.startswith(name)
        for sample in family.samples
    }


def test_200_namespaces_with_1000_hostile_models_make_at_most_5000_series() -> None:
    registry = Metrics().registry
    spending = Spending(registry)
    agents, spent = [*AGENTS, "of another version"], 0
    for number in range(1000):
        for place in range(number % 5, 200, 5):
            spending.spent(
                *(None, USED),
                namespace=f"team-{place}",
                agent=agents[(number + place) % len(agents)],
                model=f"model-{place}-{number}" if number % 3 else "\x00" * number,
                outcome=OUTCOMES[number % len(OUTCOMES)],
            )
            spent += 1
    found = series(registry)
    assert len(found) <= MOST_SERIES
    cost = {labels: value for labels, value in found.items() if labels[0].endswith("usd_total")}
    assert sum(cost.values()) == spent * USED.cost_usd
    assert any(labels[3] == OTHER for labels in cost)
    assert len(generate_latest(registry)) < 1024 * 1024


def test_the_most_series_that_there_can_be_are_within_the_bound() -> None:
    registry = Metrics().registry
    spending = Spending(registry)
    for place in range(2000):
        for number in range(6):
            for outcome in OUTCOMES:
                labels = {"namespace": f"n{place}", "agent": "claude", "outcome": outcome}
                spending.spent(None, USED, model=f"m{number}", **labels)
    assert 4000 < len(series(registry)) <= MOST_SERIES


def test_a_namespace_that_invents_models_takes_no_others_names_away() -> None:
    registry = Metrics().registry
    spending = Spending(registry)
    for number in range(1000):
        spending.spent(
            *(None, USED),
            namespace="mallory",
            agent="codex",
            model=f"m{number}",
            outcome="completed",
        )
    for _ in range(2):
        spending.spent(
            *(None, USED), namespace="alice", agent="claude", model="opus", outcome="failed"
        )
    cost = series(registry, "orbiter_agent_cost")
    name = "orbiter_agent_cost_usd_total"
    assert cost[name, "alice", "claude", "opus", "failed"] == 1.0
    assert cost[name, "mallory", "codex", OTHER, "completed"] == 497.5
    assert len(cost) == 7


def test_a_tasks_attempts_are_counted_once_each_by_how_they_ended() -> None:
    registry = Metrics().registry
    metrics = TaskMetrics(registry, Spending(registry))
    failed, ended = Result(status="failed"), Result(status="success")
    asked = spec(agent={"type": "codex", "model": "o9"})
    first = TaskStatus(phase="Pending", reason="Retrying", result=failed, usage=USED)
    twice = TaskUsage(input_tokens=300, output_tokens=30, cost_usd=2.0)
    last = TaskStatus(phase="Completed", reason="Succeeded", result=ended, usage=twice)
    metrics.changed(observed(spec=asked), first)
    metrics.changed(observed(spec=asked, status=first), last)
    metrics.changed(observed(spec=asked, status=last), last)
    cost = series(registry, "orbiter_agent_cost")
    ways = {labels[-1]: value for labels, value in cost.items()}
    assert ways == {"retried": 0.5, "completed": 1.5}
    assert {labels[1:4] for labels in cost} == {("team", "codex", "o9")}
    tokens = series(registry, "orbiter_agent_tokens")
    assert {labels[-2:]: value for labels, value in tokens.items()} == {
        ("retried", "input"): 100,
        ("retried", "output"): 10,
        ("completed", "input"): 200,
        ("completed", "output"): 20,
    }
