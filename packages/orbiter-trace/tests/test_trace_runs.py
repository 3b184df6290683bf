import asyncio
import sys

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from orbiter import Agent, Swarm, prices, run, tool
from orbiter.config import ModelSettings, TaskConfig
from orbiter.models import FallbackModel, ModelError, ModelResponse, ScriptedModel, call
from orbiter.trace import RunTracer, TraceConfig, trace_span
from orbiter.types import Usage


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def fails() -> str:
    """Fail."""
    raise ValueError("the password is hunter2")


@tool
async def waits() -> str:
    """Never come back."""
    await asyncio.Event().wait()
    return ""


def calc(**options) -> Agent:
    return Agent(name="calc", model="openai:gpt-4o", tools=[add, fails, waits], **options)


async def test_a_run_is_a_tree_of_run_agent_steps_model_calls_and_tools(spans):
    with spans.on():
        await run(calc(), "2 + 3", provider=ScriptedModel(call("add", a=2, b=3), "5"))
    assert spans.names == [
        "invoke_workflow calc",
        "invoke_agent calc",
        "step",
        "chat gpt-4o",
        "execute_tool add",
        "step",
        "chat gpt-4o",
    ]
    assert spans.tree() == {
        "invoke_workflow calc": None,
        "invoke_agent calc": "invoke_workflow calc",
        "step": "invoke_agent calc",
        "chat gpt-4o": "step",
        "execute_tool add": "step",
    }
    assert len({span.context.trace_id for span in spans.all}) == 1
    for span in spans.all:
        assert span.start_time <= span.end_time


async def test_a_model_call_speaks_the_genai_conventions(spans):
    reply = ModelResponse(
        id="r1", model="gpt-4o-2024-08-06", content="5",
        usage=Usage(input_tokens=1000, output_tokens=100, total_tokens=1100),
    )  # fmt: skip
    with spans.on():
        await run(calc(temperature=0.5, max_tokens=9), "?", provider=ScriptedModel(reply))
    span = spans["chat gpt-4o"]
    assert span.kind is SpanKind.CLIENT
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.agent.name": "calc",
        "gen_ai.output.type": "text",
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "gen_ai.response.id": "r1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 100,
        "operation.cost": 0.0035,
    }


async def test_a_model_call_says_which_settings_were_given_and_no_secret(spans):
    settings = ModelSettings(
        top_p=0.9, stop=("END", "X"), seed=7, tool_choice="auto", parallel_tool_calls=False,
        thinking_budget=2000, prompt_caching=False, timeout=30,
        extra_headers={"Authorization": "hunter2"}, extra_body={"key": "hunter2"},
        http_client="hunter2",
    )  # fmt: skip
    agent = calc(settings=ModelSettings(seed=1, temperature=0.2))
    with spans.on():
        await run(agent, "?", provider=ScriptedModel("5"), settings=settings)
    told = spans["chat gpt-4o"].attributes
    given = {name: value for name, value in told.items() if ".request." in name}
    assert given == {
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.temperature": 0.2,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.stop_sequences": ("END", "X"),
        "gen_ai.request.seed": 7,
        "orbiter.request.tool_choice": "auto",
        "orbiter.request.parallel_tool_calls": False,
        "orbiter.request.thinking_budget": 2000,
        "orbiter.request.prompt_caching": False,
        "orbiter.request.timeout": 30,
    }
    assert "hunter2" not in repr([dict(span.attributes) for span in spans.all])


async def test_what_nobody_gave_is_not_told(spans):
    with spans.on():
        await run(calc(), "?", provider=ScriptedModel("5"))
    told = spans["chat gpt-4o"].attributes
    assert [name for name in told if ".request." in name] == ["gen_ai.request.model"]


@pytest.mark.parametrize("stream", [False, True])
async def test_with_a_chain_of_models_the_span_names_the_one_that_answered(spans, stream):
    busy = ScriptedModel(ModelError("overloaded", status=529))
    reply = ModelResponse(
        model="claude-sonnet-4-20250514", provider="anthropic", content="5",
        usage=Usage(input_tokens=1000, output_tokens=100, total_tokens=1100),
    )  # fmt: skip
    chain = FallbackModel(busy, ScriptedModel(reply))
    with spans.on():
        if stream:
            async for _ in run.stream(calc(), "?", provider=chain):
                pass
        else:
            await run(calc(), "?", provider=chain)
    told = spans["chat gpt-4o"].attributes
    assert told["gen_ai.request.model"] == "gpt-4o"
    assert told["gen_ai.provider.name"] == "anthropic"
    assert told["gen_ai.response.model"] == "claude-sonnet-4-20250514"
    assert told["operation.cost"] == pytest.approx(0.0045)


