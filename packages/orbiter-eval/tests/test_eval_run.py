import asyncio
import io

import pytest
from pydantic import BaseModel
from rich.console import Console

from orbiter import Agent, Swarm, tool
from orbiter.config import TaskConfig
from orbiter.eval import (
    Case,
    CaseResult,
    EvalResult,
    Evaluator,
    ExactMatch,
    ProgressBar,
    Score,
    Scorer,
    ScorerError,
    ToolUse,
)
from orbiter.models import ModelResponse, ScriptedModel, call
from orbiter.types import OrbiterError, Usage, UserMessage

CASES = [Case(id=str(n), input=f"{n}?", expected=str(n)) for n in range(6)]


def echo(messages):
    return messages[-1].content.rstrip("?")


async def test_an_agent_is_run_on_every_case_and_scored():
    agent = Agent(name="echo", instructions="Say it.")
    model = ScriptedModel(echo, repeat=True)
    result = await Evaluator(agent, [ExactMatch()], provider=model).run(CASES)
    assert isinstance(result, EvalResult)
    assert [r.case_id for r in result.results] == [case.id for case in CASES]
    assert result.mean("exact") == 1.0
    assert result.complete
    assert result.usage == Usage(input_tokens=60, output_tokens=30, total_tokens=90)
    assert result.info.target == "echo"
    assert len(model.requests) == 6


async def test_what_a_run_did_is_there_for_scorers_and_readers():
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    model = ScriptedModel(call("add", a=2, b=3), "5")
    agent = Agent(name="calc", tools=[add])
    case = Case(id="sum", input="2+3?", expected="5", tools=["add"], tags=["easy"])
    result = await Evaluator(agent, [ExactMatch(), ToolUse()], provider=model).run([case])
    [run] = result.results
    assert [score.value for score in run.scores] == [1.0, 1.0]
    assert [m.role for m in run.messages] == ["user", "assistant", "tool", "assistant"]
    assert (run.steps, run.stop_reason, run.tags) == (2, "completed", ["easy"])
    assert run.seconds > 0
    assert result.tagged("easy").results == [run]
    assert result.tagged("hard").results == []


async def test_a_case_may_begin_in_the_middle_of_a_conversation():
    model = ScriptedModel("Oslo")
    case = Case(id="a", input="And now?", messages=[{"role": "user", "content": "Hi"}])
    result = await Evaluator(Agent(name="a"), [ToolUse()], provider=model).run([case])
    assert model.requests[0].messages[0] == UserMessage(content="Hi")
    assert result.results[0].messages[0] == UserMessage(content="And now?")


async def test_structured_output_is_kept_as_json():
    class City(BaseModel):
        name: str

    agent = Agent(name="geo", output_type=City)
    model = ScriptedModel('{"name": "Oslo"}')
    result = await Evaluator(agent, [ExactMatch()], provider=model).run(CASES[:1])
    assert result.results[0].output == {"name": "Oslo"}


async def test_a_run_that_fails_scores_zero_and_stops_nobody():
    def fail_on_two(messages):
        return ValueError("boom") if messages[-1].content == "2?" else echo(messages)

    model = ScriptedModel(fail_on_two, repeat=True)
    result = await Evaluator(Agent(name="a"), [ExactMatch()], provider=model).run(CASES)
    assert [run.case_id for run in result.errors] == ["2"]
    assert "boom" in result.errors[0].error
    assert result.errors[0].score("exact") == 0.0
    assert result.mean("exact") == pytest.approx(5 / 6)


async def test_swarms_and_functions_are_targets_too():
    swarm = Swarm(agents=[Agent(name="a"), Agent(name="b")])
    model = ScriptedModel("x", "0")
    result = await Evaluator(swarm, [ExactMatch()], provider=model).run(CASES[:1])
    assert result.mean("exact") == 1.0
    assert result.info.target == "a, b"

    async def own(case):
        return case.expected

    assert (await Evaluator(own, [ExactMatch()]).run(CASES)).mean("exact") == 1.0


async def test_no_more_cases_run_at_once_than_allowed():
    running = most = 0
    full = asyncio.Event()

    async def target(case):
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            full.set()
        await full.wait()
        running -= 1
        return ""

    await Evaluator(target, [ExactMatch()], concurrency=3).run(CASES)
    assert most == 3


