"""What an evaluation found: all its runs together."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel

from orbiter.eval._internal.statistics import interval_of_mean, mean
from orbiter.eval.journal import read_journal
from orbiter.eval.record import RunInfo
from orbiter.evaluation import CaseResult, Interval
from orbiter.types import Usage


class ScoreSummary(BaseModel):
    """A score over all cases.

    Attributes:
        name: The scorer's.
        mean: Over the cases; None when none could be scored.
        interval: Where the mean of all such cases probably is.
        cases: How many were scored.
        unscored: Runs that could not be scored; they are not in the mean.
    """

    model_config = {"frozen": True}

    name: str
    mean: float | None
    interval: Interval | None
    cases: int
    unscored: int


class EvalResult(BaseModel):
    """All results of an evaluation, in the order of the dataset."""

    model_config = {"frozen": True}

    info: RunInfo
    results: list[CaseResult]

    @property
    def complete(self) -> bool:
        """Whether every case has all its runs."""
        return len(self.results) == self.info.cases * self.info.repeats

    @property
    def errors(self) -> list[CaseResult]:
        """The runs that failed."""
        return [result for result in self.results if result.error is not None]

    @property
    def usage(self) -> Usage:
        """Tokens of all runs."""
        return sum((result.usage for result in self.results), Usage())

    @property
    def cost_usd(self) -> float | None:
        """US dollars of all runs; None when the price of one is not known."""
        costs = [result.cost_usd for result in self.results]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    def case_means(self, scorer: str) -> dict[str, float]:
        """Return the mean score of each case's runs, without what could not be scored.

        They come sorted by case, so that whatever resamples them finds the same each time.
        """
        values: dict[str, list[float]] = {}
        for result in self.results:
            value = result.score(scorer)
            if value is not None:
                values.setdefault(result.case_id, []).append(value)
        return {case_id: mean(values[case_id]) for case_id in sorted(values)}

    def mean(self, scorer: str) -> float | None:
        """Return the mean score over all cases; None when none could be scored."""
        means = self.case_means(scorer)
        return mean(means.values()) if means else None

    def summaries(self, *, confidence: float = 0.95, seed: int = 0) -> list[ScoreSummary]:
        """Return each score's mean and the interval it probably lies in.

        Args:
            confidence: How probably.
            seed: Of the resampling; the same seed gives the same interval.
        """
        return [self._summary(name, confidence, seed) for name in self.info.scorers]

    def _summary(self, name: str, confidence: float, seed: int) -> ScoreSummary:
        values = list(self.case_means(name).values())
        return ScoreSummary(
            name=name,
            mean=mean(values) if values else None,
            interval=interval_of_mean(values, confidence=confidence, seed=seed),
            cases=len(values),
            unscored=sum(result.score(name) is None for result in self.results),
        )

    def tagged(self, *tags: str) -> "EvalResult":
        """Return the cases that have all these tags, as a result of their own."""
        chosen = [result for result in self.results if set(tags) <= set(result.tags)]
        cases = len({result.case_id for result in chosen})
        info = self.info.model_copy(update={"cases": cases})
        return EvalResult(info=info, results=chosen)

    @classmethod
    def load(cls, path: str | Path) -> "EvalResult":
        """Read the journal of an evaluation, also of one that still runs or was killed.

        Raises:
            JournalError: It is no journal.
        """
        info, results = read_journal(path)
        return cls(info=info, results=results)

    def save(self, path: str | Path) -> None:
        """Write the result as a journal, in place of what is there."""
        lines: Iterable[BaseModel] = [self.info, *self.results]
        text = "".join(line.model_dump_json() + "\n" for line in lines)
        Path(path).write_text(text, encoding="utf-8")
