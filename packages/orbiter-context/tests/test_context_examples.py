"""The first lines every user writes, as they are written in the documentation of the API."""

from pathlib import Path
from typing import Any

import pytest
from support.markdown_blocks import blocks_of, run_blocks, staged

from orbiter import Agent, run, tool
from orbiter.context import (
    Context,
    ContextConfig,
    ContextProcessor,
    Neuron,
    PromptBuilder,
    neuron_registry,
    token_count,
)
from orbiter.context.tools import knowledge_tool, planning_tool
from orbiter.models import ScriptedModel, call

PAGE = Path(__file__).resolve().parents[3] / "docs" / "context.md"


@tool
def search_web(query: str) -> str:
    """Search the web."""
    return f"found {query}"


@pytest.fixture
def ctx() -> Context:
    config = ContextConfig(
        mode="copilot",
        history_rounds=20,
        summary_threshold=30,
        offload_threshold=4000,
        enable_retrieval=True,
    )
    return Context(task_id="task-1", config=config)


def test_hierarchical_state(ctx: Context) -> None:
    ctx.state.set("shared_key", "value")
    child_ctx = ctx.fork(task_id="subtask-1")
    parent_val = child_ctx.state.get("shared_key")
    child_ctx.state.set("progress", "researching")
    assert parent_val == "value"
    assert "progress" not in ctx.state
    ctx.merge(child_ctx)
    assert ctx.state["progress"] == "researching"


async def test_composing_a_prompt(ctx: Context) -> None:
    await ctx.knowledge.add("q.md", content="Quantum computing uses qubits.")
    builder = PromptBuilder(ctx)
    builder.add("system", "You are a helpful assistant.")
    builder.add("task")
    builder.add("history")
    builder.add("knowledge", query="quantum computing")
    builder.add("workspace")
    builder.add("todo")
    builder.add("skills")
    prompt = await builder.build()
    assert prompt.index("task-1") < prompt.index("qubits") < prompt.index("helpful assistant")


async def test_a_custom_neuron(ctx: Context) -> None:
    try:

        @neuron_registry.register("custom_domain")
        class DomainNeuron(Neuron):
            priority = 25

            async def format(self, ctx: Context) -> str:
                data = ctx.state.get("domain_data")
                return f"Domain context:\n{data}"

        ctx.state.set("domain_data", "finance")
        assert neuron_registry.get("custom_domain") is DomainNeuron
        assert neuron_registry.get("custom_domain").priority == 25
        prompt = await PromptBuilder(ctx).add("custom_domain").build()
        assert prompt == "Domain context:\nfinance"
    finally:
        neuron_registry.unregister("custom_domain")


class ToolResultOffloader(ContextProcessor):
    """Offload large tool results to workspace to save context window."""

    event = "post_tool_call"

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        result = payload["tool_result"]
        if token_count(result) > ctx.config.offload_threshold:
            artifact_id = await ctx.workspace.write_artifact(result)
            payload["tool_result"] = f"[Result stored as artifact: {artifact_id}]"


class PromptAugmenter(ContextProcessor):
    """Augment system prompt with context-aware neurons."""

    event = "pre_llm_call"

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        builder = PromptBuilder(ctx)
        for neuron_name in ctx.config.neuron_names:
            builder.add(neuron_name)
        augmented = await builder.build()
        payload["system_prompt"] = augmented


async def test_processors_of_ones_own() -> None:
    ctx = Context(
        task_id="t",
        config=ContextConfig(mode="pilot", neuron_names=["task"], offload_threshold=1),
    )
    ctx.add_processor(ToolResultOffloader())
    ctx.add_processor(PromptAugmenter())
    model = ScriptedModel(call("search_web", query="a"), "done")
    agent = Agent(name="r", instructions="gone", tools=[search_web], context=ctx)
    result = await run(agent, "go", provider=model)
    (artifact,) = await ctx.workspace.list()
    assert result.messages[2].content == f"[Result stored as artifact: {artifact}]"
    assert model.requests[0].messages[0].content.startswith("## Task\nTask ID: t")


async def test_knowledge(ctx: Context) -> None:
    pdf_text = "Quantum entanglement binds particles.\nMore follows."
    await ctx.knowledge.add("report.pdf", content=pdf_text)
    await ctx.knowledge.add("research.md", content="# Research\nGarlic is tasty.")
    results = await ctx.knowledge.search("quantum entanglement", top_k=5)
    for chunk in results:
        assert "entanglement" in chunk.content
        assert chunk.score > 0
    content = await ctx.knowledge.get("report.pdf")
    section = await ctx.knowledge.get_range("report.pdf", start=0, end=50)
    assert content == section == pdf_text


async def test_workspace(ctx: Context) -> None:
    await ctx.workspace.write("output.md", content="report")
    await ctx.workspace.write("data.csv", content="a,b")
    files = await ctx.workspace.list()
    content = await ctx.workspace.read("output.md")
    assert (files, content) == (["data.csv", "output.md"], "report")


async def test_checkpoints(ctx: Context) -> None:
    checkpoint = await ctx.snapshot()
    restored_ctx = await Context.restore(checkpoint)
    checkpoints = await ctx.list_checkpoints()
    assert restored_ctx.task_id == "task-1"
    assert checkpoints == [checkpoint]


async def test_an_agent_with_context_tools(ctx: Context) -> None:
    await ctx.knowledge.add("report.pdf", content="quantum\nother")
    agent = Agent(
        name="researcher",
        tools=[search_web, planning_tool, knowledge_tool],
        context=ctx,
    )
    model = ScriptedModel(
        call("planning_tool", action="add_todo", item="Step 1: Search papers"),
        call("knowledge_tool", action="grep_knowledge", name="report.pdf", pattern="quantum"),
        "done",
    )
    result = await run(agent, "go", provider=model)
    assert [m.content for m in result.messages if m.role == "tool"] == [
        "1. [ ] Step 1: Search papers",
        "quantum",
    ]


async def test_an_agent_with_a_context() -> None:
    ctx = Context(
        task_id="research-task",
        config=ContextConfig(mode="copilot"),
    )
    agent = Agent(
        name="researcher",
        model="openai:gpt-4o",
        instructions="You research topics thoroughly.",
        tools=[search_web],
        context=ctx,
    )
    with staged("openai") as stage:
        stage.script = ScriptedModel("All about it.")
        result = await run(agent, "Research quantum computing")
    assert result.output == "All about it."
    assert ctx.token_usage == {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
    }


async def test_the_page_on_context_tells_what_is_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(neuron_registry)
    try:
        assert await run_blocks(PAGE) == len(blocks_of(PAGE)) > 6
    finally:
        for name in set(neuron_registry) - before:
            neuron_registry.unregister(name)