async def test_each_case_can_be_run_several_times():
    answers = iter(["0", "1"])

    async def lucky(case):
        return next(answers)

    result = await Evaluator(lucky, [ExactMatch()], repeats=2).run(CASES[:1])
    assert [run.attempt for run in result.results] == [1, 2]
    assert result.case_means("exact") == {"0": 0.5}
    assert result.summaries()[0].cases == 1


async def test_limits_end_a_run_and_the_result_says_so():
    agent = Agent(name="a")
    model = ScriptedModel(call("nothing"), repeat=True)
    evaluator = Evaluator(agent, [ExactMatch()], provider=model, limits=TaskConfig(model_calls=2))
    result = await evaluator.run(CASES[:1])
    assert result.results[0].stop_reason == "usage_limit"


async def test_runs_have_a_price():
    usage = Usage(input_tokens=1_000_000, output_tokens=0, total_tokens=1_000_000)
    reply = ModelResponse(content="0", usage=usage)
    agent = Agent(name="a", model="openai:gpt-4o")
    result = await Evaluator(agent, [ExactMatch()], provider=ScriptedModel(reply)).run(CASES[:1])
    assert result.cost_usd == pytest.approx(2.5)
    mixed = Swarm(agents=[agent, Agent(name="b", model="anthropic:claude-sonnet-4-0")])
    model = ScriptedModel(reply, repeat=True)
    assert (await Evaluator(mixed, [ExactMatch()], provider=model).run(CASES[:1])).cost_usd is None
    own = Evaluator(mixed, [ExactMatch()], provider=model, cost=lambda result: 0.25)
    assert (await own.run(CASES[:2])).cost_usd == 0.5


async def test_functions_are_scorers():
    def short(case, result):
        return len(result.output) < 2

    async def half(case, result):
        return 0.5

    def why(case, result):
        return Score(name="", value=0.25, reason="because")

    async def target(case):
        return "x"

    result = await Evaluator(target, [short, half, why]).run(CASES[:1])
    scores = result.results[0].scores
    assert [(s.name, s.value) for s in scores] == [("short", 1), ("half", 0.5), ("why", 0.25)]


async def test_a_scorer_that_raises_or_says_nonsense_gives_no_score():
    def broken(case, result):
        raise KeyError("x")

    def nonsense(case, result):
        return 17

    async def target(case):
        return "x"

    result = await Evaluator(target, [broken, nonsense]).run(CASES[:1])
    assert [score.value for score in result.results[0].scores] == [None, None]
    assert "KeyError" in result.results[0].scores[0].reason
    assert "returned 17" in result.results[0].scores[1].reason


def test_what_cannot_be_evaluated_is_told_before_anything_runs():
    with pytest.raises(ScorerError, match="two scorers are named 'exact'"):
        Evaluator(Agent(name="a"), [ExactMatch(), ExactMatch()])
    with pytest.raises(ScorerError, match="is no scorer"):
        Evaluator(Agent(name="a"), [ExactMatch])
    with pytest.raises(OrbiterError, match="1 or more"):
        Evaluator(Agent(name="a"), [ExactMatch()], concurrency=0)


async def test_progress_is_told_after_each_case():
    async def target(case):
        return ""

    seen = []
    await Evaluator(target, [ExactMatch()]).run(CASES, progress=seen.append)
    assert [(p.done, p.total) for p in seen] == [(n, 6) for n in range(7)]
    assert isinstance(seen[-1].result, CaseResult)


async def test_the_bar_shows_how_far_it_is_and_what_failed():
    async def target(case):
        raise ValueError("no")

    out = io.StringIO()
    bar = ProgressBar("my [agent]", console=Console(file=out, width=120))
    with bar:
        await Evaluator(target, [ExactMatch()]).run(CASES, progress=bar)
    assert "my [agent]" in out.getvalue()
    assert "6/6" in out.getvalue()
    assert "6 failed" in out.getvalue()


async def test_a_scorer_is_a_class_with_one_method():
    class Loud(Scorer):
        name = "loud"

        async def score(self, case, result):
            return self.says(float(result.output.isupper()))

    async def target(case):
        return "HI"

    assert (await Evaluator(target, [Loud()]).run(CASES)).mean("loud") == 1.0
