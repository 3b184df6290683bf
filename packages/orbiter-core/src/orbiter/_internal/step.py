"""One step: the model speaks once, and what it asks for is done.

Order, as users see it: context pre_llm_call, PRE_LLM_CALL hooks, model, POST_LLM_CALL hooks,
context post_llm_call, then per tool call context pre_tool_call, PRE_TOOL_CALL hooks, tool,
POST_TOOL_CALL hooks, context post_tool_call. What an agent does not use costs it nothing.
"""

from typing import Any

from orbiter._internal.call_settings import released
from orbiter._internal.message_builder import NO_RESULT, build_messages
from orbiter._internal.model_call import call_model
from orbiter._internal.output_parser import (
    CUT,
    OUTPUT_RETRIES,
    OutputValidationError,
    assistant_message,
    correction,
    explain_cut,
)
from orbiter._internal.state import Emit
from orbiter._internal.tool_runner import result_event, run_calls
from orbiter._internal.turn import Turn
from orbiter._output import MisfitError
from orbiter.agent import Agent
from orbiter.hooks import HookPoint
from orbiter.types import (
    AssistantMessage,
    HandoffEvent,
    Message,
    StepEvent,
    StopReason,
    ToolCall,
    ToolCallEvent,
    ToolResult,
    UsageEvent,
    UserMessage,
)


async def take_step(turn: Turn) -> None:
    """Call the model and act on its reply.

    Afterwards the turn is done, is cut, has a handoff target, or wants another step. The log is
    valid whenever this returns or raises.
    """
    agent, state = turn.agent, turn.state
    context, hooks, emit = agent.context, turn.hooks, state.emit
    state.steps += 1
    if emit is not None:
        await emit(StepEvent(step=state.steps, agent_name=agent.name))
    messages = await _prompt(turn)
    if turn.observer is None:
        reply = await call_model(turn, messages)
    else:
        streamed = emit is not None
        with turn.observer.model_call(agent, messages, turn.provider, streamed=streamed) as scope:
            reply = await call_model(turn, messages)
            scope.done(reply)
    state.count(reply.usage)
    if turn.settings is not None:
        turn.settings, state.settings = released(turn.settings), released(state.settings)
    if context is not None:
        context.record_step(agent.name, reply.usage)
    if hooks is not None and HookPoint.POST_LLM_CALL in hooks:
        await hooks.run(turn.event(HookPoint.POST_LLM_CALL, response=reply))
    if context is not None:
        payload = {"agent_name": agent.name, "messages": turn.view, "response": reply}
        await context.process("post_llm_call", payload)
    if emit is not None:
        await emit(UsageEvent(usage=reply.usage, agent_name=agent.name))
    message = assistant_message(reply, len(turn.view))
    turn.add(message)
    cut = CUT.get(getattr(reply, "finish_reason", None))
    if cut is not None:
        _break_off(turn, message, cut)
    elif message.tool_calls:
        await _act(turn, message.tool_calls)
    else:
        _conclude(turn, message.content)


async def _prompt(turn: Turn) -> list[Message]:
    agent = turn.agent
    text = agent.instructions
    if not isinstance(text, str):
        made = text(turn.run)
        text = made if isinstance(made, str) else await made
    if turn.suffix:
        text = (text + turn.suffix).lstrip()
    view = turn.view
    if agent.context is not None:
        payload: dict[str, Any] = {
            "agent_name": agent.name, "system_prompt": text, "messages": view[:]
        }  # fmt: skip
        await agent.context.process("pre_llm_call", payload)
        text, view = payload["system_prompt"], payload["messages"]
        turn.once = payload.get("settings")
    messages = build_messages(text, view)
    hooks = turn.hooks
    if hooks is not None and HookPoint.PRE_LLM_CALL in hooks:
        await hooks.run(turn.event(HookPoint.PRE_LLM_CALL, messages=messages))
    return messages


async def _act(turn: Turn, calls: list[ToolCall]) -> None:
    """Run the calls of a step; each has its result in the log, however this ends."""
    name, emit, handoffs = turn.agent.name, turn.state.emit, turn.plan.handoffs
    results: dict[str, ToolResult] = {}
    target: Agent | None = None
    work: list[ToolCall] = []
    for call in calls:
        if call.name not in handoffs:
            work.append(call)
        elif target is None:
            target = handoffs[call.name]
            if turn.observer is not None:
                turn.observer.handoff(turn.agent, target, call)
            results[call.id] = _answer(call, content=f"Transferred to {target.name}.")
        else:
            problem = f"The conversation was already transferred to {target.name}."
            results[call.id] = _answer(call, error=problem)
    try:
        if emit is not None:
            await _emit_results(emit, name, calls, results)
        if work:
            await run_calls(turn, work, results)
    finally:
        for call in calls:
            turn.add(results.get(call.id) or _answer(call, error=NO_RESULT))
    if target is not None and emit is not None:
        await emit(HandoffEvent(target=target.name, agent_name=name))
    turn.target = target


async def _emit_results(
    emit: Emit, name: str, calls: list[ToolCall], results: dict[str, ToolResult]
) -> None:
    for call in calls:
        await emit(
            ToolCallEvent(
                tool_name=call.name,
                tool_call_id=call.id,
                arguments=call.arguments,
                agent_name=name,
            )
        )
    for result in results.values():
        await emit(result_event(name, result))


def _answer(call: ToolCall, content: str = "", error: str | None = None) -> ToolResult:
    return ToolResult(tool_call_id=call.id, tool_name=call.name, content=content, error=error)


def _break_off(turn: Turn, message: AssistantMessage, cut: StopReason) -> None:
    """Take a reply that is not whole for the last one of the run; what it calls may be cut too."""
    for call in message.tool_calls:
        turn.add(_answer(call, error=f"not called: the reply was cut off ({cut})"))
    turn.cut = cut
    wanted = turn.agent.expected
    if wanted is not None:
        problem, advice = explain_cut(cut, message.content, _limit(turn))
        raise OutputValidationError(
            turn.agent.name, wanted.name, problem, advice=advice, stop_reason=cut
        )


def _limit(turn: Turn) -> int | None:
    for settings in (turn.once, turn.settings):
        if settings is not None and "max_tokens" in settings.model_fields_set:
            return settings.max_tokens
    return turn.agent.max_tokens


def _conclude(turn: Turn, text: str) -> None:
    """Take `text` for the final output, or ask the model to correct it."""
    wanted = turn.agent.expected
    if wanted is None:
        turn.output, turn.done = text, True
        return
    try:
        turn.output, turn.done = wanted.parse(text), True
    except MisfitError as misfit:
        turn.misfits += 1
        if turn.misfits > OUTPUT_RETRIES:
            raise OutputValidationError(turn.agent.name, wanted.name, str(misfit)) from misfit
        turn.add(UserMessage(content=correction(str(misfit))))
