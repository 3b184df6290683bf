"""Which calls of a step wait for a person, and the run as it is kept meanwhile."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from orbiter._approval import waits
from orbiter._asking import MOST_QUESTIONS, Asked
from orbiter._input_requests import MAX_CALLS, InputCall, InputRequest, Kind
from orbiter._internal.turn import Turn
from orbiter._json_bounds import canonical
from orbiter._paused import ASIDE, Paused, arguments_of, asked_text, request_id
from orbiter.approval import AskUser
from orbiter.tool import Tool
from orbiter.types import (
    InputRequestEvent,
    Message,
    OrbiterError,
    ToolCall,
    ToolResult,
)


async def hold_back(
    turn: Turn, calls: list[ToolCall], results: dict[str, ToolResult]
) -> list[ToolCall]:
    """Keep the calls of a step that wait for a person in `turn.open`; return the others.

    Args:
        turn: Whose calls.
        calls: Those of the step that are to run.
        results: Receives those of calls that a person could not be shown.

    Raises:
        OrbiterError: One has to wait, and the run cannot.
    """
    waiting: list[tuple[ToolCall, Tool, dict[str, Any]]] = []
    running: list[ToolCall] = []
    for call in calls:
        tool = turn.plan.tools.get(call.name)
        if tool is None or tool.approval is False:
            running.append(call)
            continue
        try:
            arguments = arguments_of(call)
            # what is judged and shown is what runs, however else the text could be read
            call = call.model_copy(update={"arguments": canonical(arguments)})
            held = await waits(tool.approval, tool.name, tool.parse(call.arguments))
        except Exception as error:
            problem = f"Tool '{call.name}' was not called, arguments: {error}"
            results[call.id] = ToolResult(tool_call_id=call.id, tool_name=call.name, error=problem)
            continue
        if held:
            waiting.append((call, tool, arguments))
        else:
            running.append(call)
    if waiting:
        _open(turn, waiting)
    return running


def _open(turn: Turn, waiting: list[tuple[ToolCall, Tool, dict[str, Any]]]) -> None:
    name, tool = turn.agent.name, waiting[0][1].name
    if not turn.pausable:
        raise OrbiterError(
            f"Agent '{name}' called '{tool}', which waits for a person, in a run that cannot: "
            "one along a flow, of a team's worker or inside of a tool. Give the tool to an agent "
            "that runs by itself, leads a team or hands off"
        )
    if len(waiting) > MAX_CALLS:
        raise OrbiterError(
            f"Agent '{name}' would wait for {len(waiting)} calls; {MAX_CALLS} can be asked at once"
        )
    for call, tool_, arguments in waiting:
        kind: Kind = "question" if isinstance(tool_, AskUser) else "approval"
        _request(turn, call, arguments, kind, asked_text(kind, arguments))


def _request(turn: Turn, call: ToolCall, arguments: dict[str, Any], kind: Kind, text: str) -> None:
    if turn.open is None:
        turn.pause, turn.open = uuid4().hex, {}
    seconds = turn.state.input_timeout
    expires = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
    shown = InputCall.of(call.name, arguments)
    turn.open[call.id] = InputRequest(
        id=request_id(turn.pause, call.id, shown.digest),
        kind=kind,
        text=text,
        calls=(shown,),
        expires=expires,
    )


def asks(turn: Turn, call: ToolCall, question: str) -> str | None:
    """Have a call that has begun wait for the answer to a question.

    Args:
        turn: Whose call.
        call: As it was called.
        question: What its tool asks.

    Returns:
        Why it cannot; None when it waits.
    """
    asked = turn.asked.get(call.id, Asked())
    if not turn.pausable:
        return "this run cannot wait for a person"
    if len(asked.replies) == MOST_QUESTIONS:
        return f"a call may ask {MOST_QUESTIONS} times"
    if len(turn.open or ()) == MAX_CALLS:
        return f"{MAX_CALLS} calls can be asked about at once"
    try:
        # whoever resumes reads the question as JSON
        asked = Asked(question=question, replies=asked.replies, edited=asked.edited)
        _request(turn, call, arguments_of(call), "question", question)
    except ValueError as error:
        return f"the question cannot be kept: {str(error)[:200]}"
    turn.asked[call.id] = asked
    return None


async def stop(turn: Turn) -> None:
    """End the turn behind a step of which calls wait, and tell who listens."""
    turn.cut = "input_required"
    emit = turn.state.emit
    if emit is not None:
        for request in (turn.open or {}).values():
            await emit(InputRequestEvent(request=request, agent_name=turn.agent.name))


def keep(turn: Turn, before: list[Message], steps: dict[str, int]) -> None:
    """Have the result hold the run that waits.

    Args:
        turn: Who waits.
        before: The conversation before the turn.
        steps: Model calls so far, by agent.

    Raises:
        OrbiterError: Its conversation is too large to be kept.
    """
    waiting, said = turn.open or {}, turn.log[turn.start :]
    asking = next(at for at in reversed(range(len(said))) if not isinstance(said[at], ToolResult))
    results = [m for m in said[asking + 1 :] if getattr(m, "tool_call_id", "") not in waiting]
    steps = {name: made for name, made in steps.items() if name != ASIDE}
    if aside := turn.state.steps - sum(steps.values()):
        steps[ASIDE] = aside
    paused = Paused.model_construct(
        version=1,
        id=turn.pause,
        agent=turn.agent.name,
        input=str(turn.input),
        open=waiting,
        messages=[*before, *said[: asking + 1], *results],
        start=len(before),
        began=turn.state.began,
        usage=turn.state.usage,
        steps=steps,
        misfits=turn.misfits,
        retried=turn.retried or {},
        asked={key: asked for key, asked in turn.asked.items() if key in waiting},
    )
    turn.state.waits = {"requests": tuple(waiting.values()), "paused": paused.to_json()}
