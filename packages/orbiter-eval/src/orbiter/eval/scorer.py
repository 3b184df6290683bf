"""The Scorer, the one thing every scorer is, and how a plain function becomes one."""

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from orbiter.evaluation import Case, CaseResult, Score
from orbiter.registry import Registry
from orbiter.types import OrbiterError

ScoreFunction = Callable[[Case, CaseResult], Any]


class ScorerError(OrbiterError):
    """A scorer cannot be made or says what is no score."""


class Scorer(ABC):
    """Judges one run of one case. Write `score`; `name` is what reports call it.

    Its `repr` tells in a journal what exactly was scored, so it names all that matters.
    """

    name: str = ""

    @abstractmethod
    async def score(self, case: Case, result: CaseResult) -> Score:
        """Score a run that ended without an error.

        Args:
            case: What was asked.
            result: What came of it; it has no scores yet.

        Returns:
            The score; `value` None where the case cannot be scored. What this raises has the
            same effect, and the error's text becomes the reason.
        """

    def says(self, value: float | None, reason: str = "") -> Score:
        """Return a score by this scorer."""
        return Score(name=self.name, value=value, reason=reason)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class FunctionScorer(Scorer):
    """A function as a scorer: `(case, result)` to a Score, a number from 0 to 1, or a bool."""

    def __init__(self, fn: ScoreFunction, *, name: str = "") -> None:
        """Make a scorer of `fn`, sync or async; by default it has the function's name."""
        self.name = name or str(getattr(fn, "__name__", type(fn).__name__))
        self._fn = fn

    async def score(self, case: Case, result: CaseResult) -> Score:
        """Call the function.

        Raises:
            ScorerError: It returned what is no score.
        """
        value = self._fn(case, result)
        if isinstance(value, Awaitable):
            value = await value
        if isinstance(value, Score):
            return value.model_copy(update={"name": self.name})
        if value is None:
            return self.says(None, "the scorer had nothing to say")
        if isinstance(value, int | float) and 0 <= value <= 1:
            return self.says(float(value))
        raise ScorerError(f"scorer '{self.name}' returned {value!r}: a score is from 0 to 1")


def as_scorers(scorers: Sequence[Scorer | ScoreFunction]) -> list[Scorer]:
    """Return the scorers, with functions made scorers.

    Raises:
        ScorerError: One is neither, or two have one name.
    """
    if isinstance(scorers, str) or not isinstance(scorers, Iterable):
        raise ScorerError(
            f"{scorers!r:.80} is no list of scorers: give a list, [ExactMatch(), ...]"
        )
    made: list[Scorer] = []
    for scorer in scorers:
        if inspect.isclass(scorer) or not (isinstance(scorer, Scorer) or callable(scorer)):
            raise ScorerError(
                f"{scorer!r:.80} is no scorer: give an instance such as ExactMatch(), a function, "
                'or make_scorer("NAME")'
            )
        made.append(scorer if isinstance(scorer, Scorer) else FunctionScorer(scorer))
    names = [scorer.name for scorer in made]
    for name in names:
        if not name or names.count(name) > 1:
            raise ScorerError(f"two scorers are named '{name}': give each a name of its own")
    return made


async def score_run(scorers: Sequence[Scorer], case: Case, result: CaseResult) -> CaseResult:
    """Return a run with its scores; one that failed has 0 in each."""
    if result.error is not None:
        scores = [s.says(0.0, f"the run failed: {result.error}") for s in scorers]
    else:
        scores = [await _contained(scorer, case, result) for scorer in scorers]
    return result.model_copy(update={"scores": scores})


async def _contained(scorer: Scorer, case: Case, result: CaseResult) -> Score:
    # a judge that is out of reach must not take the answers of all other cases with it
    try:
        return await scorer.score(case, result)
    except Exception as error:
        return scorer.says(None, f"could not be scored: {type(error).__name__}: {error}")


def text_of(value: Any) -> str:
    """Return an answer as text: text as it is, anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


ScorerFactory = Callable[[str], Scorer]
scorer_registry: Registry[ScorerFactory] = Registry("scorer")


def make_scorer(text: str) -> Scorer:
    """Return the scorer of a text such as "exact" or "latency=5", for command lines.

    Raises:
        RegistryError: No scorer has that name; the text lists those there are.
        ScorerError: What stands after "=" makes no sense to it.
    """
    name, _, argument = text.partition("=")
    factory = scorer_registry.get(name.strip())
    try:
        return factory(argument.strip())
    except (ValueError, OSError) as error:
        raise ScorerError(f"scorer '{text}': {error}") from error
