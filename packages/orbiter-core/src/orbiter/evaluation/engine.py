"""The seam between those who need evaluations and the package that makes them.

Training evaluates agents without knowing orbiter-eval, as the run loop calls models without knowing
orbiter-models.
"""

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

from orbiter.agent import Agent
from orbiter.evaluation.case import Case
from orbiter.evaluation.difference import Difference
from orbiter.evaluation.run import CaseResult, Score
from orbiter.protocols import Provider
from orbiter.types import OrbiterError, Usage


class RunScorer(Protocol):
    """What judges a run: an `orbiter.eval.Scorer`, as far as others need to know it."""

    @property
    def name(self) -> str:
        """What its scores are called."""
        ...

    async def score(self, case: Case, result: CaseResult) -> Score:
        """Score a run that ended without an error."""
        ...


class Evaluation(Protocol):
    """All runs of an evaluation; `orbiter.eval.EvalResult` is one."""

    @property
    def results(self) -> Sequence[CaseResult]:
        """The runs, in the order of the cases."""
        ...

    @property
    def usage(self) -> Usage:
        """Tokens of all runs."""
        ...

    def mean(self, scorer: str) -> float | None:
        """Return the mean score over all cases; None when none could be scored."""
        ...


async def evaluate(
    agent: Agent,
    scorers: Sequence[RunScorer],
    cases: Sequence[Case],
    *,
    provider: Provider | None = None,
    repeats: int = 1,
    concurrency: int = 8,
) -> Evaluation:
    """Run an agent on cases and have the runs scored.

    Args:
        agent: What runs.
        scorers: What judges the runs.
        cases: What it is asked.
        provider: A model to use instead of the agent's own.
        repeats: Runs of each case.
        concurrency: Cases that run at the same time.

    Raises:
        OrbiterError: orbiter-eval is not installed, or refuses what it is given.
    """
    evaluator = _package().Evaluator(
        agent, scorers, provider=provider, repeats=repeats, concurrency=concurrency
    )
    found: Evaluation = await evaluator.run(cases)
    return found


def compare(
    baseline: Evaluation, candidate: Evaluation, scorer: str, *, confidence: float, seed: int
) -> Difference:
    """Compare two evaluations of the same cases in one score.

    Args:
        baseline: What there was.
        candidate: What is to take its place.
        scorer: The score's name.
        confidence: How sure a verdict has to be.
        seed: Of the resampling; the same seed gives the same numbers.

    Raises:
        OrbiterError: orbiter-eval is not installed, or no case has the score in both.
    """
    compared = _package().compare(baseline, candidate, confidence=confidence, seed=seed)
    difference: Difference = compared.of(scorer)
    return difference


def _package() -> Any:
    # by name: core knows the seam, not the package behind it
    try:
        return importlib.import_module("orbiter.eval")
    except ModuleNotFoundError as error:
        if error.name != "orbiter.eval":
            raise
        raise OrbiterError("evaluating needs orbiter-eval: install it") from error
