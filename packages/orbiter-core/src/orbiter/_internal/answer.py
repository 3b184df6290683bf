"""The final answer of an agent: how it is asked for, taken, checked, or asked for again."""

from typing import Any

from orbiter._internal.output_parser import (
    OutputValidationError,
    correction,
    explain_cut,
    schema_request,
    tries_left,
)
from orbiter._internal.turn import Turn
from orbiter._output import MisfitError
from orbiter.agent import Agent
from orbiter.errors import ModelRetry
from orbiter.types import (
    AssistantMessage,
    RunContext,
    StopReason,
    TextEvent,
    ToolCall,
    ToolResult,
    UserMessage,
)

_TOOL = "final_answer"
_BY_CALL = "Give your final answer by calling the tool `{}`, and in no other way."
_TAKEN = "This is the final answer."
_TOO_LATE = "not called: the final answer came with it"


def ask_for_output(turn: Turn, schema: dict[str, Any]) -> None:
    """Have the model answer by a schema: by the vendor's own mode, a tool call, or its prompt."""
    provider, plan = turn.provider, turn.plan
    takes = getattr(provider, "takes_schema", None)
    can = getattr(provider, "structured_output", False)
    beside = getattr(provider, "schema_beside_tools", True)
    if (takes is not None and not takes(schema)) or (can and plan.schemas and not beside):
        name = _TOOL
        while name in plan.tools or name in plan.handoffs:
            name += "_"
        turn.answer_tool = name
        plan.schemas = [*(plan.schemas or ()), _tool(name, schema)]
        turn.suffix += f"\n\n{_BY_CALL.format(name)}"
    elif can:
        turn.held_to_schema = True
    else:
        turn.suffix += f"\n\n{schema_request(schema)}"


def _tool(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    description = "Give the final answer."
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": schema},
    }


async def conclude(turn: Turn, text: str) -> None:
    """Take `text` for the final output, or ask the model to correct it.

    Raises:
        OutputValidationError: It was asked often enough.
    """
    try:
        await _read(turn, text)
    except (MisfitError, ModelRetry) as problem:
        _count(turn, problem)
        if isinstance(problem, MisfitError):
            words = correction(str(problem))
        else:
            words = f"Your answer was not accepted: {problem}\n{tries_left(_left(turn))}"
        if turn.answer_tool is not None:
            words += f" {_BY_CALL.format(turn.answer_tool)}"
        message = UserMessage(content=words)
        turn.add(message)
        if turn.journal is not None:
            await turn.journal.said(message)


async def take_answer(turn: Turn, calls: list[ToolCall], results: dict[str, ToolResult]) -> None:
    """Take the final answer from the calls of a step, if it is among them.

    Args:
        turn: Whose calls.
        calls: All of them.
        results: Receives those of the answer; of all calls when the answer was taken.

    Raises:
        OutputValidationError: It was asked often enough.
    """
    answers = [call for call in calls if call.name == turn.answer_tool]
    for call in answers:
        try:
            await _read(turn, call.arguments)
        except (MisfitError, ModelRetry) as problem:
            _count(turn, problem)
            told = f"The answer was not accepted: {problem}\n{tries_left(_left(turn))}"
            results[call.id] = _result(call, error=told)
            continue
        for other in calls:
            results.setdefault(other.id, _result(other, error=_TOO_LATE))
        results[call.id] = _result(call, content=_TAKEN)
        if turn.state.emit is not None:
            await turn.state.emit(TextEvent(text=call.arguments, agent_name=turn.agent.name))
        return


def break_off(turn: Turn, message: AssistantMessage, cut: StopReason) -> None:
    """Take a reply that is not whole for the last one of the run; what it calls may be cut too.

    Raises:
        OutputValidationError: It had to be of a type.
    """
    for call in message.tool_calls:
        turn.add(_result(call, error=f"not called: the reply was cut off ({cut})"))
    turn.cut = cut
    expected = turn.agent.expected
    if expected is not None:
        problem, advice = explain_cut(cut, message.content, _limit(turn))
        raise OutputValidationError(
            turn.agent.name, expected.name, problem, advice=advice, stop_reason=cut
        )


async def output_again(agent: Agent, run: RunContext, text: str) -> Any:
    """Read the output from the answer of a run that is over; its validators check it again.

    Raises:
        OutputValidationError: It is none any more.
    """
    try:
        return await _value(agent, run, text)
    except (MisfitError, ModelRetry) as problem:
        raise OutputValidationError(agent.name, _expected(agent), str(problem)) from problem


async def _read(turn: Turn, text: str) -> None:
    turn.output = await _value(turn.agent, turn.run, text)
    turn.done, turn.answer = True, text


async def _value(agent: Agent, run: RunContext, text: str) -> Any:
    value: Any = text if agent.expected is None else agent.expected.parse(text)
    for validator in agent.output_validators:
        value = await validator(run, value)
    return value


def _expected(agent: Agent) -> str:
    return "output" if agent.expected is None else agent.expected.name


def _count(turn: Turn, problem: Exception) -> None:
    turn.misfits += 1
    if _left(turn) < 0:
        name = turn.agent.name
        raise OutputValidationError(name, _expected(turn.agent), str(problem)) from problem


def _left(turn: Turn) -> int:
    return turn.agent.retries - turn.misfits


def _limit(turn: Turn) -> int | None:
    for settings in (turn.once, turn.settings):
        if settings is not None and "max_tokens" in settings.model_fields_set:
            return settings.max_tokens
    return turn.agent.max_tokens


def _result(call: ToolCall, content: str = "", error: str | None = None) -> ToolResult:
    return ToolResult(tool_call_id=call.id, tool_name=call.name, content=content, error=error)
