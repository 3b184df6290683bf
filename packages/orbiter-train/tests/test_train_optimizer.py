import json

import pytest

from orbiter import Agent
from orbiter.eval import Case, ExactMatch
from orbiter.models import ScriptedModel
from orbiter.train import Budget, InstructionOptimizer, Proposer, TrainingError, with_instructions

CASES = [Case(id=str(n), input=f"question {n}", expected=f"answer {n}") for n in range(24)]
AGENT = Agent(name="a", instructions="Be nice.", model="scripted:x")


def proposals(*texts):
    return json.dumps({"proposals": [{"why": f"for {t}", "instructions": t} for t in texts]})


def follows(rules):
    """A model that answers right where its instructions make it: rules by instructions."""

    def reply(messages):
        instructions, question = messages[0].content, messages[-1].content
        number = int(question.split()[-1])
        return f"answer {number}" if rules[instructions](number) else "?"

    return ScriptedModel(reply, repeat=True)


def optimizer(rules, *replies, **options):
    proposer = ScriptedModel(*replies)
    made = InstructionOptimizer(
        AGENT,
        [ExactMatch()],
        proposer=Proposer(proposer),
        provider=follows({"Be nice.": lambda n: False, **rules}),
        **{"budget": Budget(rounds=max(1, len(replies))), **options},
    )
    return made, proposer


async def test_what_wins_on_the_held_out_cases_is_kept():
    rules = {"Be right.": lambda n: True, "Be loud.": lambda n: False}
    job, _ = optimizer(rules, proposals("Be loud.", "Be right."))
    found = await job.run(CASES)
    assert found.instructions == "Be right."
    assert found.verdict == "better"
    assert (found.held_out.baseline, found.held_out.candidate) == (0.0, 1.0)
    assert [(a.instructions, a.train, a.held_out, a.kept) for a in found.attempts] == [
        ("Be loud.", 0.0, None, False),
        ("Be right.", 1.0, 1.0, True),
    ]
    assert "That is a gain, at 95% confidence." in found.report()
    assert AGENT.instructions == "Be nice."


async def test_what_only_learned_the_train_cases_by_heart_is_not_kept():
    job, _ = optimizer({}, proposals("Cheat."))
    train, _ = job._split(CASES)
    by_heart = {int(case.id) for case in train}
    rules = {"Be nice.": lambda n: False, "Cheat.": lambda n: n in by_heart}
    job._provider = follows(rules)
    found = await job.run(CASES)
    assert found.attempts[0].train == 1.0
    assert found.attempts[0].held_out == 0.0
    assert (found.instructions, found.verdict) == ("Be nice.", "no gain")
    assert "None was better on the 12 held-out cases" in found.report()


async def test_a_small_gain_is_called_noise():
    job, _ = optimizer({}, proposals("Be lucky."))
    train, held = job._split(CASES)
    lucky = {int(case.id) for case in [*train, *held[:2]]}
    rules = {"Be nice.": lambda n: False, "Be lucky.": lambda n: n in lucky}
    job._provider = follows(rules)
    found = await job.run(CASES)
    assert found.instructions == "Be lucky."
    assert found.verdict == "within noise"
    assert "That is within noise" in found.report()


async def test_the_proposer_never_sees_a_held_out_case():
    job, proposer = optimizer({"x": lambda n: n % 2 == 0, "y": lambda n: False},
                              proposals("x"), proposals("y"))  # fmt: skip
    train, held = job._split(CASES)
    await job.run(CASES)
    shown = "".join(m.content for request in proposer.requests for m in request.messages)
    assert any(f'"{case.input}"' in shown for case in train)
    assert not any(f'"{case.input}"' in shown for case in held)
    assert not any(f'"{case.expected}"' in shown for case in held)


async def test_the_proposer_learns_what_was_tried():
    rules = {"x": lambda n: n % 2 == 0, "y": lambda n: False}
    job, proposer = optimizer(rules, proposals("y"), proposals("x", "y"))
    found = await job.run(CASES)
    second = json.loads(proposer.requests[1].messages[-1].content)
    assert second["tried_before"] == [{"instructions": "y", "score": 0.0}]
    # what was tried before is not paid for again
    assert [a.instructions for a in found.attempts] == ["y", "x"]


