"""Runs the tools of one step. Whatever goes wrong in a tool becomes a result the model can read."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from orbiter._asking import PersonNeeded, person_with
from orbiter._internal.content import content_of
from orbiter._internal.guarding import guarded
from orbiter._internal.output_parser import tries_left
from orbiter._internal.pause import asks
from orbiter._internal.turn import Turn
from orbiter._paused import WAITS
from orbiter.errors import ModelRetry, RetryLimitError
from orbiter.hooks import HookPoint
from orbiter.outputs import as_text
from orbiter.protocols import ContextEngine
from orbiter.tool import ToolArgumentsError
from orbiter.types import OrbiterError, ToolCall, ToolExecutionError, ToolResult, ToolResultEvent

logger = logging.getLogger("orbiter")


async def run_calls(turn: Turn, calls: list[ToolCall], results: dict[str, ToolResult]) -> None:
    """Run tool calls, several at the same time, and put each result under its call's id.

    What is in `results` when this raises (a hook's error, a cancellation) is what was finished.
    """
    if len(calls) == 1:
        await _run_call(turn, calls[0], results)
        return
    try:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(_run_call(turn, call, results))
    except BaseExceptionGroup as errors:
        # tools raise nothing, so this is a hook's or a processor's: raise it as it was
        raise errors.exceptions[0] from None


async def _run_call(turn: Turn, call: ToolCall, results: dict[str, ToolResult]) -> None:
    agent = turn.agent
    context, hooks = agent.context, turn.hooks
    if context is not None:
        await context.process("pre_tool_call", {"agent_name": agent.name, "tool_call": call})
    if hooks is not None and HookPoint.PRE_TOOL_CALL in hooks:
        await hooks.run(turn.event(HookPoint.PRE_TOOL_CALL, tool_call=call))
    if turn.observer is None:
        result, cause = await _guarded(turn, call)
    else:
        with turn.observer.tool_call(agent, call, turn.plan.tools.get(call.name)) as scope:
            result, cause = await _guarded(turn, call)
            scope.done(result, cause)
    if isinstance(cause, PersonNeeded) and call.id in (turn.open or ()):
        return
    results[call.id] = result
    if turn.journal is not None:
        await turn.journal.tools_done([result])
    if hooks is not None and HookPoint.POST_TOOL_CALL in hooks:
        await hooks.run(turn.event(HookPoint.POST_TOOL_CALL, tool_call=call, tool_result=result))
    if context is not None:
        raw = result
        results[call.id] = result = await _process_result(context, agent.name, call, raw)
        if turn.journal is not None and result is not raw:
            await turn.journal.tools_done([result])
    if turn.state.emit is not None:
        await turn.state.emit(result_event(agent.name, result))


def result_event(agent_name: str, result: ToolResult) -> ToolResultEvent:
    """Build the stream event of a result."""
    return ToolResultEvent(
        tool_name=result.tool_name,
        tool_call_id=result.tool_call_id,
        content=result.content,
        error=result.error,
        agent_name=agent_name,
        parts=result.parts,
    )


async def _process_result(
    context: ContextEngine, agent_name: str, call: ToolCall, result: ToolResult
) -> ToolResult:
    field = "content" if result.error is None else "error"
    before = getattr(result, field)
    payload: dict[str, Any] = {
        "agent_name": agent_name, "tool_call": call, "tool_result": before
    }  # fmt: skip
    await context.process("post_tool_call", payload)
    after = payload["tool_result"]
    return result if after is before else result.model_copy(update={field: as_text(after)})


def _guarded(
    turn: Turn, call: ToolCall
) -> Coroutine[Any, Any, tuple[ToolResult, Exception | None]]:
    if turn.agent.guardrails:
        return guarded(turn, call, _execute)
    return _execute(turn, call)


async def _execute(turn: Turn, call: ToolCall) -> tuple[ToolResult, Exception | None]:
    """Return the result, and what was raised when it is an error."""
    tool = turn.plan.tools.get(call.name)
    if tool is None:
        names = ", ".join([*turn.plan.tools, *turn.plan.handoffs]) or "none"
        problem = f"There is no tool '{call.name}'; the tools are: {names}"
        return _failed(call, problem), OrbiterError(problem)
    try:
        arguments = tool.parse(call.arguments)
        if tool.context_parameter is not None:
            arguments[tool.context_parameter] = turn.run
        asked = turn.asked.get(call.id)
        with person_with(None if asked is None else asked.replies):
            value = await tool.execute(**arguments)
        if isinstance(value, str):
            return ToolResult(tool_call_id=call.id, tool_name=call.name, content=value), None
        content, parts = content_of(value)
        return ToolResult(
            tool_call_id=call.id, tool_name=call.name, content=content, parts=parts
        ), None
    except ToolArgumentsError as error:
        return _failed(call, f"Tool '{call.name}' was not called, arguments: {error}"), error
    except ToolExecutionError as error:
        failure = error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # the tool cancelled something of its own; the run goes on
        failure = ToolExecutionError(call.name, RuntimeError(str(error) or "cancelled"))
    except Exception as error:
        failure = ToolExecutionError(call.name, error)
    if isinstance(failure.cause, PersonNeeded):
        question = failure.cause.question
        if why := asks(turn, call, question):
            return _failed(
                call, f"Tool '{call.name}' asks a person, and {why}: {question}"
            ), failure
        return _failed(call, WAITS), failure.cause
    if isinstance(failure.cause, ModelRetry):
        return _failed(call, _again(turn, call.name, failure.cause)), failure.cause
    logger.info("%s", failure, exc_info=failure)
    return _failed(call, str(failure)), failure.cause


def _again(turn: Turn, name: str, cause: ModelRetry) -> str:
    """Word what a tool wants otherwise; a tool that has wanted it too often fails the run."""
    if turn.retried is None:
        turn.retried = {}
    times = turn.retried[name] = turn.retried.get(name, 0) + 1
    left = turn.agent.retries - times
    if left < 0:
        turn.failure = RetryLimitError(turn.agent.name, name, turn.agent.retries, cause)
        return str(cause)
    return f"{cause}\n{tries_left(left)}"


def _failed(call: ToolCall, error: str) -> ToolResult:
    return ToolResult(tool_call_id=call.id, tool_name=call.name, error=error)
