from typing import Any

import pytest

from orbiter.context import Context, ContextConfig, ContextError, ContextProcessor, token_count
from orbiter.models import ModelResponse
from orbiter.types import AssistantMessage, Message, ToolCall, ToolResult, UserMessage

EVENTS = ("pre_llm_call", "post_llm_call", "pre_tool_call", "post_tool_call")
CALL = ToolCall(id="1", name="search", arguments="{}")


def context(**config: Any) -> Context:
    return Context(task_id="t", config=ContextConfig(**config))


async def prompt_of(ctx: Context, messages: list[Message] | None = None) -> dict[str, Any]:
    payload = {
        "agent_name": "a", "system_prompt": "Be brief.", "messages": messages or [], "added": ""
    }  # fmt: skip
    await ctx.process("pre_llm_call", payload)
    return payload


async def result_of(ctx: Context, result: str) -> str:
    payload: dict[str, Any] = {"agent_name": "a", "tool_call": CALL, "tool_result": result}
    await ctx.process("post_tool_call", payload)
    return str(payload["tool_result"])


@pytest.mark.parametrize("event", EVENTS)
async def test_a_processor_runs_at_its_event_only(event: Any) -> None:
    seen: list[str] = []

    class Spy(ContextProcessor):
        async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
            seen.append(f"{self.event} of {ctx.task_id}")

    spy = Spy()
    spy.event = event
    ctx = context(mode="pilot")
    ctx.add_processor(spy)
    for each in EVENTS:
        await ctx.process(each, {"agent_name": "a"})
    assert seen == [f"{event} of t"]


async def test_processors_run_in_the_order_they_were_added() -> None:
    class Append(ContextProcessor):
        event = "post_tool_call"

        def __init__(self, text: str) -> None:
            self.text = text

        async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
            payload["tool_result"] += self.text

    ctx = context(mode="pilot")
    ctx.add_processor(Append(" one"))
    ctx.add_processor(Append(" two"))
    assert await result_of(ctx, "zero") == "zero one two"


def test_an_unknown_event_is_refused_with_the_known_ones() -> None:
    class Wrong(ContextProcessor):
        event = "before_llm"  # type: ignore[assignment]

        async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
            pass

    with pytest.raises(ContextError, match=r"Wrong has event 'before_llm'.*pre_llm_call"):
        context().add_processor(Wrong())


async def test_a_child_has_the_processors_of_its_parent() -> None:
    class Shout(ContextProcessor):
        event = "post_tool_call"

        async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
            payload["tool_result"] = payload["tool_result"].upper()

    ctx = context()
    ctx.add_processor(Shout())
    assert await result_of(ctx.fork("child"), "quiet") == "QUIET"


async def test_pilot_changes_nothing() -> None:
    ctx = context(mode="pilot", offload_threshold=10)
    ctx.state.set("todos", [{"item": "x", "done": False}])
    payload = await prompt_of(ctx)
    assert (payload["system_prompt"], payload["added"]) == ("Be brief.", "")
    assert await result_of(ctx, "word " * 1000) == "word " * 1000
    assert await ctx.workspace.list() == []


async def test_pilot_adds_the_neurons_it_is_told_to() -> None:
    ctx = context(mode="pilot", neuron_names=["task"])
    assert (await prompt_of(ctx))["system_prompt"] == "Be brief.\n\n## Task\nTask ID: t"


async def test_copilot_adds_task_plan_and_files_and_leaves_the_instructions() -> None:
    ctx = context()
    ctx.state.set("todos", [{"item": "search", "done": False}])
    await ctx.workspace.write("notes.md", content="")
    payload = await prompt_of(ctx)
    assert payload["system_prompt"] == "Be brief."
    assert payload["added"] == (
        "## Task\nTask ID: t\n\n## Todo\n1. [ ] search\n\n## Workspace files\n- notes.md"
    )


async def test_a_neuron_that_is_named_is_not_added_twice() -> None:
    ctx = context(neuron_names=["task", "skills"])
    ctx.state.set("skills", ["swim"])
    payload = await prompt_of(ctx)
    prompt = payload["system_prompt"]
    assert prompt.count("## Task") == 1
    assert "## Task" not in payload["added"]
    assert prompt.endswith("## Skills\n- swim")


