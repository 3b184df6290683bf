"""What calls of a run that is kept can rely on, and which of them are refused."""

import asyncio

import pytest

from orbiter import Agent, run, tool
from orbiter._internal import run_journal
from orbiter.config import ModelSettings
from orbiter.errors import JournalError, ModelRetry, RunBusyError
from orbiter.hooks import Hook, HookPoint
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ModelError,
    ModelResponse,
    ScriptedModel,
    call,
)
from orbiter.replay import CUT_OFF
from orbiter.run_store import MemoryRunStore, SqliteRunStore
from orbiter.runner import OutputValidationError
from orbiter.session import MemorySession
from orbiter.types import AssistantMessage, OrbiterError, ToolResult, UserMessage

from .kept_runs import World


async def test_a_stream_goes_on_and_tells_only_what_is_new():
    world = World()
    agent = Agent(name="a", tools=[world.tool("one"), world.tool("two")])
    store = MemoryRunStore()
    model = ScriptedModel(call("one"), call("two"), "done")
    async with run.stream(agent, "go", provider=model, journal=store, run_id="r") as stream:
        async for event in stream:
            if event.type == "step" and event.step == 2:
                break
    stream = run.stream(agent, "go", provider=model, journal=store, run_id="r")
    events = [event async for event in stream]
    assert [e.tool_name for e in events if e.type == "tool_call"] == ["two"]
    assert [e.step for e in events if e.type == "step"] == [3, 4]
    assert (world.done, stream.result.output) == (["one", "two"], "done")
    again = [event async for event in run.stream(agent, "go", journal=store, run_id="r")]
    assert [event.type for event in again] == ["result"]
    assert again[0].result.messages == stream.result.messages


async def test_run_sync_keeps_its_run_too(tmp_path):
    world = World()
    agent = Agent(name="a", tools=[world.tool("one")])
    model = ScriptedModel(call("one"), ModelError("overloaded"), "done")

    def once():
        store = SqliteRunStore(tmp_path / "runs.db")
        return run.sync(agent, "go", provider=model, journal=store, run_id="r")

    with pytest.raises(ModelError):
        await asyncio.to_thread(once)
    outputs = [(await asyncio.to_thread(once)).output for _ in range(2)]
    assert (outputs, world.done, len(model.requests)) == (["done", "done"], ["one"], 3)


async def test_a_failed_run_tells_how_to_go_on():
    world, store = World(), MemoryRunStore()
    agent = Agent(name="a", tools=[world.tool("one")])
    model = ScriptedModel(call("one"), ModelError("overloaded"), "done")
    with pytest.raises(ModelError) as caught:
        await run(agent, "go", provider=model, journal=store, run_id="r")
    error = caught.value
    assert [m.role for m in error.messages] == ["user", "assistant", "tool"]
    assert (error.usage.total_tokens, error.steps, error.run_id) == (15, 2, "r")
    assert error.__notes__ == [
        "The run is kept: the same call goes on behind its complete steps, by run_id='r'."
    ]
    result = await run(agent, "go", provider=model, journal=store, run_id="r")
    assert (result.output, result.steps, world.done) == ("done", 3, ["one"])


async def test_a_failed_run_that_nothing_keeps_tells_how_to_go_on():
    model = ScriptedModel(ModelError("overloaded"), "done")
    agent = Agent(name="a")
    with pytest.raises(ModelError) as caught:
        await run(agent, "go", provider=model)
    assert caught.value.run_id is None
    assert caught.value.__notes__ == [
        'To go on behind what was said: run(agent, "", messages=error.messages).'
    ]
    result = await run(agent, "", messages=caught.value.messages, provider=model)
    assert [m.content for m in result.messages] == ["go", "done"]


async def test_max_steps_counts_the_steps_of_all_lives():
    agent = Agent(name="a", max_steps=2)
    model = ScriptedModel(ModelError("no"), ModelError("no"), "never asked")
    store = MemoryRunStore()
    for _ in range(2):
        with pytest.raises(ModelError):
            await run(agent, "go", provider=model, journal=store, run_id="r")
    result = await run(agent, "go", provider=model, journal=store, run_id="r")
    assert (result.stop_reason, result.steps) == ("max_steps", 2)
    more = Agent(name="a", max_steps=3)
    result = await run(more, "go", provider=model, journal=store, run_id="r")
    assert (result.output, result.steps) == ("never asked", 3)


async def test_a_reply_that_was_cut_off_stays_so_and_one_that_broke_off_is_asked_for_again():
    for finish, again in (("length", 0), ("incomplete", 1)):
        model = ScriptedModel(ModelResponse(content="Half", finish_reason=finish), "whole")
        store = MemoryRunStore()
        for _ in range(2):
            result = await run(Agent(name="a"), "go", provider=model, journal=store, run_id="r")
        assert len(model.requests) == 1 + again
        assert result.stop_reason == ("completed" if again else "length")


