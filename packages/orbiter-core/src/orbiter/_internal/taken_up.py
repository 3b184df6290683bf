"""How an agent takes up what it had done before its process stopped."""

from collections.abc import Sequence

from orbiter._internal.answer import break_off, conclude
from orbiter._internal.call_settings import released
from orbiter._internal.pause import stop
from orbiter._internal.run_journal import ScopeJournal
from orbiter._internal.state import RunState
from orbiter._internal.step import act
from orbiter._internal.turn import Turn
from orbiter.agent import Agent
from orbiter.errors import JournalError
from orbiter.journal import Waiting
from orbiter.replay import Progress, Step, find_agent
from orbiter.types import AssistantMessage, Message


def take_up(
    progress: Progress,
    first: Agent,
    peers: Sequence[Agent],
    log: list[Message],
    steps: dict[str, int],
    state: RunState,
) -> tuple[Agent, int]:
    """Put what was said into the log, and the model calls that were made into the count.

    A last step that is not finished stays out of the log; see `finish_last`.

    Returns:
        Who has the conversation, and where in the log its part begins.

    Raises:
        JournalError: That agent is not there any more.
    """
    for name, made in progress.spent.steps.items():
        steps[name] = steps.get(name, 0) + made
    agent = find_agent(first, progress.agent_name, peers)
    if agent is None:
        raise JournalError(
            f"the run was handed off to '{progress.agent_name}', and agent '{first.name}' hands "
            "off to no such agent: give it back, or begin another run"
        )
    if _has_replied(progress.messages):
        # what forces a call was for the first one
        state.settings = released(state.settings)
    start = 0 if progress.agent_name is None else len(log) + progress.handed_at
    unfinished = 0
    if progress.answer is None and progress.last is not None:
        unfinished = len(progress.last.messages())
    log += progress.messages[: len(progress.messages) - unfinished]
    return agent, start


async def finish_last(turn: Turn, journal: ScopeJournal) -> None:
    """Act on a reply whose process stopped. No tool of it begins: it may have done so before."""
    progress = journal.progress
    last, progress.last = progress.last, None
    if last is not None or _has_replied(turn.log[turn.start :]):
        turn.settings = released(turn.settings)
    if last is None:
        return
    if last.waits_for is not None:
        await _wait_on(turn, journal, last, last.waits_for)
        return
    cut = None if last.reply is None else last.reply.cut
    calls = [] if cut is not None else last.message.tool_calls
    # an answer and a handoff do nothing outside of the run
    again = {turn.answer_tool, *turn.plan.handoffs}
    known = {call.id: last.result(call) for call in calls if call.name not in again}
    lost = [result for key, result in known.items() if key not in last.results]
    await journal.tools_done(lost)
    turn.add(last.message)
    if cut is not None:
        break_off(turn, last.message, cut)
    elif calls:
        await act(turn, calls, known)
    else:
        await conclude(turn, last.message.content)


async def _wait_on(turn: Turn, journal: ScopeJournal, last: Step, waiting: Waiting) -> None:
    """Have the turn begin with what people have said; else wait on as before."""
    others = [call for call in last.message.tool_calls if call.id not in waiting.requests]
    results = [last.result(call) for call in others]
    await journal.tools_done(one for one in results if one.tool_call_id not in last.results)
    resumed = turn.state.resumed
    if resumed is not None and resumed.is_of(last):
        turn.resumed = resumed.after(last.message, results)
        return
    turn.add(last.message)
    for call in last.message.tool_calls:
        turn.add(last.result(call))
    turn.pause, turn.open = waiting.id, dict(waiting.requests)
    turn.asked = dict(waiting.asked)
    await stop(turn)


def _has_replied(said: Sequence[Message]) -> bool:
    return any(isinstance(message, AssistantMessage) for message in said)
