"""Scorers of text: the same, of a form, or alike."""

import difflib
import inspect
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from orbiter.eval.scorer import Scorer, ScorerError, scorer_registry, text_of
from orbiter.evaluation import Case, CaseResult, Score

Measure = Callable[[str, str], float | Awaitable[float]]

_SPACES = re.compile(r"\s+")
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class ExactMatch(Scorer):
    """1 when the output is `expected`, else 0.

    Attributes:
        ignore_case: Whether "Tokyo" is "tokyo".
        ignore_spaces: Whether spaces at the ends do not count, and several count as one.
        name: In reports.
    """

    ignore_case: bool = False
    ignore_spaces: bool = True
    name: str = "exact"

    async def score(self, case: Case, result: CaseResult) -> Score:
        """Compare; without an `expected` there is no score."""
        if case.expected is None:
            return self.says(None, "the case has no `expected`")
        wanted, got = self._plain(text_of(case.expected)), self._plain(text_of(result.output))
        return self.says(1.0) if wanted == got else self.says(0.0, f"expected {wanted!r}")

    def _plain(self, text: str) -> str:
        if self.ignore_spaces:
            text = _SPACES.sub(" ", text).strip()
        return text.casefold() if self.ignore_case else text


@dataclass(frozen=True)
class RegexMatch(Scorer):
    """1 when a regular expression is found in the output, else 0.

    Attributes:
        pattern: The expression; None takes each case's `expected`.
        full: Whether the whole output has to match.
        name: In reports.
    """

    pattern: str | None = None
    full: bool = False
    name: str = "regex"

    async def score(self, case: Case, result: CaseResult) -> Score:
        """Search.

        Raises:
            ScorerError: The pattern is no regular expression.
        """
        pattern = self.pattern if self.pattern is not None else case.expected
        if not isinstance(pattern, str):
            return self.says(None, "there is no pattern: the case's `expected` is no text")
        try:
            expression = re.compile(pattern)
        except re.error as error:
            raise ScorerError(f"{pattern!r} is no regular expression: {error}") from error
        text = text_of(result.output)
        found = expression.fullmatch(text) if self.full else expression.search(text)
        return self.says(1.0) if found else self.says(0.0, f"{pattern!r} does not match")


@dataclass(frozen=True)
class Similarity(Scorer):
    """How alike the output and `expected` are.

    Attributes:
        measure: "f1": the words both have, as in SQuAD. "ratio": characters in the same order.
            Or a function of two texts, sync or async, such as the cosine of embeddings.
        at_least: With it the score is 1 or 0: alike enough, or not.
        name: In reports.
    """

    measure: Literal["f1", "ratio"] | Measure = field(default="f1")
    at_least: float | None = None
    name: str = "similarity"

    async def score(self, case: Case, result: CaseResult) -> Score:
        """Measure; without an `expected` there is no score."""
        if case.expected is None:
            return self.says(None, "the case has no `expected`")
        wanted, got = text_of(case.expected), text_of(result.output)
        if callable(self.measure):
            measured = self.measure(wanted, got)
            value = await measured if inspect.isawaitable(measured) else measured
        else:
            value = word_f1(wanted, got) if self.measure == "f1" else _ratio(wanted, got)
        value = min(1.0, max(0.0, float(value)))
        if self.at_least is None:
            return self.says(value)
        alike = value >= self.at_least
        return self.says(float(alike), "" if alike else f"{value:.3f} < {self.at_least}")

    def __repr__(self) -> str:
        how = getattr(self.measure, "__qualname__", self.measure)
        return f"Similarity(measure={how!r}, at_least={self.at_least!r}, name={self.name!r})"


def word_f1(wanted: str, got: str) -> float:
    """Return the harmonic mean of precision and recall over the words of two texts."""
    a = Counter(_WORDS.findall(wanted.casefold()))
    b = Counter(_WORDS.findall(got.casefold()))
    if not a or not b:
        return float(a == b)
    shared = (a & b).total()
    return 2 * shared / (a.total() + b.total())


def _ratio(wanted: str, got: str) -> float:
    return difflib.SequenceMatcher(None, wanted, got, autojunk=False).ratio()


scorer_registry.register("exact", lambda text: ExactMatch())
scorer_registry.register("regex", lambda text: RegexMatch(text or None))
scorer_registry.register("similarity", lambda text: Similarity(at_least=_number(text)))


def _number(text: str) -> float | None:
    return float(text) if text else None
