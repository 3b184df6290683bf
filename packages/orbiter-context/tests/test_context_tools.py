from typing import Any

import pytest

from orbiter import Agent, run
from orbiter.context import Context, ContextConfig, PromptBuilder, token_count
from orbiter.context.tools import file_tool, knowledge_tool, planning_tool, skill_tool
from orbiter.models import ScriptedModel, call
from orbiter.types import ToolResult

TOOLS = [planning_tool, knowledge_tool, file_tool, skill_tool]


async def use(ctx: Context | None, *calls: Any) -> list[str]:
    """Let an agent make these calls one after the other; return what it was told."""
    agent = Agent(name="a", tools=TOOLS, context=ctx, max_steps=50)
    result = await run(agent, "go", provider=ScriptedModel(*calls, "done"))
    return [m.error or m.content for m in result.messages if isinstance(m, ToolResult)]


@pytest.fixture
def ctx() -> Context:
    return Context(task_id="t")


async def test_todos_are_added_shown_and_ticked_off(ctx: Context) -> None:
    told = await use(
        ctx,
        call("planning_tool", action="get_todo"),
        call("planning_tool", action="add_todo", item="Step 1: Search papers"),
        call("planning_tool", action="add_todo", item="Step 2: Write"),
        call("planning_tool", action="complete_todo", item="Step 1: Search papers"),
        call("planning_tool", action="complete_todo", item="2"),
        call("planning_tool", action="get_todo"),
    )
    assert told[0] == "The list is empty."
    assert told[2] == "1. [ ] Step 1: Search papers\n2. [ ] Step 2: Write"
    assert told[-1] == "1. [x] Step 1: Search papers\n2. [x] Step 2: Write"
    assert ctx.state["todos"] == [
        {"item": "Step 1: Search papers", "done": True},
        {"item": "Step 2: Write", "done": True},
    ]
    prompt = await PromptBuilder(ctx).add("todo").build()
    assert "[x] Step 1: Search papers" in prompt


async def test_the_plan_is_in_the_next_prompt(ctx: Context) -> None:
    model = ScriptedModel(call("planning_tool", action="add_todo", item="read"), "done")
    await run(Agent(name="a", tools=[planning_tool], context=ctx), "go", provider=model)
    assert "read" not in model.requests[0].messages[-1].content
    assert "1. [ ] read" in model.requests[1].messages[-1].content


async def test_a_childs_plan_does_not_change_its_parents(ctx: Context) -> None:
    ctx.state.set("todos", [{"item": "parent's", "done": False}])
    child = ctx.fork("c")
    await use(
        child,
        call("planning_tool", action="complete_todo", item="1"),
        call("planning_tool", action="add_todo", item="own"),
    )
    assert ctx.state["todos"] == [{"item": "parent's", "done": False}]
    assert [todo["done"] for todo in child.state["todos"]] == [True, False]


async def test_mistakes_are_told_to_the_model(ctx: Context) -> None:
    told = await use(
        ctx,
        call("planning_tool", action="add_todo"),
        call("planning_tool", action="complete_todo", item="nothing"),
        call("knowledge_tool", action="get_knowledge", name="gone.md"),
        call("file_tool", action="read_file", name="../secret"),
        call("skill_tool", action="get_skill", name="fly"),
        call("planning_tool", action="dance"),
    )
    assert "needs the item to add" in told[0]
    assert "there is no todo 'nothing'" in told[1]
    assert "there is no document 'gone.md'; there are: none yet" in told[2]
    assert "no name for a workspace file" in told[3]
    assert "there is no skill 'fly'" in told[4]
    assert "action" in told[5]


async def test_without_a_context_the_error_says_what_is_missing() -> None:
    (told,) = await use(None, call("planning_tool", action="get_todo"))
    assert "give agent 'a' one: Agent(context=...)" in told


