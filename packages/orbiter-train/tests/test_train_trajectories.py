import pytest

from orbiter import Agent, Swarm, run, tool
from orbiter.config import ModelSettings
from orbiter.eval import Case, Evaluator, ExactMatch
from orbiter.models import ModelError, ScriptedModel, call
from orbiter.train import (
    Recorder,
    TrainingError,
    Trajectory,
    load_trajectories,
    save_trajectories,
    select,
    trajectories_of,
    with_scores,
)
from orbiter.types import AssistantMessage, UserMessage


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


CALC = Agent(name="calc", instructions="Calculate.", tools=[add])
CASES = [Case(id=str(n), input=f"{n}+1?", expected=str(n + 1)) for n in range(4)]


def adds_badly(messages):
    """Call the tool, then say its answer; but 2+1 is 5."""
    last = messages[-1]
    if last.role == "user":
        return call("add", a=int(last.content[0]), b=1)
    return "5" if last.content == "3" else last.content


async def evaluated(agent=CALC, provider=None, **options):
    model = provider or ScriptedModel(adds_badly, repeat=True)
    return await Evaluator(agent, [ExactMatch()], provider=model, **options).run(CASES)


async def test_an_evaluation_gives_trajectories_with_scores():
    found = trajectories_of(await evaluated(), CALC)
    assert [t.case_id for t in found] == ["0", "1", "2", "3"]
    assert [t.scores["exact"] for t in found] == [1, 1, 0, 1]
    assert [m.role for m in found[0].messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert found[0].tools == [add.to_schema()]


async def test_runs_that_failed_or_were_stopped_are_no_examples():
    failing = ScriptedModel(ModelError("down"), repeat=True)
    assert trajectories_of(await evaluated(provider=failing), CALC) == []
    looping = Agent(name="calc", tools=[add], max_steps=1)
    assert trajectories_of(await evaluated(agent=looping), looping) == []


async def test_what_an_evaluation_cannot_know_is_told():
    result = await evaluated()
    dynamic = Agent(name="calc", instructions=lambda context: "x")
    with pytest.raises(TrainingError, match="made by a function: evaluate with"):
        trajectories_of(result, dynamic)
    with pytest.raises(TrainingError, match="hands off to others"):
        trajectories_of(result, Agent(name="a", handoffs=[CALC]))


async def test_select_takes_the_good_and_the_distinct():
    found = trajectories_of(await evaluated(), CALC)
    good = select([*found, *found], {"exact": 1.0})
    assert [t.case_id for t in good] == ["0", "1", "3"]
    assert len(select([*found, *found], {"exact": 1.0}, distinct=False)) == 6
    assert select(found, {"judge": 0.5}) == []


async def test_select_leaves_out_failed_tools_where_told():
    model = ScriptedModel(call("add", a="x"), "Sorry.")
    recorder = Recorder()
    await run(CALC, "?", provider=recorder.provider(model))
    assert len(select(recorder, {})) == 1
    assert select(recorder, {}, tool_errors=False) == []


async def test_the_recorder_keeps_what_the_model_saw():
    agent = Agent(name="calc", instructions=lambda context: f"For {context.deps}.", tools=[add])
    recorder = Recorder()
    model = ScriptedModel(call("add", a=1, b=2), "3")
    result = await run(agent, "1+2?", provider=recorder.provider(model), deps="Ada")
    [found] = recorder
    assert found.messages[0].content == "For Ada."
    assert found.conversation == result.messages
    assert found.tools == [add.to_schema()]
    assert found.model == "scripted"


async def test_the_recorder_keeps_streamed_runs_the_same_way():
    async def recorded(stream):
        recorder = Recorder()
        provider = recorder.provider(ScriptedModel(call("add", a=1, b=2), "It is 3."))
        if stream:
            async for _ in run.stream(CALC, "1+2?", provider=provider):
                pass
        else:
            await run(CALC, "1+2?", provider=provider)
        return list(recorder)

    assert await recorded(stream=True) == await recorded(stream=False)


class Notes:
    """A memory that recalls one note."""

    async def recall(self, query, *, agent_name):
        return "Ada likes sums."

    async def remember(self, messages, *, agent_name):
        pass


async def test_what_is_added_to_each_call_makes_no_other_conversation_of_it():
    agent = Agent(name="calc", tools=[add], memory=Notes())
    recorder = Recorder()
    model = ScriptedModel(call("add", a=1, b=2), "3")
    await run(agent, "1+2?", provider=recorder.provider(model))
    [found] = recorder
    assert [m.role for m in found.messages] == ["user", "assistant", "tool", "assistant"]
    # as the model had it when it gave the answer
    assert found.messages[0].content == "1+2?"
    assert "Ada likes sums." in found.messages[2].content


async def test_each_agent_of_a_team_has_a_trajectory_of_its_own():
    team = Swarm(agents=[Agent(name="lead"), Agent(name="analyst")], mode="team")
    recorder = Recorder()
    model = ScriptedModel(call("delegate_to_analyst", task="Count."), "Seven.", "It is seven.")
    await run(team, "How many?", provider=recorder.provider(model))
    worker, leader = recorder
    assert [m.content for m in worker.messages] == ["Count.", "Seven."]
    assert [m.role for m in leader.messages] == ["user", "assistant", "tool", "assistant"]
    assert [t["function"]["name"] for t in leader.tools] == ["delegate_to_analyst"]


async def test_runs_at_the_same_time_are_kept_apart():
    recorder = Recorder()
    model = ScriptedModel(adds_badly, repeat=True)
    result = await evaluated(provider=recorder.provider(model), concurrency=4, repeats=3)
    assert len(recorder) == 4
    scored = with_scores(recorder, result)
    assert {t.case_id: t.scores["exact"] for t in scored} == {"0": 1, "1": 1, "2": 0, "3": 1}


async def test_scores_are_found_though_a_case_began_in_mid_conversation():
    history = [UserMessage(content="Hi"), AssistantMessage(content="Hello")]
    case = Case(id="late", input="3+1?", expected="4", messages=history)
    recorder = Recorder()
    provider = recorder.provider(ScriptedModel("4"))
    result = await Evaluator(CALC, [ExactMatch()], provider=provider).run([case])
    [found] = with_scores(recorder, result)
    assert (found.case_id, found.scores) == ("late", {"exact": 1.0})
    assert len(found.messages) == 5


async def test_a_conversation_that_goes_on_is_one_trajectory():
    recorder = Recorder()
    provider = recorder.provider(ScriptedModel("Hello.", "Bye."))
    first = await run(CALC, "Hi", provider=provider)
    await run(CALC, "Bye", provider=provider, messages=first.messages)
    assert [len(t.messages) for t in recorder] == [5]
    recorder.clear()
    assert len(recorder) == 0


async def test_what_was_saved_is_read_again(tmp_path):
    found = trajectories_of(await evaluated(), CALC)
    save_trajectories(found, tmp_path / "t.jsonl")
    assert load_trajectories(tmp_path / "t.jsonl") == found


def test_a_file_that_holds_no_trajectories_is_told(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"messages": []}\n{"x": 1}\n')
    with pytest.raises(TrainingError, match="line 2 is no trajectory"):
        load_trajectories(tmp_path / "t.jsonl")
    with pytest.raises(TrainingError, match="cannot be read"):
        load_trajectories(tmp_path / "none.jsonl")


def test_a_trajectory_without_an_answer_is_not_complete():
    assert not Trajectory(messages=[]).complete
    assert not Trajectory(messages=[UserMessage(content="x")]).complete


async def test_a_recorded_model_takes_the_settings_that_it_takes_itself():
    model = ScriptedModel("x")
    settings = ModelSettings(seed=7)
    await run(Agent(name="a"), "?", provider=Recorder().provider(model), settings=settings)
    assert model.requests[0].settings.seed == 7
