import sys

import pytest

from orbiter import Agent
from orbiter.evaluation import Case, CaseResult, Score, compare, evaluate
from orbiter.types import OrbiterError


class Half:
    """As much of a scorer as its users know."""

    name = "half"

    async def score(self, case: Case, result: CaseResult) -> Score:
        return Score(name=self.name, value=0.5)


async def test_without_orbiter_eval_evaluating_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "orbiter.eval", None)
    with pytest.raises(OrbiterError, match="needs orbiter-eval: install it"):
        await evaluate(Agent(name="calc"), [Half()], [Case(id="a", input="?")])


def test_without_orbiter_eval_comparing_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "orbiter.eval", None)
    with pytest.raises(OrbiterError, match="needs orbiter-eval: install it"):
        compare(None, None, "half", confidence=0.95, seed=0)


def test_a_case_names_its_tools_in_short_or_in_full():
    case = Case.model_validate({"id": 7, "input": "?", "tools": ["add", {"name": "sub"}]})
    assert case.id == "7"
    assert [call.name for call in case.tools or ()] == ["add", "sub"]