async def test_the_session_and_the_history_are_those_of_the_beginning():
    session, store = MemorySession(), MemoryRunStore()
    await session.save("0", [UserMessage(content="a"), AssistantMessage(content="b")])
    world = World()
    agent = Agent(name="a", tools=[world.tool("one")])
    model = ScriptedModel(call("one"), ModelError("no"), "done")
    options = {"provider": model, "journal": store, "run_id": "r", "session": session}
    with pytest.raises(ModelError):
        await run(agent, "go", **options)
    await session.save("1", [UserMessage(content="meanwhile"), AssistantMessage(content="yes")])
    for _ in range(2):
        result = await run(agent, "go", **options)
        assert [m.content for m in result.messages] == ["a", "b", "go", "", "one is done", "done"]
    said = [m.content for m in await session.load()]
    assert said == ["a", "b", "go", "", "one is done", "done", "meanwhile", "yes"]


async def test_a_context_may_replace_a_result_and_that_is_what_is_kept():
    class Shortening:
        async def start_run(self, *, history, **_):
            return history

        async def process(self, event, payload):
            if event == "post_tool_call":
                payload["tool_result"] = "[stored]"

        def record_step(self, agent_name, usage): ...
        async def finish_run(self, **_): ...

    agent = Agent(name="a", tools=[World().tool("one")], context=Shortening())
    model, store = ScriptedModel(call("one"), ModelError("no"), "done"), MemoryRunStore()
    with pytest.raises(ModelError):
        await run(agent, "go", provider=model, journal=store, run_id="r")
    result = await run(agent, "go", provider=model, journal=store, run_id="r")
    assert result.messages[2].content == "[stored]"


async def test_a_validator_checks_a_kept_answer_again():
    agent = Agent(name="a", retries=0)
    refuse: list[bool] = []

    @agent.output_validator
    def check_it(output: str) -> str:
        if refuse:
            raise ModelRetry("not any more")
        return output.upper()

    store = MemoryRunStore()
    for _ in range(2):
        result = await run(agent, "go", provider=ScriptedModel("done"), journal=store, run_id="r")
        assert result.output == "DONE"
    refuse.append(True)
    with pytest.raises(OutputValidationError, match="not any more"):
        await run(agent, "go", journal=store, run_id="r")


async def test_hooks_and_memory_are_not_told_again_of_a_run_that_was_done():
    told: list[str] = []
    hooks = [Hook(p, lambda e: told.append(e.point.name)) for p in HookPoint]
    agent, store = Agent(name="a", hooks=hooks), MemoryRunStore()
    await run(agent, "go", provider=ScriptedModel("done"), journal=store, run_id="r")
    before = list(told)
    await run(agent, "go", journal=store, run_id="r")
    assert told == before


async def test_a_second_call_with_the_same_run_id_is_refused_while_the_first_goes_on():
    store, begun = MemoryRunStore(), asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent(name="a", tools=[hang])
    model = ScriptedModel(call("hang"), "done")
    first = asyncio.create_task(run(agent, "go", provider=model, journal=store, run_id="r"))
    await begun.wait()
    with pytest.raises(RunBusyError, match="run 'r' goes on in this process: wait for its end"):
        await run(agent, "go", provider=model, journal=store, run_id="r")
    first.cancel()
    await asyncio.wait([first])
    result = await run(agent, "go", provider=model, journal=store, run_id="r")
    assert (result.output, result.messages[2]) == (
        "done",
        ToolResult(tool_call_id="call_1", tool_name="hang", error=CUT_OFF),
    )


async def test_another_call_under_the_same_run_id_is_refused():
    agent, store = Agent(name="a"), MemoryRunStore()
    before = [UserMessage(content="x"), AssistantMessage(content="y")]
    options = {"provider": ScriptedModel("done"), "journal": store, "run_id": "r"}
    await run(agent, "go", messages=before, **options)
    for target, said, history, words in (
        (Agent(name="b"), "go", before, "agent a, not agent b"),
        (agent, "stop", before, "the input 'go', not 'stop'"),
        (agent, "go", [], "2 messages before it, not these 0"),
    ):
        with pytest.raises(JournalError, match=f"run 'r' began with {words}"):
            await run(target, said, messages=history, **options)


async def test_an_agent_that_had_the_conversation_and_is_gone_is_named():
    store = MemoryRunStore()
    a = Agent(name="a", handoffs=[Agent(name="b")])
    model = ScriptedModel(call("transfer_to_b"), ModelError("no"))
    with pytest.raises(ModelError):
        await run(a, "go", provider=model, journal=store, run_id="r")
    a.handoffs.clear()
    with pytest.raises(JournalError, match=r"was handed off to 'b'.*give it back"):
        await run(a, "go", provider=model, journal=store, run_id="r")


