"""Does what people have said of the calls that waited; then the turn goes on with its next step."""

from collections.abc import Iterable, Sequence
from typing import Any

from orbiter._asking import Asked
from orbiter._input_requests import InputAnswer, InputRequest
from orbiter._internal.call_settings import released
from orbiter._internal.message_builder import NO_RESULT
from orbiter._internal.pause import stop
from orbiter._internal.resumed import Resumed
from orbiter._internal.state import Emit
from orbiter._internal.tool_runner import result_event, run_calls
from orbiter._internal.turn import Turn
from orbiter._json_bounds import canonical
from orbiter._paused import WAITS, noted
from orbiter.agent import Agent
from orbiter.errors import InputAnswerError
from orbiter.tool import Tool, ToolArgumentsError
from orbiter.types import HandoffEvent, OrbiterError, ToolCall, ToolCallEvent, ToolResult


async def answer_calls(turn: Turn, resumed: Resumed) -> None:
    """Run the calls that were approved, and give all of the message their results."""
    turn.resumed = None
    turn.misfits, turn.retried = resumed.paused.misfits, dict(resumed.paused.retried)
    if turn.settings is not None:
        # what forces a call was for the one that waited
        turn.settings, turn.state.settings = released(turn.settings), released(turn.state.settings)
    calls = resumed.paused.calls
    results = resumed.paused.results
    turn.add(resumed.asking)
    try:
        approved: list[ToolCall] = []
        for call in calls:
            request = resumed.paused.open.get(call.id)
            asked = resumed.paused.asked.get(call.id)
            if request is not None and asked is not None:
                turn.asked[call.id] = _replied(asked, resumed.answers.get(call.id))
                approved.append(_called(call, request.calls[0].arguments))
            elif request is not None:
                if call.id in resumed.edited:
                    turn.asked[call.id] = Asked(edited=resumed.edited[call.id])
                _decide(call, request, resumed.answers.get(call.id), approved, results)
        if turn.journal is not None:
            decided = [results[key] for key in resumed.paused.open if key in results]
            await turn.journal.decided(resumed.paused.id, decided, resumed.edited)
        if turn.state.emit is not None:
            await _tell(turn.state.emit, turn.agent.name, resumed, approved, results)
        if approved:
            await run_calls(turn, approved, results)
        if turn.journal is not None and turn.open:
            await turn.journal.waits(turn.pause, turn.open, (), turn.asked)
        for identity, arguments in resumed.edited.items():
            if identity in results:
                results[identity] = noted(results[identity], arguments)
    finally:
        for call in calls:
            why = WAITS if turn.open and call.id in turn.open else NO_RESULT
            lost = ToolResult(tool_call_id=call.id, tool_name=call.name, error=why)
            turn.add(results.get(call.id, lost))
    if turn.failure is not None:
        raise turn.failure
    if turn.open:
        await stop(turn)
        return
    targets = (turn.plan.handoffs[call.name] for call in calls if call.name in turn.plan.handoffs)
    turn.target = next(targets, None)
    if turn.target is not None and turn.state.emit is not None:
        await turn.state.emit(HandoffEvent(target=turn.target.name, agent_name=turn.agent.name))


def _decide(
    call: ToolCall,
    request: InputRequest,
    answer: InputAnswer | None,
    approved: list[ToolCall],
    results: dict[str, ToolResult],
) -> None:
    if answer is not None and answer.decision == "approve":
        # what was shown is what runs, however else the model's text could be read
        arguments = request.calls[0].arguments if answer.arguments is None else answer.arguments
        approved.append(_called(call, arguments))
        return
    result = ToolResult(tool_call_id=call.id, tool_name=call.name)
    if answer is not None and answer.decision is None:
        results[call.id] = result.model_copy(update={"content": answer.text or ""})
        return
    did = "did not answer the question" if request.kind == "question" else "denied it"
    why = f"a person {did}"
    if answer is None:
        why = f"nobody answered until {request.expires:%Y-%m-%d %H:%M} UTC"
    elif answer.text:
        why += f": {answer.text}"
    results[call.id] = result.model_copy(
        update={"error": f"Tool '{call.name}' was not called: {why}"}
    )


def _replied(asked: Asked, answer: InputAnswer | None) -> Asked:
    # who does not answer says so to the tool, which has begun and knows what that means
    said = answer is not None and answer.decision is None
    return asked.answered(answer.text if answer is not None and said else None)


def _called(call: ToolCall, arguments: dict[str, Any]) -> ToolCall:
    return call.model_copy(update={"arguments": canonical(arguments)})


async def _tell(
    emit: Emit,
    name: str,
    resumed: Resumed,
    approved: list[ToolCall],
    results: dict[str, ToolResult],
) -> None:
    for call in approved:
        await emit(
            ToolCallEvent(
                tool_name=call.name,
                tool_call_id=call.id,
                arguments=call.arguments,
                agent_name=name,
            )
        )
    for identity in resumed.paused.open:
        if identity in results:
            await emit(result_event(name, results[identity]))


def waiting_agent(resumed: Resumed, first: Sequence[Agent]) -> Agent:
    """Find the agent that waits: one of the first, or whom they hand off to.

    Raises:
        OrbiterError: There is none of its name.
    """
    found = {agent.name: agent for agent in first}
    unseen = list(first)
    while unseen:
        for agent in unseen.pop().handoffs:
            if agent.name not in found:
                found[agent.name] = agent
                unseen.append(agent)
    name = resumed.paused.agent
    if name not in found:
        raise OrbiterError(
            f"run(resume=...): agent '{name}' waits, and here are: {', '.join(found)}; run the "
            "agent or swarm that was paused"
        )
    return found[name]


def check_edits(resumed: Resumed, agent: Agent, extra: Iterable[Tool] = ()) -> None:
    """Refuse arguments of a person that do not fit the tool.

    Raises:
        InputAnswerError: Some do not; nothing has run yet, so the run can be resumed again.
    """
    tools = {tool.name: tool for tool in (*agent.tools, *extra)}
    for identity, arguments in resumed.edited.items():
        request = resumed.paused.open[identity]
        name = request.calls[0].tool
        if name not in tools:
            continue
        try:
            tools[name].parse(canonical(arguments))
        except ToolArgumentsError as error:
            raise InputAnswerError(
                f"run(answers=...): the answer to '{request.id}' changes the arguments of "
                f"'{name}' to what it does not take: {error}"
            ) from error
