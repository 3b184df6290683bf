"""Costs that must not grow: counted in work done, so that a busy machine changes nothing."""

import asyncio
import io
import sqlite3
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from orbiter.context import Context, ContextConfig
from orbiter.models import ModelResponse
from orbiter.types import AssistantMessage, Message, ToolCall, ToolResult, Usage, UserMessage

REPLY = ModelResponse(content="ok")
USAGE = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
CALL = ToolCall(id="1", name="f", arguments="{}")


async def take_step(ctx: Context, messages: list[Message]) -> None:
    await ctx.process(
        "pre_llm_call", {"agent_name": "a", "system_prompt": "x", "messages": messages[:]}
    )
    ctx.record_step("a", USAGE)
    await ctx.process(
        "post_llm_call", {"agent_name": "a", "messages": messages[:], "response": REPLY}
    )
    await ctx.process("pre_tool_call", {"agent_name": "a", "tool_call": CALL})
    await ctx.process(
        "post_tool_call", {"agent_name": "a", "tool_call": CALL, "tool_result": "small"}
    )
    messages.append(AssistantMessage(tool_calls=[CALL]))
    messages.append(ToolResult(tool_call_id="1", tool_name="f", content="small"))


async def calls_made(work: Callable[[], Any]) -> int:
    """Count the Python functions that are entered."""
    count = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        if event == "call":
            count += 1

    sys.setprofile(profile)
    try:
        await work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("mode", ["pilot", "copilot", "navigator"])
async def test_step_1000_does_no_more_than_step_10(mode: Any) -> None:
    ctx = Context(task_id="t", config=ContextConfig(mode=mode, enable_retrieval=True))
    messages: list[Message] = [UserMessage(content="go")]
    await ctx.start_run(agent_name="a", input="go", history=[], provider=None)
    costs = [await calls_made(lambda: take_step(ctx, messages)) for _ in range(1000)]
    assert costs[999] <= costs[9]
    assert costs[9] < 60


async def test_a_run_with_nothing_due_touches_neither_files_nor_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"called with {args}")

    ctx = Context(task_id="t")
    messages: list[Message] = [UserMessage(content="go")]
    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "to_thread", forbidden)
        patched.setattr(threading.Thread, "start", forbidden)
        patched.setattr(sqlite3, "connect", forbidden)
        patched.setattr(io, "open", forbidden)
        patched.setattr("builtins.open", forbidden)
        await ctx.start_run(agent_name="a", input="go", history=[], provider=None)
        await take_step(ctx, messages)
        await ctx.finish_run(agent_name="a", messages=messages, output="ok")
    assert len(await ctx.list_checkpoints()) == 1


async def test_a_context_keeps_no_more_after_many_runs() -> None:
    ctx = Context(task_id="t")

    async def once() -> None:
        await ctx.start_run(agent_name="a", input="go", history=[], provider=None)
        await ctx.finish_run(agent_name="a", messages=[UserMessage(content="go")], output="ok")

    for _ in range(50):
        await once()
    assert len(await ctx.list_checkpoints()) == 10
    assert await calls_made(once) == await calls_made(once)
