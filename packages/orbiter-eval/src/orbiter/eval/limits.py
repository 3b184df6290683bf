"""Scorers of what a run took: money, time."""

from dataclasses import dataclass

from orbiter.eval.scorer import Scorer, scorer_registry
from orbiter.evaluation import Case, CaseResult, Score


@dataclass(frozen=True)
class CostLimit(Scorer):
    """1 for a run that cost at most `usd`; for a dearer one the share of it: 0.5 at twice as much.

    Attributes:
        usd: US dollars a run.
        name: In reports.
    """

    usd: float
    name: str = "cost"

    async def score(self, case: Case, result: CaseResult) -> Score:
        """Compare; there is no score where no price is known."""
        if result.cost_usd is None:
            return self.says(
                None, "no price is known: install orbiter-eval[prices] or give Evaluator(cost=...)"
            )
        if result.cost_usd <= self.usd:
            return self.says(1.0)
        return self.says(self.usd / result.cost_usd, f"{result.cost_usd:.6f} > {self.usd} USD")


@dataclass(frozen=True)
class LatencyLimit(Scorer):
    """1 for a run of at most `seconds`; for a longer one the share: 0.5 at twice as long.

    Attributes:
        seconds: A run's.
        name: In reports.
    """

    seconds: float
    name: str = "latency"

    async def score(self, case: Case, result: CaseResult) -> Score:
        """Compare."""
        if result.seconds <= self.seconds:
            return self.says(1.0)
        return self.says(self.seconds / result.seconds, f"{result.seconds:.2f} > {self.seconds} s")


def _above_zero(text: str, what: str) -> float:
    number = float(text) if text else 0.0
    if number <= 0:
        raise ValueError(f"say how {what}")
    return number


scorer_registry.register("cost", lambda text: CostLimit(_above_zero(text, "many USD: cost=0.01")))
scorer_registry.register(
    "latency", lambda text: LatencyLimit(_above_zero(text, "many seconds: latency=5"))
)
