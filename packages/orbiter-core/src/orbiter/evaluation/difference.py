"""How far two agents are apart in a score."""

from typing import Literal, NamedTuple

from pydantic import BaseModel

Verdict = Literal["better", "worse", "within noise"]


class Interval(NamedTuple):
    """From where to where."""

    low: float
    high: float


class Difference(BaseModel):
    """How far two agents are apart in one score, case by case.

    Attributes:
        name: The scorer's.
        baseline: Mean of the first, over the cases both have.
        candidate: Mean of the second.
        difference: Candidate minus baseline.
        interval: Where the difference on all such cases probably is: a paired bootstrap over the
            cases.
        p: How often chance alone makes a difference at least this big: a paired permutation test.
        cases: How many cases both have a score for.
        improved: Ids of the cases the candidate scores higher in.
        regressed: Ids of those it scores lower in.
        verdict: "better" or "worse" only where interval and test agree that it is no chance.
    """

    model_config = {"frozen": True}

    name: str
    baseline: float
    candidate: float
    difference: float
    interval: Interval
    p: float
    cases: int
    improved: list[str]
    regressed: list[str]
    verdict: Verdict
