"""What evaluating and training say to each other: cases, scored runs, and how two compare."""

from orbiter.evaluation.case import Case, ExpectedCall
from orbiter.evaluation.difference import Difference, Interval, Verdict
from orbiter.evaluation.engine import Evaluation, RunScorer, compare, evaluate
from orbiter.evaluation.run import CaseResult, Score

__all__ = [
    "Case",
    "CaseResult",
    "Difference",
    "Evaluation",
    "ExpectedCall",
    "Interval",
    "RunScorer",
    "Score",
    "Verdict",
    "compare",
    "evaluate",
]
