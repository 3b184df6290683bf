"""One step: the model speaks once, and what it asks for is done.

Order, as users see it: context pre_llm_call, PRE_LLM_CALL hooks, model, POST_LLM_CALL hooks,
context post_llm_call, then per tool call context pre_tool_call, PRE_TOOL_CALL hooks, tool,
POST_TOOL_CALL hooks, context post_tool_call. What an agent does not use costs it nothing.
"""

from typing import Any

from orbiter._internal.answer import break_off, conclude, take_answer
from orbiter._internal.call_settings import released
from orbiter._internal.message_builder import NO_RESULT, build_messages
from orbiter._internal.model_call import call_model
from orbiter._internal.output_parser import CUT, assistant_message
from orbiter._internal.pause import hold_back, stop
from orbiter._internal.state import Emit
from orbiter._internal.tool_filter import choose_tools
from orbiter._internal.tool_runner import result_event, run_calls
from orbiter._internal.turn import Turn
from orbiter._paused import WAITS
from orbiter.additions import with_added
from orbiter.agent import Agent
from orbiter.hooks import HookPoint
from orbiter.types import (
    HandoffEvent,
    Message,
    StepEvent,
    ToolCall,
    ToolCallEvent,
    ToolResult,
    UsageEvent,
)


async def take_step(turn: Turn) -> None:
    """Call the model and act on its reply.

    Afterwards the turn is done, is cut, has a handoff target, or wants another step. The log is
    valid whenever this returns or raises.
    """
    agent, state = turn.agent, turn.state
    context, hooks, emit = agent.context, turn.hooks, state.emit
    state.steps += 1
    if turn.journal is not None:
        await turn.journal.model_called(agent.name)
    if emit is not None:
        await emit(StepEvent(step=state.steps, agent_name=agent.name))
    if agent.tool_filter is not None:
        await choose_tools(turn, agent.tool_filter)
    messages = await _prompt(turn)
    if turn.observer is None:
        reply = await call_model(turn, messages)
    else:
        streamed = emit is not None
        with turn.observer.model_call(agent, messages, turn.provider, streamed=streamed) as scope:
            reply = await call_model(turn, messages, scope)
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
        await emit(UsageEvent(usage=reply.usage, model=_who(reply), agent_name=agent.name))
    message = assistant_message(reply, len(turn.view))
    cut = CUT.get(getattr(reply, "finish_reason", None))
    if turn.journal is not None:
        await turn.journal.replied(message, reply.usage, cut)
    turn.add(message)
    if cut is not None:
        break_off(turn, message, cut)
    elif message.tool_calls:
        await act(turn, message.tool_calls)
    elif agent.expected is None and not agent.output_validators:
        turn.output, turn.done = message.content, True
    else:
        await conclude(turn, message.content)


def _who(reply: object) -> str:
    provider, model = getattr(reply, "provider", ""), getattr(reply, "model", "")
    return f"{provider}:{model}" if provider else model


async def _prompt(turn: Turn) -> list[Message]:
    agent = turn.agent
    text = agent.instructions
    if not isinstance(text, str):
        made = text(turn.run)
        text = made if isinstance(made, str) else await made
    if turn.suffix:
        text = (text + turn.suffix).lstrip()
    view, added = turn.view, turn.note
    if agent.context is not None:
        payload: dict[str, Any] = {
            "agent_name": agent.name, "system_prompt": text, "messages": view[:], "added": added
        }  # fmt: skip
        await agent.context.process("pre_llm_call", payload)
        text, view, added = payload["system_prompt"], payload["messages"], payload["added"]
        turn.once = payload.get("settings")
    messages = build_messages(text, view)
    if added:
        messages = with_added(messages, added)
    hooks = turn.hooks
    if hooks is not None and HookPoint.PRE_LLM_CALL in hooks:
        await hooks.run(turn.event(HookPoint.PRE_LLM_CALL, messages=messages))
    return messages


async def act(
    turn: Turn, calls: list[ToolCall], known: dict[str, ToolResult] | None = None
) -> None:
    """Run the calls of a step; each has its result in the log, however this ends.

    Args:
        turn: Whose calls.
        calls: All of them.
        known: Results that some have already, by the call's id.
    """
    name, emit, handoffs = turn.agent.name, turn.state.emit, turn.plan.handoffs
    results: dict[str, ToolResult] = {} if known is None else {**known}
    target: Agent | None = None
    turn.asked = {}  # ids of calls may come again
    work: list[ToolCall] = []
    try:
        if turn.answer_tool is not None:
            await take_answer(turn, calls, results)
        for call in calls:
            if call.id in results:
                continue
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
        if work:
            work = await hold_back(turn, work, results)
        if turn.journal is not None:
            new = [result for key, result in results.items() if key not in (known or ())]
            if turn.open:
                await turn.journal.waits(turn.pause, turn.open, new, {})
            else:
                await turn.journal.tools_done(new)
        if emit is not None and not turn.done:
            await _emit_results(emit, turn, calls, results)
        if work:
            await run_calls(turn, work, results)
        if turn.journal is not None and turn.asked:
            await turn.journal.waits(turn.pause, turn.open or {}, (), turn.asked)
    finally:
        for call in calls:
            why = WAITS if turn.open and call.id in turn.open else NO_RESULT
            turn.add(results.get(call.id) or _answer(call, error=why))
    if turn.failure is not None:
        raise turn.failure
    if turn.open:
        await stop(turn)
        return
    if target is not None and emit is not None:
        await emit(HandoffEvent(target=target.name, agent_name=name))
    turn.target = target


async def _emit_results(
    emit: Emit, turn: Turn, calls: list[ToolCall], results: dict[str, ToolResult]
) -> None:
    name = turn.agent.name
    for call in calls:
        # a final answer is no tool of anybody's
        if call.name == turn.answer_tool:
            continue
        await emit(
            ToolCallEvent(
                tool_name=call.name,
                tool_call_id=call.id,
                arguments=call.arguments,
                agent_name=name,
            )
        )
    for result in results.values():
        if result.tool_name != turn.answer_tool:
            await emit(result_event(name, result))


def _answer(call: ToolCall, content: str = "", error: str | None = None) -> ToolResult:
    return ToolResult(tool_call_id=call.id, tool_name=call.name, content=content, error=error)
