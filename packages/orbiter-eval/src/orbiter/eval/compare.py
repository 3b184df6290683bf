"""Is one agent better than another, or was it luck? Two results on the same cases tell."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from orbiter.eval._internal.statistics import (
    RESAMPLES,
    bootstrap,
    mean,
    sign_flip_p,
)
from orbiter.eval.result import EvalResult
from orbiter.evaluation import Difference, Interval, Verdict
from orbiter.types import OrbiterError


class Comparison(BaseModel):
    """Two results side by side.

    Attributes:
        baseline: Name of the first.
        candidate: Name of the second.
        confidence: Of the intervals and verdicts.
        differences: One a scorer that both have, if there are cases that both have.
        only_baseline: Cases the candidate did not run; they are not compared.
        only_candidate: Cases the baseline did not run.
    """

    model_config = {"frozen": True}

    baseline: str
    candidate: str
    confidence: float
    differences: list[Difference]
    only_baseline: list[str] = []
    only_candidate: list[str] = []

    def of(self, scorer: str) -> Difference:
        """Return the difference in a score.

        Raises:
            OrbiterError: It was not compared.
        """
        for difference in self.differences:
            if difference.name == scorer:
                return difference
        known = ", ".join(difference.name for difference in self.differences) or "none"
        raise OrbiterError(f"'{scorer}' was not compared; scores that both have: {known}")


def compare(
    baseline: EvalResult, candidate: EvalResult, *, confidence: float = 0.95, seed: int = 0
) -> Comparison:
    """Compare two results, case by case.

    Args:
        baseline: What there was.
        candidate: What is to take its place.
        confidence: How sure a verdict has to be.
        seed: Of the resampling; the same seed gives the same numbers.
    """
    first = {result.case_id for result in baseline.results}
    second = {result.case_id for result in candidate.results}
    differences = []
    for name in baseline.info.scorers:
        if name not in candidate.info.scorers:
            continue
        pairs = _pairs(baseline.case_means(name), candidate.case_means(name))
        if pairs:
            differences.append(difference(name, pairs, confidence=confidence, seed=seed))
    return Comparison(
        baseline=baseline.info.name,
        candidate=candidate.info.name,
        confidence=confidence,
        differences=differences,
        only_baseline=sorted(first - second),
        only_candidate=sorted(second - first),
    )


def difference(
    name: str,
    pairs: Mapping[str, tuple[float, float]],
    *,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Difference:
    """Compare the scores of two agents on the same cases.

    Args:
        name: The score's.
        pairs: By case: the baseline's score, the candidate's.
        confidence: How sure a verdict has to be.
        seed: Of the resampling.
        resamples: How many; more make the interval finer.
    """
    moves = {case_id: after - before for case_id, (before, after) in pairs.items()}
    values = list(moves.values())
    interval = bootstrap(values, confidence=confidence, seed=seed, resamples=resamples)
    p = sign_flip_p(values, seed=seed, resamples=resamples)
    return Difference(
        name=name,
        baseline=mean([before for before, _ in pairs.values()]),
        candidate=mean([after for _, after in pairs.values()]),
        difference=mean(values),
        interval=interval,
        p=p,
        cases=len(values),
        improved=[case_id for case_id, move in moves.items() if move > 0],
        regressed=[case_id for case_id, move in moves.items() if move < 0],
        verdict=_verdict(interval, p, confidence),
    )


def _verdict(interval: Interval, p: float, confidence: float) -> Verdict:
    # Resampling three cases that all improved gives an interval without 0, which proves nothing:
    # chance does the same one time in four. So the test has to agree.
    if p > 1 - confidence:
        return "within noise"
    if interval.low > 0:
        return "better"
    return "worse" if interval.high < 0 else "within noise"


def _pairs(
    before: Mapping[str, float], after: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    return {key: (before[key], after[key]) for key in before if key in after}


def comparison_lines(comparison: Comparison) -> Sequence[str]:
    """Return one sentence a score."""
    return [
        f"{d.name}: {d.baseline:.3f} -> {d.candidate:.3f} ({d.difference:+.3f}, "
        f"{comparison.confidence:.0%} interval {d.interval.low:+.3f} to {d.interval.high:+.3f}, "
        f"p = {d.p:.3f}, {d.cases} cases): {d.verdict}"
        for d in comparison.differences
    ]
