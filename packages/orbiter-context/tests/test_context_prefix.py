"""What is sent begins, call after call, with the same bytes, whatever the engine adds unasked."""

import json
from itertools import pairwise
from typing import Any

import pytest
from support.anthropic_bill import Cache
from support.model_wire import Answer

from orbiter import Agent, run, tool
from orbiter.additions import parted, without_added
from orbiter.context import Context, ContextConfig
from orbiter.context.tools import file_tool, planning_tool
from orbiter.history import to_json
from orbiter.memory import LongTermMemory
from orbiter.models import ModelResponse, ScriptedModel
from orbiter.types import AssistantMessage, Message, SystemMessage, ToolCall, UserMessage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

STEPS = 10
EVERYTHING = ContextConfig(
    mode="navigator", enable_retrieval=True, history_rounds=3, summary_threshold=4,
    neuron_names=["skills"],
)  # fmt: skip
SECTIONS = (
    "Task ID: trip", "What you remember", "## Todo", "## Workspace files", "## Knowledge",
    "## Facts", "## Entities", "<earlier_passages>",
)  # fmt: skip


async def traveller() -> tuple[Agent, list[Message]]:
    """An agent with all that adds something unasked, and a conversation longer than its window."""
    ctx = Context(task_id="trip", config=EVERYTHING)
    ctx.state.update(facts=["The budget is 900."], skills={"book": "books a train"})
    await ctx.knowledge.add("trains.md", content="Night trains to Lisbon leave on Mondays.")
    memory = LongTermMemory()
    await memory.remember(
        [UserMessage(content="My name is Ada and I like Lisbon."), AssistantMessage(content="Ah.")],
        agent_name="guide",
    )
    history: list[Message] = [
        UserMessage(content="The walrus prefers herring on Sundays"),
        AssistantMessage(content="Noted."),
    ]
    for n in range(8):
        history += [UserMessage(content=f"Hello {n}"), AssistantMessage(content="Hello.")]
    tools = [planning_tool, file_tool]
    agent = Agent(
        name="guide", instructions="Guide.", tools=tools, memory=memory, context=ctx, max_steps=20
    )
    return agent, history


QUESTION = "What did the walrus prefer, and when do night trains to Lisbon leave?"


def arguments(step: int) -> tuple[str, dict[str, Any]]:
    if step % 2:
        return "planning_tool", {"action": "add_todo", "item": f"Look at {step}"}
    return "file_tool", {"action": "write_file", "name": f"note-{step}.md", "content": "x"}


def reply(step: int) -> ModelResponse:
    name, given = arguments(step)
    call = ToolCall(id=f"c{step}", name=name, arguments=json.dumps(given))
    return ModelResponse(content=f"Then to Porto City {step}.", tool_calls=[call])


def sent(messages: list[Message]) -> str:
    return to_json(messages)


async def test_system_prompt_and_earlier_messages_are_the_same_bytes_over_ten_steps() -> None:
    agent, history = await traveller()
    replies = [reply(step) for step in range(STEPS)]
    model = ScriptedModel("They said hello.", *replies, "On Mondays.")
    result = await run(agent, QUESTION, messages=history, provider=model)
    requests = [request.messages for request in model.requests[1:]]
    assert len(requests) == STEPS + 1
    prompts = {m.content for request in requests for m in request if isinstance(m, SystemMessage)}
    assert prompts == {"Guide.\n\n## Skills\n- book: books a train"}
    for before, after in pairwise(requests):
        kept = [without_added(message) for message in before]
        assert sent(kept) == sent(after[: len(before)])
        # only the newest message has had something added
        assert before[:-1] == kept[:-1]
        assert before[-1] != kept[-1]
    added = parted(requests[-1][-1].content)[1]
    for section in SECTIONS:
        assert section in added, section
    assert f"note-{STEPS - 2}.md" in added
    assert f"Look at {STEPS - 1}" in added
    # nobody has said it: it stands in no history
    assert "added_context" not in to_json(result.messages)


async def test_anthropic_reads_all_but_the_newest_from_its_cache(vendors: Any) -> None:
    agent, history = await traveller()
    vendor = vendors("anthropic")
    calls = [Answer(calls=((f"c{n}", *arguments(n)),)) for n in range(STEPS)]
    provider = vendor.will(Answer(text="They said hello."), *calls, Answer(text="On Mondays."))
    await run(agent, QUESTION, messages=history, provider=provider)
    bodies = [request.body for request in vendor.server.received[1:]]
    marks = []
    for body in bodies:
        newest = body["messages"][-1]["content"]
        assert newest[-1]["text"].startswith("<added_context>")
        assert "cache_control" not in newest[-1]
        assert "cache_control" in newest[-2]
        marks.append([*body["messages"][:-1], {"role": "user", "content": newest[:-1]}])
    for before, after in pairwise(marks):
        assert bare(after[: len(before)]) == bare(before)


@tool
async def look(number: int) -> str:
    """Look at a page."""
    return f"Page {number}. " + "It measured. " * 150


async def test_a_plan_that_changes_at_each_step_costs_the_cache_nothing(vendors: Any) -> None:
    vendor, steps = vendors("anthropic"), range(30)
    plans = [("planning_tool", {"action": "add_todo", "item": f"Read {n}"}) for n in steps]
    answers = [
        Answer(calls=((f"p{n}", *plans[n]), (f"l{n}", "look", {"number": n}))) for n in steps
    ]
    provider = vendor.will(*answers, Answer(text="Read."))
    agent = Agent(
        name="reader", instructions="Be exact. " * 2000, tools=[planning_tool, look],
        context=Context(task_id="pages"), max_steps=31,
    )  # fmt: skip
    await run(agent, "Read all.", provider=provider)
    cache = Cache()
    bills = [cache.bill(request.body) for request in vendor.server.received]
    sent = sum(bill.tokens for bill in bills)
    assert len(bills) == 31
    assert sum(bill.read for bill in bills) / sent > 0.93
    assert sum(bill.cost for bill in bills) / sent < 0.18


@pytest.mark.parametrize("name", ["openai", "google"])
async def test_others_are_sent_the_same_beginning_too(vendors: Any, name: str) -> None:
    agent, history = await traveller()
    vendor = vendors(name)
    calls = [Answer(calls=((f"c{n}", *arguments(n)),)) for n in range(STEPS)]
    provider = vendor.will(Answer(text="They said hello."), *calls, Answer(text="On Mondays."))
    await run(agent, QUESTION, messages=history, provider=provider)
    field = "contents" if name == "google" else "messages"
    talks = [request.body[field] for request in vendor.server.received[1:]]
    assert len(talks) == STEPS + 1
    for before, after in pairwise(talks):
        assert json.dumps(after[: len(before) - 1]) == json.dumps(before[:-1])
        assert "added_context" in json.dumps(before[-1])
        assert "added_context" not in json.dumps(before[:-1])


def bare(messages: list[Any]) -> str:
    return json.dumps(messages).replace(', "cache_control": {"type": "ephemeral"}', "")
