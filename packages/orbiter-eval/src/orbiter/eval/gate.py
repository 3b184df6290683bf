"""The gate of a pipeline: is a result good enough to go on with?"""

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Literal

from pydantic import BaseModel

from orbiter.eval.compare import Comparison
from orbiter.eval.result import EvalResult
from orbiter.types import OrbiterError

_THRESHOLD = re.compile(r"\s*([^<>=\s]+)\s*(>=|<=)\s*([0-9.]+)\s*")


class ExitCode(IntEnum):
    """How a program that evaluates ends."""

    PASSED = 0
    MISSED = 1
    USAGE = 2


class Threshold(BaseModel):
    """What a mean has to reach.

    Attributes:
        score: A scorer's name, or "errors": the share of runs that failed.
        relation: At least, or at most.
        value: From 0 to 1.
    """

    model_config = {"frozen": True}

    score: str
    relation: Literal[">=", "<="] = ">="
    value: float

    @classmethod
    def parse(cls, text: str) -> "Threshold":
        """Read a text such as "exact>=0.8" or "errors<=0.05".

        Raises:
            OrbiterError: It is no threshold.
        """
        match = _THRESHOLD.fullmatch(text)
        try:
            if match is None:
                raise ValueError
            return cls(score=match[1], relation=match[2], value=float(match[3]))
        except ValueError:
            raise OrbiterError(
                f"'{text}' is no threshold: write it as exact>=0.8 or errors<=0.05"
            ) from None

    def __str__(self) -> str:
        return f"{self.score}{self.relation}{self.value:g}"


class Gate(BaseModel):
    """Whether a result may pass, and why not."""

    model_config = {"frozen": True}

    problems: list[str]

    @property
    def passed(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    @property
    def exit_code(self) -> ExitCode:
        """0 when it passed, else 1."""
        return ExitCode.PASSED if self.passed else ExitCode.MISSED


def check(
    result: EvalResult,
    thresholds: Sequence[Threshold | str] = (),
    *,
    comparison: Comparison | None = None,
) -> Gate:
    """Check a result.

    It passes when it is complete, reaches all thresholds, and is worse than the baseline, beyond
    what noise explains, in no score. A score with a threshold has to be there in every run. No run
    may have failed, unless a threshold for "errors" allows some.

    Args:
        result: What was found.
        thresholds: Such as "exact>=0.8".
        comparison: With the baseline, if there is one.

    Raises:
        OrbiterError: A threshold is for no score of the result.
    """
    problems = []
    if not result.complete:
        missing = result.info.cases * result.info.repeats - len(result.results)
        problems.append(f"{missing} runs have no result yet")
    asked = [Threshold.parse(t) if isinstance(t, str) else t for t in thresholds]
    failed = len(result.errors)
    if failed and not any(threshold.score == "errors" for threshold in asked):
        problems.append(f"{failed} of {len(result.results)} runs failed; errors<=0.05 allows some")
    problems += [problem for t in asked if (problem := _missed(result, t)) is not None]
    problems += [
        f"{found.name} is worse than the baseline: {found.baseline:.3f} -> "
        f"{found.candidate:.3f} (p = {found.p:.3f})"
        for found in (comparison.differences if comparison else ())
        if found.verdict == "worse"
    ]
    return Gate(problems=problems)


def _missed(result: EvalResult, threshold: Threshold) -> str | None:
    value: float | None
    if threshold.score == "errors" and "errors" not in result.info.scorers:
        value = len(result.errors) / max(1, len(result.results))
    elif threshold.score not in result.info.scorers:
        known = ", ".join([*result.info.scorers, "errors"])
        raise OrbiterError(f"threshold '{threshold}': there is no such score; scores: {known}")
    else:
        unscored = sum(r.score(threshold.score) is None for r in result.results)
        if unscored:
            return f"{threshold.score} could not be scored in {unscored} runs"
        value = result.mean(threshold.score)
    if value is None:
        return f"{threshold.score} has no score"
    reached = value >= threshold.value if threshold.relation == ">=" else value <= threshold.value
    return None if reached else f"{threshold.score} is {value:.3f}, wanted {threshold}"
