"""Calls that wait for a person, beside journals, sessions, guardrails and runs inside of runs."""

import asyncio
from typing import Any

import pytest
from support.shop import Shop, clerk, results

from orbiter import Agent, Swarm, run, tool
from orbiter.approval import ask_user
from orbiter.errors import InputAnswerError, JournalError, ModelRetry
from orbiter.guardrails import Guardrail
from orbiter.journal import Decided, ToolDone, Waiting, read_entry
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ModelError,
    ScriptedModel,
    call,
)
from orbiter.replay import CUT_OFF
from orbiter.run_store import MemoryRunStore
from orbiter.session import MemorySession
from orbiter.types import OrbiterError, RunContext, ToolCall, UserMessage

from .kept_runs import prefix

BOTH = [call("look", order=1), call("refund", order=7)]


def kept(model: Any, store: MemoryRunStore, **more: Any) -> dict[str, Any]:
    return {"provider": model, "journal": store, "run_id": "r", **more}


def kinds(store: MemoryRunStore) -> list[type]:
    return [type(read_entry(text)) for text in store._runs["r"]]


async def test_a_run_that_is_kept_waits_and_goes_on_under_its_run_id():
    shop, store, model = Shop(), MemoryRunStore(), ScriptedModel(BOTH, "done")
    first = await run(clerk(shop), "hi", **kept(model, store))
    entries = [read_entry(text) for text in store._runs["r"]]
    done = [entry.result.tool_name for entry in entries if isinstance(entry, ToolDone)]
    assert (first.stop_reason, done) == ("input_required", ["look"])
    resumed = {"resume": first.paused, "answers": [first.requests[0].approve()]}
    for _ in range(2):
        last = await run(clerk(shop), "", **kept(model, store), **resumed)
        assert (last.output, last.steps, last.usage.total_tokens) == ("done", 2, 30)
        assert shop.did == ["look 1", "refund 7 5"]
    assert last.messages[0] == UserMessage(content="hi")
    assert len(model.requests) == 2
    # and so does the call that began it
    again = await run(clerk(shop), "hi", **kept(model, store))
    assert (again.messages, again.usage) == (last.messages, last.usage)


async def test_the_same_call_waits_for_the_same_thing():
    shop, store, model = Shop(), MemoryRunStore(), ScriptedModel(BOTH)
    first = await run(clerk(shop), "hi", **kept(model, store))
    stream = run.stream(clerk(shop), "hi", **kept(model, store))
    events = [event async for event in stream]
    assert [event.type for event in events] == ["input_request", "result"]
    again = stream.result
    assert (again.requests, again.messages) == (first.requests, first.messages)
    assert (again.paused, again.usage, again.steps) == (first.paused, first.usage, first.steps)
    assert kinds(store).count(Waiting) == 1


async def test_what_was_approved_is_not_run_twice_wherever_its_process_stops():
    shop, store = Shop(), MemoryRunStore()
    first = await run(clerk(shop), "hi", **kept(ScriptedModel(BOTH), store))
    waiting = len(store._runs["r"])
    edited = first.requests[0].approve(arguments={"order": 8})
    resumed = {"resume": first.paused, "answers": [edited]}
    await run(clerk(shop), "", **kept(ScriptedModel("done"), store), **resumed)
    note = '(A person changed the arguments to {"order":8}.)\n'
    for count in range(waiting, len(store._runs["r"]) + 1):
        before = prefix(store, count)
        begun, done = Decided in kinds(before), kinds(before).count(ToolDone) > 1
        later, model = Shop(), ScriptedModel("done")
        last = await run(clerk(later), "", **kept(model, before), **resumed)
        assert last.output == "done"
        assert later.did == ([] if begun else ["refund 8 5"])
        told = CUT_OFF if begun and not done else "refunded"
        assert results(last) == {"call_1": "order 1: a lamp", "call_2": note + told}


async def test_a_sibling_that_may_have_begun_is_not_run_twice_and_the_call_waits_on():
    begun = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    shop, store = Shop(), MemoryRunStore()
    agent = Agent(name="clerk", tools=[shop.refund, hang])
    model = ScriptedModel([call("refund", order=7), call("hang")], "done")
    running = asyncio.create_task(run(agent, "hi", **kept(model, store)))
    await begun.wait()
    running.cancel()
    await asyncio.wait([running])
    first = await run(agent, "hi", **kept(model, store))
    assert first.stop_reason == "input_required"
    resumed = {"resume": first.paused, "answers": [first.requests[0].approve()]}
    last = await run(agent, "", **kept(model, store), **resumed)
    assert results(last) == {"call_1": "refunded", "call_2": CUT_OFF}
    assert (last.output, shop.did) == ("done", ["refund 7 5"])


