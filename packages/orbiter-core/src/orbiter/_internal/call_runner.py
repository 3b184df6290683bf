"""The loop around the steps: an agent runs until it has an answer, hands off, or meets a limit."""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from orbiter._internal.answer import ask_for_output, output_again
from orbiter._internal.aside import Aside
from orbiter._internal.content import Given
from orbiter._internal.guarding import check_input, check_output
from orbiter._internal.pause import keep
from orbiter._internal.plan import Plan
from orbiter._internal.resume import answer_calls, check_edits
from orbiter._internal.resumed import Resumed
from orbiter._internal.state import RunState
from orbiter._internal.step import take_step
from orbiter._internal.turn import Turn
from orbiter.additions import as_data
from orbiter.agent import Agent
from orbiter.hooks import HookPoint
from orbiter.observer import Observer
from orbiter.tool import Tool
from orbiter.types import AssistantMessage, Message, RunContext, StopReason, UserMessage

if TYPE_CHECKING:
    from orbiter._internal.run_journal import ScopeJournal

logger = logging.getLogger("orbiter")


class Outcome(NamedTuple):
    """How an agent's run ended."""

    output: Any
    agent_name: str
    stop_reason: StopReason
    typed: bool = False


async def run_agent(
    agent: Agent,
    input: str,
    history: list[Message],
    state: RunState,
    log: list[Message],
    *,
    extra: Sequence[Tool] = (),
    peers: Sequence[Agent] = (),
    made: dict[str, int] | None = None,
    pausable: bool = False,
    resumed: Resumed | None = None,
    journal: "ScopeJournal | None" = None,
) -> Outcome:
    """Run an agent, and those it hands off to, until one has the answer.

    Args:
        agent: The first to speak.
        input: What it is asked; empty to go on with the history as it is.
        history: The conversation before, valid.
        state: The run.
        log: Empty list that receives what is said; valid whenever this returns or raises.
        extra: Tools the first agent has besides its own.
        peers: Agents that those without handoffs may transfer to.
        made: Model calls that count for `max_steps` already, by agent.
        pausable: Whether it can end here and go on in another run, when a call waits for a person.
        resumed: The run that goes on, whose last turn was this agent's.
        journal: Where its steps are kept, if they are; it goes on behind those that are there.
    """
    if resumed is not None:
        log.extend(resumed.said)
    elif isinstance(input, Given) and input.parts:
        log.append(UserMessage(content=str(input), parts=input.parts))
    elif input or not history:
        log.append(UserMessage(content=input))
    shown, fresh, start = history, list(log), 0
    steps: dict[str, int] = dict(made or {})
    if journal is not None:
        from orbiter._internal.taken_up import take_up

        agent, start = take_up(journal.progress, agent, peers, log, steps, state)
        if state.resumed is not None and state.resumed.is_of(journal.progress.last):
            check_edits(state.resumed, agent, extra)
        shown, fresh, extra = [*history, *log[:start]], log[start:], () if start else extra
        if journal.progress.answer is not None:
            seen = RunContext(
                agent.name, input, [*shown, *fresh], agent.context, state.deps, state.run_nested
            )
            output = await output_again(agent, seen, journal.progress.answer)
            return Outcome(output, agent.name, "completed", agent.expected is not None)
    while True:
        turn = Turn(agent, input, Plan(agent, extra, peers), state, log, start, journal)
        turn.pausable, turn.resumed, resumed = pausable, resumed, None
        state.last_agent, state.typed = agent.name, agent.expected is not None
        try:
            if turn.observer is None:
                await _begin(turn, shown, fresh)
                reason = await _steps(turn, steps)
                await _finish(turn, reason)
            else:
                reason = await _observed_turn(turn.observer, turn, shown, fresh, steps)
        except BaseException as error:
            if not turn.finished and isinstance(error, (Exception, asyncio.CancelledError)):
                await _keep_what_there_is(turn)
            if HookPoint.ERROR in agent.hooks:
                await agent.hooks.run(turn.event(HookPoint.ERROR, error=error))
            raise
        if reason == "input_required":
            keep(turn, [*history, *log[:start]], steps)
        if turn.target is None or reason != "completed":
            if journal is not None and reason == "completed":
                await journal.answered(turn.output if turn.answer is None else turn.answer)
            return Outcome(turn.output, agent.name, reason, agent.expected is not None)
        if journal is not None:
            await journal.handed_off(turn.target.name)
        agent, extra, start = turn.target, (), len(log)
        shown, fresh = [*history, *log], []


