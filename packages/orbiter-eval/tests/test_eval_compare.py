from datetime import UTC, datetime

import pytest

from orbiter.eval import (
    CaseResult,
    EvalResult,
    ExitCode,
    RunInfo,
    Score,
    Threshold,
    check,
    compare,
    comparison_lines,
    difference,
)
from orbiter.eval._internal.statistics import bootstrap, interval_of_mean, sign_flip_p, wilson
from orbiter.types import OrbiterError


def result(values, name="a", scorer="exact"):
    info = RunInfo(
        name=name,
        target="t",
        target_hash="x",
        dataset_hash="y",
        scorers={scorer: "..."},
        cases=len(values),
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    runs = [
        CaseResult(case_id=f"{n:03}", input="?", scores=[Score(name=scorer, value=value)])
        for n, value in enumerate(values)
    ]
    return EvalResult(info=info, results=runs)


def test_a_gain_in_most_cases_is_better():
    comparison = compare(result([0.0] * 20), result([1.0] * 18 + [0.0] * 2, name="b"))
    found = comparison.of("exact")
    assert found.verdict == "better"
    assert found.difference == pytest.approx(0.9)
    assert 0.7 < found.interval.low < 0.9 < found.interval.high <= 1
    assert found.p < 0.001
    assert len(found.improved) == 18
    assert "0.000 -> 0.900 (+0.900" in comparison_lines(comparison)[0]


def test_a_loss_is_worse():
    found = compare(result([1.0] * 20), result([0.2] * 20)).of("exact")
    assert (found.verdict, len(found.regressed)) == ("worse", 20)


@pytest.mark.parametrize("cases", [1, 2, 3, 5])
def test_a_handful_of_cases_proves_nothing_however_well_they_went(cases):
    found = compare(result([0.0] * cases), result([1.0] * cases)).of("exact")
    assert found.difference == 1.0
    assert found.verdict == "within noise"


def test_ups_and_downs_are_noise():
    before, after = [0.0, 1.0] * 10, [1.0, 0.0] * 10
    found = compare(result(before), result(after)).of("exact")
    assert (found.verdict, found.p, found.difference) == ("within noise", 1.0, 0.0)


def test_the_same_seed_gives_the_same_numbers():
    a = result([n % 7 / 7 for n in range(40)])
    b = result([n % 5 / 5 for n in range(40)])
    assert compare(a, b, seed=3) == compare(a, b, seed=3)
    assert compare(a, b, seed=3).of("exact").interval != compare(a, b, seed=4).of("exact").interval


def test_only_cases_that_both_have_are_compared():
    comparison = compare(result([0.0, 0.0, 0.0]), result([1.0, 1.0]))
    assert comparison.of("exact").cases == 2
    assert comparison.only_baseline == ["002"]
    assert comparison.only_candidate == []


def test_a_score_that_only_one_has_is_not_compared():
    comparison = compare(result([0.0]), result([1.0], scorer="judge"))
    assert comparison.differences == []
    with pytest.raises(OrbiterError, match="'exact' was not compared"):
        comparison.of("exact")


def test_more_confidence_asks_for_more_evidence():
    pairs = {str(n): (0.0, 1.0 if n < 7 else -0.0) for n in range(8)}
    assert difference("x", pairs, confidence=0.95).verdict == "better"
    assert difference("x", pairs, confidence=0.999).verdict == "within noise"


def test_the_intervals_are_those_of_the_textbooks():
    assert wilson(10, 10, 0.95) == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert wilson(5, 10, 0.95) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert interval_of_mean([1.0] * 10, confidence=0.95, seed=0).low < 0.75
    assert interval_of_mean([0.5], confidence=0.95, seed=0) is None
    # for the mean of uniform values the interval is near that of the normal distribution
    low, high = bootstrap([n / 99 for n in range(100)], confidence=0.95, seed=0)
    assert (low, high) == pytest.approx((0.443, 0.557), abs=0.01)


def test_the_permutation_test_is_exact_for_few_pairs():
    assert sign_flip_p([1, 1, 1], seed=0) == 0.25
    assert sign_flip_p([1] * 6, seed=0) == pytest.approx(2 / 64)
    assert sign_flip_p([1, 1, 1, -1], seed=0) == pytest.approx(10 / 16)
    assert sign_flip_p([0, 0], seed=0) == 1.0
    # of 15 fair coins ten or more show the same side with this probability
    assert sign_flip_p([0.5] * 10 + [-0.5] * 5, seed=0) == pytest.approx(0.3018, abs=0.03)


def test_many_cases_are_compared_at_once_and_as_the_few_would_be():
    values = [(n * 7 % 5) / 4 - 0.48 for n in range(1_000)]
    many, few = (
        bootstrap(values, confidence=0.95, seed=0),
        bootstrap(values[:-5], confidence=0.95, seed=0),
    )
    assert many == pytest.approx(few, abs=0.003)
    exact = sign_flip_p([0.5] * 520 + [-0.5] * 470, seed=0)
    normal = sign_flip_p([0.5] * 525 + [-0.5] * 475, seed=0)
    assert exact == pytest.approx(normal, abs=0.03)


def test_the_gate_passes_what_reaches_its_thresholds():
    gate = check(result([1.0, 0.5]), ["exact>=0.75", "errors<=0"])
    assert (gate.passed, gate.exit_code) == (True, ExitCode.PASSED)


def test_the_gate_says_what_was_missed():
    gate = check(result([1.0, 0.5]), ["exact >= 0.8"])
    assert gate.exit_code == ExitCode.MISSED == 1
    assert gate.problems == ["exact is 0.750, wanted exact>=0.8"]


def test_the_gate_lets_nothing_pass_that_could_not_be_scored():
    gate = check(result([1.0, None]), ["exact>=0.5"])
    assert gate.problems == ["exact could not be scored in 1 runs"]


def test_the_gate_lets_failed_runs_pass_only_where_that_is_allowed():
    some = result([1.0] * 9 + [0.0])
    last = some.results[-1].model_copy(update={"error": "no key"})
    some = EvalResult(info=some.info, results=[*some.results[:-1], last])
    assert check(some).problems == ["1 of 10 runs failed; errors<=0.05 allows some"]
    assert check(some, ["errors<=0.1"]).passed
    assert check(some, ["errors<=0.05"]).problems == ["errors is 0.100, wanted errors<=0.05"]


def test_the_gate_lets_no_half_of_a_result_pass():
    whole = result([1.0, 1.0])
    half = EvalResult(info=whole.info, results=whole.results[:1])
    assert check(half).problems == ["1 runs have no result yet"]


def test_the_gate_stops_what_got_worse_but_not_what_is_noise():
    good = result([1.0] * 20)
    worse, noisy = result([0.0] * 20), result([1.0] * 19 + [0.0])
    [problem] = check(worse, comparison=compare(good, worse)).problems
    assert "exact is worse than the baseline: 1.000 -> 0.000" in problem
    assert check(noisy, comparison=compare(good, noisy)).passed


@pytest.mark.parametrize("text", ["exact", "exact>0.5", "exact>=", "exact>=1.2.3", ">=1"])
def test_what_is_no_threshold_is_told(text):
    with pytest.raises(OrbiterError, match="is no threshold: write it as"):
        Threshold.parse(text)


def test_a_threshold_for_no_score_is_told():
    with pytest.raises(OrbiterError, match=r"no such score; scores: exact, errors"):
        check(result([1.0]), ["exakt>=0.5"])
