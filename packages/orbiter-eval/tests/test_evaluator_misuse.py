"""What is given in place of what an Evaluator takes is named, with what to give instead."""

import pytest

from orbiter import Agent
from orbiter.eval import Case, Evaluator, ExactMatch
from orbiter.types import OrbiterError

AGENT = Agent(name="a")
CASES = [Case(id="one", input="hi", expected="hi")]
MADE = {
    "a name": (("a", [ExactMatch()]), {}, "'a'", "an Agent"),
    "a class": ((Agent, [ExactMatch()]), {}, "the class Agent", "an Agent"),
    "one scorer": ((AGENT, ExactMatch()), {}, "ExactMatch(", "a list"),
    "a scorer's name": ((AGENT, "exact"), {}, "'exact'", "a list"),
    "a scorer's name in a list": ((AGENT, ["exact"]), {}, "'exact'", "make_scorer"),
    "a number as text": (
        (AGENT, [ExactMatch()]),
        {"concurrency": "4"},
        "concurrency ('4')",
        "1 or more",
    ),
    "a dict of limits": (
        (AGENT, [ExactMatch()]),
        {"limits": {"timeout": 3}},
        "timeout",
        "TaskConfig(",
    ),
}


@pytest.mark.parametrize(("given", "options", "value", "instead"), MADE.values(), ids=MADE)
def test_an_evaluator_names_what_it_cannot_use_and_what_it_takes(given, options, value, instead):
    with pytest.raises(OrbiterError) as refused:
        Evaluator(*given, **options)
    assert value in str(refused.value)
    assert instead in str(refused.value)


@pytest.mark.parametrize(
    ("cases", "value"),
    [([{"input": "x"}], "{'input': 'x'}"), (["x"], "'x'"), (5, "5"), (CASES[0], "Case(")],
)
async def test_a_run_names_what_is_no_case_and_what_one_is(cases, value):
    with pytest.raises(OrbiterError, match=r"Case\(input=\.\.\.\)") as refused:
        await Evaluator(AGENT, [ExactMatch()]).run(cases)
    assert value in str(refused.value)