async def test_a_budget_of_runs_is_kept_to_the_run():
    rules = {name: (lambda n: False) for name in "abcdef"}
    job, _ = optimizer(rules, proposals("a", "b", "c"), proposals("d"), budget=Budget(runs=60))
    found = await job.run(CASES)
    # 24 for the beginning, 12 for each attempt; one more might need 24
    assert found.spent.runs == 48
    assert "48 of 60 runs are spent, 24 more are needed" in found.stopped
    assert [a.instructions for a in found.attempts] == ["a", "b"]


async def test_the_best_of_a_round_is_decided_though_the_budget_is_spent():
    rules = {"a": lambda n: True, "b": lambda n: True}
    job, _ = optimizer(rules, proposals("a", "b"), budget=Budget(runs=59))
    found = await job.run(CASES)
    assert (found.spent.runs, found.instructions, found.verdict) == (48, "a", "better")


async def test_a_budget_of_tokens_counts_the_proposer_too():
    rules = {name: (lambda n: False) for name in "abc"}
    job, _ = optimizer(rules, proposals("a"), proposals("b"), budget=Budget(tokens=400))
    found = await job.run(CASES)
    assert found.spent.usage.total_tokens == 24 * 15 + 15 + 12 * 15
    assert "tokens are spent" in found.stopped


async def test_a_budget_that_cannot_measure_the_beginning_is_told():
    job, _ = optimizer({}, budget=Budget(runs=23))
    with pytest.raises(TrainingError, match="too small to measure the beginning"):
        await job.run(CASES)


async def test_an_agent_that_is_right_is_left_alone():
    job, proposer = optimizer({"Be nice.": lambda n: True}, proposals("x"))
    found = await job.run(CASES)
    assert "nothing to learn from" in found.stopped
    assert (found.verdict, found.spent.rounds, proposer.requests) == ("no gain", 0, [])


async def test_each_look_at_the_held_out_cases_asks_for_more_evidence():
    steps = ["a", "b", "c", "d"]
    job, _ = optimizer({}, *[proposals(step) for step in steps])
    train, held = job._split(CASES)
    order = [int(case.id) for case in [*train, *held]]
    rules = {"Be nice.": lambda n: False}
    for place, step in enumerate(steps, 1):
        known = {int(c.id) for c in train[: 3 * place]} | {int(c.id) for c in held[: place + 2]}
        rules[step] = lambda n, known=known: n in known
    job._provider = follows(rules)
    found = await job.run(CASES)
    assert len(order) == 24
    assert (found.instructions, found.looks) == ("d", 4)
    # six of twelve improved: p = 1/32 would do for one look, not for the best of four
    assert found.held_out.p == pytest.approx(2 / 64)
    assert found.verdict == "within noise"


async def test_the_same_seed_gives_the_same_split():
    first, _ = optimizer({}, seed=3)
    second, _ = optimizer({}, seed=4)
    assert first._split(CASES) == first._split(CASES)
    assert first._split(CASES) != second._split(CASES)


def test_what_cannot_be_optimised_is_told():
    dynamic = Agent(name="d", instructions=lambda context: "x")
    with pytest.raises(TrainingError, match="cannot be rewritten"):
        InstructionOptimizer(dynamic, [ExactMatch()], proposer=ScriptedModel())
    with pytest.raises(TrainingError, match="no scorer 'judge'; scorers: exact"):
        InstructionOptimizer(AGENT, [ExactMatch()], objective="judge", proposer=ScriptedModel())


async def test_too_few_cases_are_told():
    job, _ = optimizer({})
    with pytest.raises(TrainingError, match="both have to be 2 or more"):
        await job.run(CASES[:3])


def test_an_agent_with_other_instructions_is_another_agent():
    other = with_instructions(AGENT, "New.")
    assert (other.instructions, other.config.instructions) == ("New.", "New.")
    assert (AGENT.instructions, AGENT.config.instructions) == ("Be nice.", "Be nice.")