async def _observed_turn(
    observer: Observer,
    turn: Turn,
    shown: list[Message],
    fresh: list[Message],
    steps: dict[str, int],
) -> StopReason:
    with observer.agent(turn.agent, turn.run) as scope:
        await _begin(turn, shown, fresh)
        reason = await _steps(turn, steps)
        await _finish(turn, reason)
        scope.done(turn.output)
        return reason


async def _begin(turn: Turn, history: list[Message], fresh: list[Message]) -> None:
    agent = turn.agent
    if agent.guardrails:
        await check_input(turn)
    if agent.context is not None:
        model = Aside(turn.provider, turn.settings, turn.state)
        history = await agent.context.start_run(
            agent_name=agent.name, input=turn.input, history=history, provider=model
        )
    turn.view.extend(history)
    turn.view.extend(fresh)
    if agent.memory is not None:
        recalled = await agent.memory.recall(turn.input, agent_name=agent.name)
        turn.note = as_data(recalled) if recalled else ""
    if agent.output_schema is not None:
        ask_for_output(turn, agent.output_schema)
    if turn.hooks is not None and HookPoint.START in turn.hooks:
        await turn.hooks.run(turn.event(HookPoint.START))


async def _keep_what_there_is(turn: Turn) -> None:
    """Tell the context of a run that failed; what it makes of that changes nothing of the error."""
    fail_run = getattr(turn.agent.context, "fail_run", None)
    if fail_run is None:
        return
    try:
        await fail_run(agent_name=turn.agent.name, messages=turn.log[turn.start :])
    except Exception as error:
        logger.warning("The context of agent '%s' kept nothing: %s", turn.agent.name, error)


async def _finish(turn: Turn, reason: StopReason) -> None:
    agent = turn.agent
    if reason == "input_required":
        # it is not over: whoever goes on tells guardrails, context and memory of all of it
        turn.finished = True
        await _keep_what_there_is(turn)
        return
    if agent.guardrails and turn.target is None:
        await check_output(turn)
    turn.finished = True
    if agent.context is not None:
        await agent.context.finish_run(
            agent_name=agent.name, messages=turn.log[turn.start :], output=turn.output
        )
    if agent.memory is not None:
        await agent.memory.remember(turn.log[turn.start :], agent_name=agent.name)
    if turn.hooks is not None and HookPoint.FINISHED in turn.hooks:
        await turn.hooks.run(turn.event(HookPoint.FINISHED, output=turn.output))


async def _steps(turn: Turn, steps: dict[str, int]) -> StopReason:
    """Take steps until the turn is over and say why it is."""
    name, state = turn.agent.name, turn.state
    made = steps.get(name, 0)
    if turn.journal is not None:
        from orbiter._internal.taken_up import finish_last

        await finish_last(turn, turn.journal)
    while not turn.done and turn.target is None:
        if turn.cut is not None:
            return _stopped(turn, turn.cut)
        if turn.resumed is None:
            reason = "max_steps" if made >= turn.agent.max_steps else state.limit_met()
            if reason is not None:
                return _stopped(turn, reason)
            made += 1
            steps[name] = made
        if state.deadline is None:
            await _step(turn)
            continue
        try:
            async with asyncio.timeout_at(state.deadline) as limit:
                await _step(turn)
        except TimeoutError:
            if not limit.expired():
                raise
            return _stopped(turn, "timeout")
    return "completed"


async def _step(turn: Turn) -> None:
    if turn.resumed is not None:
        await answer_calls(turn, turn.resumed)
    elif turn.observer is None:
        await take_step(turn)
    else:
        with turn.observer.step(turn.agent, turn.state.steps + 1):
            await take_step(turn)


def _stopped(turn: Turn, reason: StopReason) -> StopReason:
    said = (m.content for m in reversed(turn.log) if isinstance(m, AssistantMessage) and m.content)
    turn.output = next(said, "")
    return reason