async def test_documents_are_read_and_searched(ctx: Context) -> None:
    await ctx.knowledge.add("report.pdf", content="Title\nAbout quantum states.\nThe end.")
    told = await use(
        ctx,
        call("knowledge_tool", action="get_knowledge", name="report.pdf"),
        call("knowledge_tool", action="grep_knowledge", name="report.pdf", pattern="Quantum"),
        call("knowledge_tool", action="grep_knowledge", name="report.pdf", pattern="zebra"),
        call("knowledge_tool", action="search_knowledge", pattern="quantum state"),
        call("knowledge_tool", action="search_knowledge", pattern="zebra"),
        call("knowledge_tool", action="list_knowledge"),
    )
    assert told == [
        "Title\nAbout quantum states.\nThe end.",
        "About quantum states.",
        "No line of 'report.pdf' matches 'zebra'.",
        "[report.pdf, line 0]\nTitle\nAbout quantum states.\nThe end.",
        "Nothing about 'zebra' is known.",
        "report.pdf",
    ]


async def test_workspace_files_and_stored_results_are_read_the_same_way(ctx: Context) -> None:
    artifact = await ctx.workspace.write_artifact("line one\nline two")
    told = await use(
        ctx,
        call("file_tool", action="write_file", name="notes.md", content="hello"),
        call("knowledge_tool", action="get_knowledge", name="notes.md"),
        call("file_tool", action="read_file", name="notes.md"),
        call("knowledge_tool", action="grep_knowledge", name=artifact, pattern="two"),
        call("knowledge_tool", action="list_knowledge"),
        call("file_tool", action="list_files"),
    )
    assert told[1:4] == ["hello", "hello", "line two"]
    assert told[4] == told[5] == f"{artifact}\nnotes.md"


async def test_a_large_document_comes_in_pages_that_are_not_stored_again(ctx: Context) -> None:
    lines = [
        f"line {n} of a long document with many words in each of its lines" for n in range(900)
    ]
    await ctx.knowledge.add("big.md", content="\n".join(lines))
    (first,) = await use(ctx, call("knowledge_tool", action="get_knowledge", name="big.md"))
    assert first.startswith("line 0 of")
    assert token_count(first) < ctx.config.offload_threshold
    start = int(first.split("start=")[1].rstrip("]"))
    (second,) = await use(
        ctx, call("knowledge_tool", action="get_knowledge", name="big.md", start=start)
    )
    assert second.startswith(f"line {start} of")
    (last,) = await use(
        ctx, call("knowledge_tool", action="get_knowledge", name="big.md", start=890)
    )
    assert last.endswith("[lines 890 to 900 of 900]")
    assert await ctx.workspace.list() == []


async def test_many_matches_are_cut_and_counted(ctx: Context) -> None:
    await ctx.knowledge.add("big.md", content="match\n" * 150)
    (told,) = await use(
        ctx, call("knowledge_tool", action="grep_knowledge", name="big.md", pattern="match")
    )
    assert told.endswith("\nmatch\n[50 more lines match]")


async def test_rounds_that_left_the_window_are_read_like_documents() -> None:
    config = ContextConfig(history_rounds=1, summary_threshold=1)
    parent = Context(task_id="t", config=config)
    child = parent.fork("c")
    for ctx in (parent, child):
        agent = Agent(name="a", tools=TOOLS, context=ctx)
        messages = (await run(agent, "the walrus", provider=ScriptedModel("ok"))).messages
        model = ScriptedModel("a summary", *[
            call("knowledge_tool", action=action, name="conversation/a", pattern="walrus")
            for action in ("get_knowledge", "search_knowledge", "list_knowledge")
        ], "done")  # fmt: skip
        result = await run(agent, "next", messages=messages, provider=model)
        told = [m.content for m in result.messages if isinstance(m, ToolResult)]
        assert "user: the walrus" in told[0]
        assert "user: the walrus" in told[1]
        assert told[2] == "conversation/a"


async def test_skills_are_listed_and_described(ctx: Context) -> None:
    ctx.state.set("skills", {"search": "finds pages", "write": "writes text"})
    told = await use(
        ctx,
        call("skill_tool", action="list_skills"),
        call("skill_tool", action="get_skill", name="search"),
    )
    assert told == ["search\nwrite", "finds pages"]
    ctx.state.set("skills", ["swim"])
    assert await use(ctx, call("skill_tool", action="list_skills")) == ["swim"]


@pytest.mark.parametrize("tool", TOOLS)
def test_the_model_sees_an_action_but_not_the_run(tool: Any) -> None:
    parameters = tool.to_schema()["function"]["parameters"]
    assert parameters["required"] == ["action"]
    assert "run" not in parameters["properties"]
    assert all(p["description"] for p in parameters["properties"].values())
