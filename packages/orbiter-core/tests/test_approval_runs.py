"""Runs of all kinds that wait for a person: streams, swarms, other processes, what is told whom."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.shop import Shop, clerk, paused, results

from orbiter import Agent, Swarm, run
from orbiter.models import ScriptedModel, call
from orbiter.types import OrbiterError, UserMessage


async def test_a_stream_tells_what_waits_and_then_what_came_of_it():
    shop = Shop()
    model = ScriptedModel([call("look", order=1), call("refund", order=7)], "done")
    events = [event async for event in run.stream(clerk(shop), "hi", provider=model)]
    assert [event.type for event in events] == [
        "step", "usage", "tool_call", "tool_call", "tool_result", "input_request", "result"
    ]  # fmt: skip
    first = events[-1].result
    assert events[-2].request == first.requests[0]
    answer = first.requests[0].approve(arguments={"order": 8})
    stream = run.stream(clerk(shop), "", provider=model, resume=first.paused, answers=[answer])
    events = [event async for event in stream]
    assert [event.type for event in events] == [
        "tool_call", "tool_result", "step", "text", "usage", "result"
    ]  # fmt: skip
    assert events[0].arguments == '{"order":8}'


async def test_a_run_may_pause_again():
    shop = Shop()
    model = ScriptedModel(call("refund", order=1), call("refund", order=2), "done")
    first = await run(clerk(shop), "hi", provider=model)
    second = await run(
        clerk(shop), "", provider=model, resume=first.paused, answers=[first.requests[0].deny()]
    )
    assert second.stop_reason == "input_required"
    assert first.requests[0].id != second.requests[0].id
    last = await run(
        clerk(shop),
        "",
        provider=model,
        resume=second.paused,
        answers=[second.requests[0].approve()],
    )
    assert (last.output, last.steps, shop.did) == ("done", 3, ["refund 2 5"])


async def test_what_was_approved_runs_though_the_agent_has_made_its_last_model_call():
    shop = Shop()
    model, first = await paused(shop, max_steps=1)
    last = await run(
        clerk(shop, max_steps=1),
        "",
        provider=model,
        resume=first.paused,
        answers=[first.requests[0].approve()],
    )
    assert (last.stop_reason, shop.did) == ("max_steps", ["refund 7 5"])


async def test_another_process_goes_on_days_later(tmp_path: Path):
    agents = tmp_path / "shop.py"
    agents.write_text(
        "from orbiter import Agent, tool\n"
        "@tool(approval=True)\n"
        "def refund(order: int) -> str:\n"
        '    """Give money back."""\n'
        "    open('did', 'a').write(f'refund {order};')\n"
        "    return 'refunded'\n"
        "@tool\n"
        "def look(order: int) -> str:\n"
        '    """Look."""\n'
        "    open('did', 'a').write(f'look {order};')\n"
        "    return 'a lamp'\n"
        "clerk = Agent(name='clerk', tools=[refund, look])\n"
    )
    begin = (
        "from shop import *; from orbiter import run; from orbiter.models import *\n"
        "m = ScriptedModel([call('look', order=1), call('refund', order=7)])\n"
        "open('paused', 'w').write(run.sync(clerk, 'hi', provider=m).paused)\n"
    )
    go_on = (
        "from shop import *; from orbiter import run; from orbiter.models import *\n"
        "from orbiter.approval import requests_of\n"
        "kept = open('paused').read(); answers = [requests_of(kept)[0].approve(by='ada')]\n"
        "m = ScriptedModel('done')\n"
        "r = run.sync(clerk, '', provider=m, resume=kept, answers=answers)\n"
        "print(r.output, r.steps, [m.content for m in r.messages])\n"
    )
    for code in (begin, go_on):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.stderr == ""
    assert done.stdout == "done 2 ['hi', '', 'a lamp', 'refunded', 'done']\n"
    assert (tmp_path / "did").read_text() == "look 1;refund 7;"


async def test_context_and_memory_are_told_of_the_whole_turn_once():
    class Memory:
        def __init__(self) -> None:
            self.kept: list[list[str]] = []

        async def recall(self, query: str, *, agent_name: str) -> str | None:
            return f"asked for {query}"

        async def remember(self, messages: Any, *, agent_name: str) -> None:
            self.kept.append([m.role for m in messages])

    shop, memory = Shop(), Memory()
    model = ScriptedModel(call("look", order=1), call("refund", order=7), "done")
    before = [UserMessage(content="before")]
    first = await run(clerk(shop, memory=memory), "hi", provider=model, messages=before)
    assert memory.kept == []
    last = await run(
        clerk(shop, memory=memory),
        "",
        provider=model,
        resume=first.paused,
        answers=[first.requests[0].approve()],
    )
    assert memory.kept == [["user", "assistant", "tool", "assistant", "tool", "assistant"]]
    assert [m.content for m in last.messages if m.role == "user"] == ["before", "hi"]
    assert "asked for hi" in model.requests[-1].messages[-1].content


def test_swarms_that_cannot_wait_refuse_such_tools_at_definition():
    shop = Shop()
    other = Agent(name="other")
    with pytest.raises(OrbiterError, match="agent 'clerk' has the tool 'refund', which waits"):
        Swarm(agents=[other, clerk(shop)])
    with pytest.raises(OrbiterError, match="the worker of a team cannot wait"):
        Swarm(agents=[other, clerk(shop)], mode="team")
    behind = Agent(name="behind", handoffs=[clerk(shop)])
    with pytest.raises(OrbiterError, match="a flow cannot wait"):
        Swarm(agents=[other, behind], flow="other >> behind")
    assert Swarm(agents=[clerk(shop), other], mode="team")
    assert Swarm(agents=[clerk(shop), other], mode="handoff")


async def test_a_tool_that_a_worker_got_later_fails_the_run_and_is_not_called():
    shop = Shop()
    worker = Agent(name="worker")
    team = Swarm(agents=[Agent(name="lead"), worker], mode="team")
    worker.tools.append(shop.refund)
    model = ScriptedModel(
        call("delegate_to_worker", task="refund 7"), call("refund", order=7), "no"
    )
    result = await run(team, "hi", provider=model)
    assert "in a run that cannot" in results(result)["call_1"]
    assert shop.did == []


@pytest.mark.parametrize("mode", ["team", "handoff"])
async def test_who_leads_a_team_or_hands_off_can_wait(mode: Any):
    shop = Shop()
    helper = Agent(name="helper")
    swarm = Swarm(agents=[clerk(shop), helper], mode=mode)
    verb = "delegate_to_helper" if mode == "team" else "transfer_to_helper"
    arguments = {"task": "help"} if mode == "team" else {}
    replies = ["helped"] if mode == "team" else []
    model = ScriptedModel([call(verb, **arguments), call("refund", order=7)], *replies, "done")
    first = await run(swarm, "hi", provider=model)
    assert (first.stop_reason, first.last_agent) == ("input_required", "clerk")
    answers = [first.requests[0].approve()]
    last = await run(swarm, "", provider=model, resume=first.paused, answers=answers)
    assert (last.output, shop.did) == ("done", ["refund 7 5"])
    assert last.last_agent == ("clerk" if mode == "team" else "helper")


async def test_an_agent_behind_a_handoff_is_found_again():
    shop = Shop()
    desk = Agent(name="desk", handoffs=[clerk(shop)])
    model = ScriptedModel(call("transfer_to_clerk"), call("refund", order=7), "done")
    first = await run(desk, "hi", provider=model)
    last = await run(
        desk, "", provider=model, resume=first.paused, answers=[first.requests[0].approve()]
    )
    assert (last.last_agent, last.steps, shop.did) == ("clerk", 3, ["refund 7 5"])
    assert [m.role for m in last.messages] == [
        "user", "assistant", "tool", "assistant", "tool", "assistant"
    ]  # fmt: skip
    with pytest.raises(OrbiterError, match="agent 'clerk' waits, and here are: lonely"):
        await run(
            Agent(name="lonely"), "", resume=first.paused, answers=[first.requests[0].approve()]
        )