async def test_a_model_without_a_known_price_has_no_cost(spans):
    agent = Agent(name="a", model="openai:made-up")
    with spans.on():
        await run(agent, "?", provider=ScriptedModel("hi"))
    assert "operation.cost" not in spans["chat made-up"].attributes


async def test_without_the_price_table_there_is_no_cost_and_no_error(spans, monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    for cached in (prices._table, prices._price):
        cached.cache_clear()
    with spans.on():
        await run(calc(), "?", provider=ScriptedModel("hi"))
    prices._table.cache_clear()
    prices._price.cache_clear()
    assert spans["chat gpt-4o"].attributes["gen_ai.usage.input_tokens"] == 10
    assert "operation.cost" not in spans["chat gpt-4o"].attributes


async def test_the_run_says_how_it_ended(spans):
    with spans.on():
        limits = TaskConfig(timeout=0.05)
        await run(calc(), "?", provider=ScriptedModel(call("waits")), config=limits)
    told = spans["invoke_workflow calc"].attributes
    assert told["orbiter.run.stop_reason"] == "timeout"
    assert told["orbiter.run.steps"] == 1
    assert (
        spans["execute_tool waits"].attributes["error.type"] == "asyncio.exceptions.CancelledError"
    )
    assert spans["invoke_agent calc"].status.status_code is StatusCode.UNSET


async def test_a_tools_error_is_told_by_its_type_only(spans):
    with spans.on():
        await run(calc(), "?", provider=ScriptedModel(call("fails"), call("gone"), "sorry"))
    span = spans["execute_tool fails"]
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "ValueError"
    assert spans["execute_tool gone"].status.status_code is StatusCode.ERROR
    assert "hunter2" not in spans.text()


async def test_a_models_error_marks_every_span_around_it(spans):
    with spans.on(), pytest.raises(ModelError):
        await run(calc(), "?", provider=ScriptedModel(ModelError("bad key sk-12345", model="m")))
    for name in ("chat gpt-4o", "step", "invoke_agent calc", "invoke_workflow calc"):
        assert spans[name].attributes["error.type"] == "orbiter.models.types.ModelError"
    assert "sk-12345" not in spans.text()


async def test_a_streamed_run_is_the_same_tree(spans):
    with spans.on():
        provider = ScriptedModel(call("add", a=2, b=3), "5")
        async for _ in run.stream(calc(), "2 + 3", provider=provider):
            pass
    assert spans.names.count("chat gpt-4o") == 2
    assert spans.tree()["execute_tool add"] == "step"
    assert spans.all[-1].attributes["gen_ai.request.stream"] is True


async def test_a_reader_who_leaves_closes_the_spans_as_cancelled(spans):
    with spans.on():
        async with run.stream(calc(), "?", provider=ScriptedModel(call("waits"))) as stream:
            async for event in stream:
                if event.type == "tool_call":
                    break
    told = spans["invoke_workflow calc"]
    assert told.attributes["error.type"] == "asyncio.exceptions.CancelledError"
    assert spans.names[:2] == ["invoke_workflow calc", "invoke_agent calc"]


async def test_a_handoff_is_a_span_and_both_agents_stand_in_one_run(spans):
    billing = Agent(name="billing")
    triage = Agent(name="triage", handoffs=[billing])
    with spans.on():
        await run(triage, "refund", provider=ScriptedModel(call("transfer_to_billing"), "done"))
    handoff = spans["handoff billing"]
    assert handoff.attributes["orbiter.handoff.target"] == "billing"
    assert handoff.attributes["gen_ai.agent.name"] == "triage"
    assert spans.tree()["invoke_agent billing"] == "invoke_workflow triage"
    assert spans.tree()["handoff billing"] == "step"


async def test_a_teams_worker_stands_under_the_tool_that_called_it(spans):
    team = Swarm(agents=[Agent(name="lead"), Agent(name="worker")], mode="team")
    provider = ScriptedModel(call("delegate_to_worker", task="dig"), "dug", "done")
    with spans.on():
        await run(team, "go", provider=provider)
    tree = spans.tree()
    assert tree["invoke_agent worker"] == "execute_tool delegate_to_worker"
    assert tree["invoke_agent lead"] == "invoke_workflow team lead, worker"


async def test_the_branches_of_a_flow_are_siblings(spans):
    swarm = Swarm(agents=[Agent(name=n) for n in "abc"], flow="(a | b) >> c")
    with spans.on():
        await run(swarm, "go", provider=ScriptedModel("x", "y", "z"))
    tree = spans.tree()
    root = "invoke_workflow (a | b) >> c"
    assert [tree[f"invoke_agent {n}"] for n in "abc"] == [root] * 3


async def test_a_run_inside_of_a_tool_joins_the_tree(spans):
    @tool
    async def ask() -> str:
        """Ask another agent."""
        return str((await run(Agent(name="inner"), "?", provider=ScriptedModel("hi"))).output)

    with spans.on():
        outer = Agent(name="outer", tools=[ask])
        await run(outer, "go", provider=ScriptedModel(call("ask"), "done"))
    assert spans.tree()["invoke_workflow inner"] == "execute_tool ask"
    assert len({span.context.trace_id for span in spans.all}) == 1


async def test_concurrent_runs_are_trees_of_their_own(spans):
    with spans.on():
        await asyncio.gather(
            *(
                run(calc(), "?", provider=ScriptedModel(call("add", a=1, b=1), "2"))
                for _ in range(20)
            )
        )
    traces = {}
    for span in spans.all:
        traces.setdefault(span.context.trace_id, []).append(span)
    assert len(traces) == 20
    for members in traces.values():
        ids = {span.context.span_id for span in members}
        assert len(ids) == 7
        assert sum(span.parent is None for span in members) == 1
        assert all(span.parent.span_id in ids for span in members if span.parent)


async def test_one_agent_can_be_traced_alone(spans):
    @tool
    async def look() -> str:
        """Look."""
        with trace_span("inside"):
            return "seen"

    with RunTracer(TraceConfig(exporters=spans.exporter)) as tracer:
        mine = Agent(name="mine", tools=[look], hooks=[tracer])
        await run(mine, "?", provider=ScriptedModel(call("look"), "hi"))
        await run(Agent(name="other"), "?", provider=ScriptedModel("hi"))
        with trace_span("outside"):
            pass
    assert spans.names[0] == "invoke_agent mine"
    assert spans.tree()["inside"] == "execute_tool look"
    assert not {"invoke_agent other", "outside"} & set(spans.names)


async def test_an_unsampled_trace_leaves_nothing_out_of_its_children(spans):
    with spans.on(sample_ratio=0):
        await run(calc(), "?", provider=ScriptedModel(call("add", a=1, b=1), "2"))
    assert spans.names == []


async def test_an_agent_that_is_asked_by_a_tool_stands_under_that_tool(spans):
    expert = Agent(name="expert", model="openai:gpt-4o")
    lead = Agent(name="lead", model="openai:gpt-4o", tools=[expert.as_tool()])
    with spans.on():
        await run(lead, "?", provider=ScriptedModel(call("expert", input="?"), "42", "42."))
    tree = spans.tree()
    assert tree["invoke_agent expert"] == "execute_tool expert"
    whole = spans["invoke_workflow lead"].attributes
    assert (whole["orbiter.run.steps"], whole["orbiter.run.input_tokens"]) == (3, 30)


async def test_the_span_of_a_streamed_call_tells_what_one_in_one_piece_does(spans):
    reply = ModelResponse(id="r1", model="gpt-4o-2024-08-06", provider="openai", content="5")
    with spans.on():
        await run(calc(), "?", provider=ScriptedModel(reply))
        async for _ in run.stream(calc(), "?", provider=ScriptedModel(reply)):
            pass
    whole, streamed = (dict(s.attributes) for s in spans.all if s.name == "chat gpt-4o")
    assert streamed.pop("gen_ai.request.stream") is True
    assert streamed == whole
    assert streamed["gen_ai.response.id"] == "r1"
    assert streamed["gen_ai.response.finish_reasons"] == ("stop",)


async def test_a_swarm_in_a_swarm_is_a_workflow_in_a_workflow(spans):
    inner = Swarm(name="inner", agents=[Agent(name="a")])
    outer = Swarm(agents=[inner, Agent(name="b")], flow="inner >> b")
    with spans.on():
        await run(outer, "?", provider=ScriptedModel("1", "2"))
    tree = spans.tree()
    assert tree["invoke_agent a"] == "invoke_workflow inner"
    assert tree["invoke_workflow inner"] == "invoke_workflow inner >> b"
    assert spans["invoke_workflow inner"].attributes["orbiter.run.steps"] == 1
