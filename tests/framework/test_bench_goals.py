"""The goals of the benchmarks on the cluster: a missed one is said, and is the exit code."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))

import goals  # noqa: E402 - the benchmarks are programs, not a package
from goals import Goal  # noqa: E402

GOALS = {"wake.p50_ms": Goal("<", 30), "burst.ratio": Goal(">=", 0.5), "ours": Goal("<", "bare")}
GOOD: dict[str, Any] = {"wake.p50_ms": 29.9, "burst.ratio": 0.5, "ours": 1, "bare": 2}


def test_figures_that_meet_their_goals_end_well() -> None:
    assert goals.exit_code(GOOD, GOALS) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [("wake.p50_ms", 30), ("burst.ratio", 0.49), ("ours", 2), ("ours", None), ("wake.p50_ms", "?")],
)
def test_a_missed_goal_is_named_and_ends_with_1(
    name: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert goals.exit_code(GOOD | {name: value}, GOALS) == 1
    assert capsys.readouterr().out == f"missed: {name}\n"


def test_what_was_to_be_measured_and_is_not_there_is_missed() -> None:
    rows = {name: value for name, value in GOOD.items() if name != "bare"}
    assert goals.missed(rows, GOALS) == ["ours"]


def test_a_row_says_its_goal_and_that_it_is_missed_and_what_is_known_of_others() -> None:
    lines = goals.told(GOOD | {"burst.ratio": 0.4}, GOALS, {"burst.ratio": "Kelos 0.1"})
    assert lines[0].split() == ["wake.p50_ms", "29.9", "goal", "<", "30"]
    assert lines[1].endswith("0.4  goal >= 0.5; MISSED; Kelos 0.1")
    assert lines[3].split() == ["bare", "2"]


@pytest.mark.parametrize("name", ["bench_operator", "bench_sessions", "bench_tenants"])
def test_a_benchmark_on_the_cluster_ends_with_1_when_its_goals_are_missed(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is measured here: the figures are what its measuring would have returned."""
    bench = importlib.import_module(name)
    rows = {row: goal.bound if goal.sign == ">=" else 0 for row, goal in bench.GOALS.items()}
    rows |= {goal.bound: 1 for goal in bench.GOALS.values() if isinstance(goal.bound, str)}
    out = tmp_path / "figures.json"
    monkeypatch.setattr(sys, "argv", [name, "--out", str(out)])

    async def measure(arguments: Any) -> dict[str, Any]:
        return rows

    monkeypatch.setattr(bench, "measure", measure)
    assert bench.main() == 0
    first = next(iter(bench.GOALS))
    rows[first] = -1 if bench.GOALS[first].sign == ">=" else 1e9
    out.unlink()
    assert bench.main() == 1
    assert out.exists(), "a figure that misses its goal is written down all the same"
