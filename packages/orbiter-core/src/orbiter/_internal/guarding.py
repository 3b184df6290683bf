"""Asks an agent's guardrails at the points of its run."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from orbiter._asking import PersonNeeded
from orbiter._internal.turn import Turn
from orbiter.errors import ModelRetry
from orbiter.guardrails import Guardrail, GuardrailError
from orbiter.types import ToolCall, ToolResult

Executed = tuple[ToolResult, Exception | None]


@contextmanager
def _named(turn: Turn, guardrail: Guardrail) -> Iterator[None]:
    try:
        yield
    except GuardrailError as error:
        if not error.guardrail:
            error.agent_name, error.guardrail = turn.agent.name, type(guardrail).__name__
        raise


async def check_input(turn: Turn) -> None:
    """Ask whether the agent may be asked this.

    Raises:
        GuardrailError: It may not.
    """
    for guardrail in turn.agent.guardrails:
        with _named(turn, guardrail):
            await guardrail.check_input(turn.run, turn.input)


async def check_output(turn: Turn) -> None:
    """Ask whether the agent's output may be given to anybody.

    Raises:
        GuardrailError: It may not.
    """
    for guardrail in turn.agent.guardrails:
        with _named(turn, guardrail):
            await guardrail.check_output(turn.run, turn.output)


async def guarded(
    turn: Turn, call: ToolCall, execute: Callable[[Turn, ToolCall], Awaitable[Executed]]
) -> Executed:
    """Execute a call that the guardrails allow, and return the result if they allow that.

    Raises:
        GuardrailError: The run is to end.
    """
    try:
        for guardrail in turn.agent.guardrails:
            with _named(turn, guardrail):
                await guardrail.check_tool_call(turn.run, call)
    except ModelRetry as reason:
        return _refused(call, f"Tool '{call.name}' was not called: {reason}"), reason
    result, cause = await execute(turn, call)
    if isinstance(cause, PersonNeeded):
        return result, cause
    try:
        for guardrail in turn.agent.guardrails:
            with _named(turn, guardrail):
                await guardrail.check_tool_result(turn.run, call, result)
    except ModelRetry as reason:
        return _refused(call, str(reason)), reason
    return result, cause


def _refused(call: ToolCall, why: str) -> ToolResult:
    return ToolResult(tool_call_id=call.id, tool_name=call.name, error=why)