async def test_a_denial_is_kept_and_a_second_pause_is_another_one():
    shop, store = Shop(), MemoryRunStore()
    model = ScriptedModel(
        call("refund", order=1), call("refund", order=2), ModelError("overloaded"), "done"
    )
    first = await run(clerk(shop), "hi", **kept(model, store))
    no = {"resume": first.paused, "answers": [first.requests[0].deny("too much")]}
    second = await run(clerk(shop), "", **kept(model, store), **no)
    assert (await run(clerk(shop), "", **kept(model, store), **no)).paused == second.paused
    yes = {"resume": second.paused, "answers": [second.requests[0].approve()]}
    with pytest.raises(ModelError) as failed:
        await run(clerk(shop), "", **kept(model, store), **yes)
    assert failed.value.run_id == "r"
    last = await run(clerk(shop), "", **kept(model, store), **yes)
    assert (last.output, last.steps, shop.did) == ("done", 4, ["refund 2 5"])
    assert "a person denied it: too much" in results(last)["call_1"]


async def test_a_handoff_beside_a_call_that_waits_is_made_when_it_goes_on():
    shop, store = Shop(), MemoryRunStore()
    desk = Agent(name="desk", tools=[shop.refund], handoffs=[Agent(name="other")])
    model = ScriptedModel([call("transfer_to_other"), call("refund", order=7)], "done")
    first = await run(desk, "hi", **kept(model, store))
    resumed = {"resume": first.paused, "answers": [first.requests[0].approve()]}
    for _ in range(2):
        last = await run(desk, "", **kept(model, store), **resumed)
        assert (last.output, last.last_agent, shop.did) == ("done", "other", ["refund 7 5"])


async def test_another_pause_than_that_of_the_journal_is_refused():
    shop, store = Shop(), MemoryRunStore()
    first = await run(clerk(shop), "hi", **kept(ScriptedModel(BOTH), store))
    other = await run(clerk(shop), "hi", provider=ScriptedModel(call("refund", order=9)))
    answer = {"resume": other.paused, "answers": [other.requests[0].approve()]}
    for run_id in ("r", "nobody's"):
        with pytest.raises(JournalError, match=f"run '{run_id}' does not wait for what"):
            await run(clerk(shop), "", journal=store, run_id=run_id, **answer)
    wrong = first.requests[0].approve(arguments={"order": "many"})
    before = list(store._runs["r"])
    with pytest.raises(InputAnswerError, match="what it does not take"):
        await run(clerk(shop), "", journal=store, run_id="r", resume=first.paused, answers=[wrong])
    assert store._runs["r"] == before
    assert shop.did == ["look 1"]


@pytest.mark.parametrize("journal", [True, False])
async def test_a_session_has_the_turn_once_when_it_has_gone_on(journal: bool):
    shop, session, store = Shop(), MemorySession(), MemoryRunStore()
    await run(clerk(shop), "before", provider=ScriptedModel("yes?"), session=session)
    desk = Agent(name="desk", handoffs=[clerk(shop)])
    model = ScriptedModel(call("transfer_to_clerk"), call("refund", order=7), "done")
    options = kept(model, store, session=session)
    if not journal:
        options = {"provider": model, "session": session}
    first = await run(desk, "hi", **options)
    assert len(await session.load()) == 2
    resumed = {"resume": first.paused, "answers": [first.requests[0].approve()]}
    last = await run(desk, "", **options, **resumed)
    assert await session.load() == last.messages
    assert [m.role for m in last.messages][2:] == [
        "user", "assistant", "tool", "assistant", "tool", "assistant"
    ]  # fmt: skip