async def test_a_large_result_goes_to_the_workspace_and_a_small_one_stays() -> None:
    ctx = context(offload_threshold=100)
    large = "line of text\n" * 200
    shown = await result_of(ctx, large)
    (name,) = await ctx.workspace.list()
    assert shown.startswith(f"[Result stored as artifact: {name}]")
    assert "line of text" in shown
    assert token_count(shown) <= 150
    assert await ctx.workspace.read(name) == large
    assert await result_of(ctx, "x" * 400) == "x" * 400


async def test_a_result_of_exactly_the_threshold_stays() -> None:
    ctx = Context(
        task_id="t",
        config=ContextConfig(offload_threshold=10),
        token_counter=lambda text: len(text.split()),
    )
    assert "artifact" not in await result_of(ctx, "word " * 10)
    assert "artifact" in await result_of(ctx, "word " * 11)


async def test_offloaded_results_are_searchable_with_retrieval() -> None:
    ctx = context(offload_threshold=100, enable_retrieval=True)
    await result_of(ctx, "filler text\n" * 100 + "The reactor is called Vega.\n" + "more\n" * 50)
    (best, *_) = await ctx.knowledge.search("reactor Vega")
    assert "Vega" in best.content


async def test_copilot_recalls_nothing_unasked_and_navigator_does() -> None:
    for mode, expected in (("copilot", False), ("navigator", True)):
        ctx = context(mode=mode, enable_retrieval=True)
        await ctx.knowledge.add("bees.md", content="Bees dance to tell directions.")
        await ctx.start_run(agent_name="a", input="why do bees dance", history=[], provider=None)
        assert ("Bees dance" in (await prompt_of(ctx))["added"]) is expected


async def test_navigator_without_retrieval_recalls_nothing() -> None:
    ctx = context(mode="navigator")
    await ctx.knowledge.add("bees.md", content="Bees dance to tell directions.")
    await ctx.start_run(agent_name="a", input="why do bees dance", history=[], provider=None)
    payload = await prompt_of(ctx)
    assert "Bees dance" not in payload["system_prompt"] + payload["added"]


async def test_navigator_notes_the_names_the_model_mentions() -> None:
    ctx = context(mode="navigator")
    reply = ModelResponse(content="The lab of Marie Curie in Paris measured it. Radium glows.")
    await ctx.process("post_llm_call", {"agent_name": "a", "messages": [], "response": reply})
    assert ctx.state["entities"] == ["Marie Curie", "Paris"]
    assert "- Marie Curie" in (await prompt_of(ctx))["added"]


def rounds_of_results(count: int, size: int) -> list[Message]:
    messages: list[Message] = [UserMessage(content="go")]
    for n in range(count):
        call = ToolCall(id=str(n), name="f", arguments="{}")
        messages.append(AssistantMessage(tool_calls=[call]))
        messages.append(ToolResult(tool_call_id=str(n), tool_name="f", content=f"{n} " * size))
    return messages


async def test_navigator_shortens_old_tool_results_for_the_call_only() -> None:
    ctx = context(mode="navigator")
    messages = rounds_of_results(17, 1500)
    await ctx.start_run(agent_name="a", input="go", history=[], provider=None)
    shown = (await prompt_of(ctx, messages[:]))["messages"]
    short = [m for m in shown if isinstance(m, ToolResult) and "artifact" in m.content]
    assert [m.tool_call_id for m in short] == [str(n) for n in range(9)]
    assert len(shown) == len(messages)
    assert shown[-1] is messages[-1]
    name = short[0].content.split("artifact: ")[1].split("]")[0]
    assert await ctx.workspace.read(name) == "0 " * 1500


async def test_navigator_reads_each_message_once_and_notices_another_run() -> None:
    ctx = context(mode="navigator")
    messages = rounds_of_results(25, 1500)
    await ctx.start_run(agent_name="a", input="go", history=[], provider=None)
    shortened = []
    for step in range(26):
        shown = (await prompt_of(ctx, messages[: 1 + 2 * step]))["messages"]
        shortened.append(sum("artifact" in m.content for m in shown))
    # nine at a time, so that caches outlive most steps
    assert shortened == [0] * 17 + [9] * 9
    grown = (await prompt_of(ctx, messages[:]))["messages"]
    assert [m.tool_call_id for m in grown if "artifact" in m.content] == [str(n) for n in range(9)]
    other = rounds_of_results(3, 1500)
    assert (await prompt_of(ctx, other))["messages"] == other
