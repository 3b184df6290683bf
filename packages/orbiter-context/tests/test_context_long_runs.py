"""One prompt and two hundred tool calls of 3,000 tokens, and what a vendor's cache makes of it."""

import json
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from support.anthropic_bill import Cache
from support.model_wire import Answer

from orbiter import Agent, run, tool
from orbiter.context import Context, ContextConfig
from orbiter.context.tokens import message_tokens
from orbiter.models import ScriptedModel, call
from orbiter.types import Message, ToolResult, Usage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

CALLS = 200
PROMPT = "Read all of the reports and tell which lab was the first."
MODES = pytest.mark.parametrize("mode", ["copilot", "navigator"])


@tool
async def report(number: int) -> str:
    """Fetch a report."""
    return f"Report {number}. " + "It measured. " * 920


def context(mode: str, **config: Any) -> Context:
    return Context(task_id="reports", config=ContextConfig.model_validate({"mode": mode, **config}))


def reading(limit: int = CALLS) -> Any:
    """A model that asks for one report after the other, however its context changes."""
    numbers = iter(range(limit))

    def reply(messages: list[Message]) -> Any:
        if "You keep the summary" in messages[0].content:
            return "They read reports."
        number = next(numbers, None)
        return "The first." if number is None else call("report", number=number)

    return ScriptedModel(reply, repeat=True)


def agent_requests(model: ScriptedModel) -> list[list[Message]]:
    asked = [request.messages for request in model.requests]
    return [m for m in asked if not m[0].content.startswith("You keep the summary")]


def changes(requests: list[list[Any]]) -> int:
    """Count the requests that do not begin with all of the one before."""
    return sum(after[: len(before)] != before for before, after in pairwise(requests))


@MODES
@pytest.mark.parametrize("window", [None, 32_000, 16_000])
async def test_200_calls_of_3000_tokens_stay_under_budget(mode: str, window: int | None) -> None:
    ctx = context(mode, window_tokens=window)
    budget = (window or 128_000) * 0.6
    model = reading()
    agent = Agent(
        name="a", instructions="Be brief.", tools=[report], context=ctx, max_steps=CALLS + 1
    )
    result = await run(agent, PROMPT, provider=model)
    assert (result.output, result.steps) == ("The first.", CALLS + 1)
    found = [m for m in result.messages if isinstance(m, ToolResult)]
    assert all(2_990 < message_tokens(m) < 3_020 for m in found)
    requests = agent_requests(model)
    assert len(requests) == CALLS + 1
    assert max(sum(map(message_tokens, request)) for request in requests) <= budget
    assert all(PROMPT in request[1].content for request in requests)


class Measured(NamedTuple):
    """What a run cost: how often a prefix changed, shares of the input, and the sums."""

    changed: int
    cached: float
    paid: float
    largest: int
    cost: float


async def measured(vendors: Any, mode: str, **config: Any) -> Measured:
    vendor = vendors("anthropic")
    answers = [Answer(calls=((f"c{n}", "report", {"number": n}),)) for n in range(CALLS)]
    provider = vendor.will(*answers, Answer(text="The first."))
    agent = Agent(
        name="a",
        instructions="Be brief.",
        tools=[report],
        context=context(mode, **config),
        max_steps=CALLS + 1,
    )
    await run(agent, PROMPT, provider=provider)
    cache, bodies = Cache(), [request.body for request in vendor.server.received]
    assert len(bodies) == CALLS + 1
    bills = [cache.bill(body) for body in bodies]
    bare = [[*_bare(body["system"]), *_said(body["messages"])] for body in bodies]
    sent, cost = sum(bill.tokens for bill in bills), sum(bill.cost for bill in bills)
    return Measured(
        changed=changes(bare),
        cached=sum(bill.read for bill in bills) / sent,
        paid=cost / sent,
        largest=max(bill.tokens for bill in bills),
        cost=cost,
    )


def _said(messages: list[Any]) -> list[Any]:
    """Leave out what is added to the newest message for one call."""
    *earlier, newest = _bare(messages)
    assert newest["content"].pop()["text"].startswith("<added_context>")
    return [*earlier, newest]


def _bare(blocks: Any) -> list[Any]:
    texts = json.dumps(blocks).replace(', "cache_control": {"type": "ephemeral"}', "")
    read: list[Any] = json.loads(texts)
    return read


async def test_a_cache_survives_most_steps(vendors: Any) -> None:
    found = await measured(vendors, "copilot")
    assert found.changed <= 15
    assert found.cached > 0.9
    assert found.paid < 0.22
    # this server counts the schemas and the punctuation of JSON, and tells nobody
    assert found.largest < 128_000 * 0.6 * 1.02


async def test_navigator_sends_less_and_changes_more(vendors: Any) -> None:
    found = await measured(vendors, "navigator")
    assert found.changed <= 25
    assert found.cached > 0.85
    assert found.paid < 0.27
    assert found.largest < 128_000 * 0.6 * 1.02


async def test_the_vendors_count_makes_the_budget_true() -> None:
    """A vendor whose tokens are half as long as the estimate's is not sent twice the budget."""
    ctx = context("copilot", window_tokens=32_000)
    sent: list[int] = []
    numbers = iter(range(1_000))

    class Dense(ScriptedModel):
        async def complete(self, messages: list[Message], **options: Any) -> Any:
            reply = await super().complete(messages, **options)
            sent.append(2 * sum(map(message_tokens, messages)) + 1_500)
            return reply.model_copy(update={"usage": Usage(input_tokens=sent[-1])})

    model = Dense(lambda messages: call("report", number=next(numbers)), repeat=True)
    agent = Agent(name="a", tools=[report], context=ctx, max_steps=60)
    await run(agent, PROMPT, provider=model)
    # each call but the second, whose first large result nobody has counted yet
    assert max(sent) <= 32_000 * 0.6