async def test_a_journal_of_something_else_is_refused():
    store = MemoryRunStore()
    for found, words in (
        ("{}", "no entry of a run"),
        ('{"type": "answered", "answer": "x"}', "does not begin with what was asked"),
    ):
        store._runs["r"] = [found]
        with pytest.raises(JournalError, match=words) as caught:
            await run(Agent(name="a"), "go", journal=store, run_id="r")
        assert caught.value.__notes__ == ["Nothing was asked of the model."]


async def test_a_tool_does_not_begin_when_its_reply_cannot_be_kept():
    world = World()

    class Full(MemoryRunStore):
        async def open(self, run_id):
            log = await super().open(run_id)
            append = log.append

            async def fail(entry):
                if '"replied"' in entry:
                    raise JournalError("the disk is full")
                await append(entry)

            log.append = fail
            return log

    agent = Agent(name="a", tools=[world.tool("one")])
    with pytest.raises(JournalError, match="the disk is full"):
        await run(agent, "go", provider=ScriptedModel(call("one")), journal=Full(), run_id="r")
    assert world.done == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"journal": MemoryRunStore()}, "needs a run_id: a name of yours"),
        ({"run_id": "r"}, "run_id='r'.*needs a journal"),
        ({"journal": "runs.db", "run_id": "r"}, "run.journal=.... got 'runs.db'"),
        ({"journal": MemoryRunStore(), "run_id": "a\nb"}, "run.run_id=...."),
        ({"journal": MemoryRunStore(), "run_id": "x" * 201}, "run.run_id=...."),
    ],
)
async def test_what_does_not_go_together_is_said(options, words):
    with pytest.raises(OrbiterError, match=words):
        await run(Agent(name="a"), "go", **options)
    with pytest.raises(OrbiterError, match=words):
        run.stream(Agent(name="a"), "go", **options)


async def test_what_a_tool_did_is_kept_although_its_run_is_cancelled_while_it_is_written():
    world, writing, go = World(), asyncio.Event(), asyncio.Event()

    class Slow(MemoryRunStore):
        async def open(self, run_id):
            log = await super().open(run_id)
            append = log.append

            async def slowly(entry):
                if '"tool_done"' in entry:
                    writing.set()
                    await go.wait()
                await append(entry)

            log.append = slowly
            return log

    agent, store = Agent(name="a", tools=[world.tool("one")]), Slow()
    model = ScriptedModel(call("one"), "done")
    running = asyncio.create_task(run(agent, "go", provider=model, journal=store, run_id="r"))
    await writing.wait()
    running.cancel()
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait([running])
    result = await run(agent, "go", provider=model, journal=store, run_id="r")
    assert (result.messages[2].content, world.done) == ("one is done", ["one"])


async def test_a_run_has_a_bound_that_is_told_before_it_cannot_be_read(monkeypatch):
    monkeypatch.setattr(run_journal, "MOST_ENTRIES", 3)
    world, store = World(), MemoryRunStore()
    agent = Agent(name="a", tools=[world.tool("one")])
    with pytest.raises(JournalError, match="run 'r' has 4 entries of") as caught:
        await run(agent, "go", provider=ScriptedModel(call("one")), journal=store, run_id="r")
    assert caught.value.messages[2].content == "one is done"


def asked(model: ScriptedModel) -> list[str | None]:
    return [request.settings and request.settings.tool_choice for request in model.requests]


@pytest.mark.parametrize("place", ["agent", "run"])
async def test_a_call_that_was_forced_is_not_forced_again_by_who_goes_on(place):
    world, store, forced = World(), MemoryRunStore(), ModelSettings(tool_choice="one")
    agent = Agent(
        name="a", tools=[world.tool("one")], settings=forced if place == "agent" else None
    )
    given = {"settings": forced} if place == "run" else {}
    model = ScriptedModel(call("one"), ModelError("overloaded"), "done")
    with pytest.raises(ModelError):
        await run(agent, "go", provider=model, journal=store, run_id="r", **given)
    await run(agent, "go", provider=model, journal=store, run_id="r", **given)
    assert (asked(model), world.done) == (["one", None, None], ["one"])


async def test_who_took_over_before_the_crash_forces_its_own_first_call_once():
    world, store = World(), MemoryRunStore()
    forced = ModelSettings(tool_choice="one")
    target = Agent(name="billing", tools=[world.tool("one")], settings=forced)
    agent = Agent(name="triage", handoffs=[target])
    failed = ModelError("overloaded")
    model = ScriptedModel(call("transfer_to_billing"), failed, call("one"), failed, "done")
    settings = ModelSettings(tool_choice="required")
    for _ in range(2):
        with pytest.raises(ModelError):
            await run(agent, "go", provider=model, journal=store, run_id="r", settings=settings)
    result = await run(agent, "go", provider=model, journal=store, run_id="r", settings=settings)
    assert asked(model) == ["required", "one", "one", None, None]
    assert (result.output, world.done) == ("done", ["one"])