async def test_guardrails_see_the_arguments_of_a_person_and_may_refuse_them():
    seen: list[str] = []

    class Limit(Guardrail):
        async def check_tool_call(self, run: RunContext, call: ToolCall) -> None:
            seen.append(call.arguments)
            if "99" in call.arguments:
                raise ModelRetry("at most 50")

        async def check_output(self, run: RunContext, output: Any) -> None:
            seen.append(output)

    shop = Shop()
    agent = clerk(shop, guardrails=[Limit()])
    model = ScriptedModel(call("refund", order=7), "done")
    first = await run(agent, "hi", provider=model)
    # nobody calls the tool yet, and what was said so far is no output
    assert seen == []
    answer = first.requests[0].approve(arguments={"order": 7, "amount": 99})
    last = await run(agent, "", provider=model, resume=first.paused, answers=[answer])
    assert seen == ['{"amount":99,"order":7}', "done"]
    assert results(last)["call_1"].endswith("Tool 'refund' was not called: at most 50")
    assert shop.did == []


async def test_the_time_of_a_tool_holds_for_a_call_that_was_approved():
    @tool(approval=True, timeout=0.01)
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    agent = Agent(name="clerk", tools=[hang])
    model = ScriptedModel(call("hang"), "done")
    first = await run(agent, "hi", provider=model)
    last = await run(
        agent, "", provider=model, resume=first.paused, answers=[first.requests[0].approve()]
    )
    assert "0.01" in results(last)["call_1"]
    assert last.output == "done"


async def test_an_agent_that_is_asked_by_a_tool_cannot_wait_and_its_caller_is_told():
    shop = Shop()
    expert = Agent(name="clerk")
    lead = Agent(name="lead", tools=[expert.as_tool()])
    expert.tools.append(shop.refund)  # as by a server of MCP that offers more later
    model = ScriptedModel(call("clerk", input="refund 7"), call("refund", order=7), "so be it")
    result = await run(lead, "hi", provider=model)
    assert (result.output, result.stop_reason, shop.did) == ("so be it", "completed", [])
    assert "in a run that cannot" in results(result)["call_1"]


def test_an_agent_with_tools_that_wait_is_no_tool():
    shop = Shop()
    desk = Agent(name="desk", handoffs=[clerk(shop)])
    expert = Agent(name="expert").as_tool()
    expert.approval = True
    for target in (
        clerk(shop),
        desk,
        Swarm(name="press", agents=[desk], mode="handoff"),
        Agent(name="chief", tools=[expert]),
        Agent(name="buyer", tools=[ask_user]),
        Agent(name="payer", tools=[tool(approval=lambda _: False)(look_up)]),
    ):
        with pytest.raises(OrbiterError, match=r"as_tool\(\): .* which waits for a person"):
            target.as_tool()


def look_up(order: int) -> str:
    """Look."""
    return f"{order}"


async def test_a_tool_that_asks_an_agent_may_wait_itself():
    ask = Agent(name="expert").as_tool()
    ask.approval = True
    lead = Agent(name="lead", tools=[ask])
    model = ScriptedModel(call("expert", input="?"), "42", "it is 42")
    first = await run(lead, "hi", provider=model)
    last = await run(
        lead, "", provider=model, resume=first.paused, answers=[first.requests[0].approve()]
    )
    assert (last.output, results(last), last.steps) == ("it is 42", {"call_1": "42"}, 3)


@pytest.mark.parametrize("journal", [True, False])
async def test_model_calls_of_nested_runs_still_count_when_a_run_has_waited(journal: bool):
    shop, store = Shop(), MemoryRunStore()
    expert = Agent(name="expert")
    lead = Agent(name="lead", tools=[shop.refund, expert.as_tool()], max_steps=2)
    model = ScriptedModel([call("refund", order=7), call("expert", input="?")], "42", "done")
    options = kept(model, store) if journal else {"provider": model}
    first = await run(lead, "hi", **options)
    assert first.steps == 2
    answers = [first.requests[0].approve()]
    last = await run(lead, "", **options, resume=first.paused, answers=answers)
    assert (last.output, last.steps, last.usage.total_tokens) == ("done", 3, 45)


def test_swarms_inside_of_a_flow_refuse_tools_that_wait():
    shop = Shop()
    inner = Swarm(name="inner", agents=[clerk(shop), Agent(name="other")], mode="team")
    with pytest.raises(OrbiterError, match="agent 'clerk' has the tool 'refund', which waits"):
        Swarm(agents=[inner])
    with pytest.raises(OrbiterError, match="the worker of a team cannot wait"):
        Swarm(agents=[Agent(name="lead"), inner], mode="team")
