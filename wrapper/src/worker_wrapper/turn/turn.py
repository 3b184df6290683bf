"""One turn of the agent, from a prompt to a report: the door between the queues and the process.

developer.py and po.py call `take_turn`; it builds the command (agents/), runs it (process/run.py)
and classifies what came of it (classify.py). Whatever an agent does ends up in the report.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orbiter_contracts import AgentVerdict, OutputStatus, Usage
from worker_wrapper.agents.base import Agent, AgentResult, Piece, Session, Turn
from worker_wrapper.agents.decoding import name
from worker_wrapper.agents.mcp import with_values
from worker_wrapper.process.command import Outcome
from worker_wrapper.process.environment import agent_environment
from worker_wrapper.process.run import GRACE, CannotStartError, EndReason, Grace, run
from worker_wrapper.shutdown import StopReason, StopTurn
from worker_wrapper.turn.classify import Classification, classify
from worker_wrapper.turn.home import put_into_home
from worker_wrapper.turn.usage import charge, context_size
from worker_wrapper.turn.verdict import DEVELOPER_INSTRUCTION, PO_INSTRUCTION

__all__ = ["StopReason", "StopTurn", "TurnReport", "take_turn"]


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What came of a turn, ready to be published.

    Attributes:
        status: The outcome.
        reason: Why it is not a success, as one CamelCase word.
        error: Why, in words.
        text: The answer (PO) or the agent's final text (developer).
        verdict: What the agent said about its own work.
        usage: What the turn cost.
        session: What to give back with the next turn of this conversation.
        warnings: What a person should know although it decided nothing.
        started_at: When the agent was started.
        finished_at: When it, and all it had started, was gone.
        duration_ms: Milliseconds between the two.
    """

    status: OutputStatus
    reason: str | None
    error: str | None
    text: str
    verdict: AgentVerdict | None
    usage: Usage | None
    session: Session | None
    warnings: list[str]
    started_at: datetime
    finished_at: datetime
    duration_ms: int


async def take_turn(
    agent: Agent,
    turn: Turn,
    *,
    developer: bool,
    environ: Mapping[str, str],
    stop: StopTurn,
    spill_dir: Path,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    grace: Mapping[EndReason, Grace] = GRACE,
    listener: Callable[[Piece], None] | None = None,
    watcher: Callable[[Mapping[str, Any]], None] | None = None,
    missed: Callable[[int], None] | None = None,
) -> TurnReport:
    """Run the agent once and classify what came of it; never raises for what an agent does.

    Args:
        agent: The adapter.
        turn: The message, and what goes with it.
        developer: Whether a verdict is demanded (developer) or the text is the answer (PO).
        environ: Our environment; the agent sees only part of it.
        stop: Ends the turn early when set.
        spill_dir: Where large output goes.
        clock: Tells the time.
        grace: How long an agent that has to end may take.
        listener: Told what the agent says while it says it, if anybody wants to know.
        watcher: Told every event of its output.
        missed: Told how long a line was that is too long to be one.

    Returns:
        What came of it.
    """
    visible = agent_environment((*agent.credentials, *agent.passes), environ, turn.workdir)
    turn, problem = await _with_files(agent, turn, visible)
    turn = _prepared(turn, visible, developer=developer)
    turn = replace(turn, mcp=with_values(turn.options.mcp_servers, environ))
    tap = _tap(agent, listener, watcher, missed)
    turn = replace(turn, stream=tap is not None)
    deadline = asyncio.get_running_loop().time() + turn.timeout_seconds
    started_at = clock()
    if problem is not None:
        return _report(Classification.failure("AgentError", problem), turn, started_at, clock())

    async def attempt(turn: Turn) -> tuple[Outcome, AgentResult]:
        command = agent.build(turn)
        outcome = await run(
            command,
            # What the user lists in AGENT_ENV outranks the adapter's defaults.
            env={**command.env, **visible},
            workdir=turn.workdir,
            timeout_seconds=deadline - asyncio.get_running_loop().time(),
            stop=stop,
            spill_dir=spill_dir,
            clock=clock,
            grace=grace,
            tap=tap,
        )
        try:
            return outcome, agent.parse(outcome)
        finally:
            outcome.stdout.close()

    try:
        outcome, result = await attempt(turn)
        session = _other_form(turn.session, result)
        if session is not turn.session and not (outcome.timed_out or outcome.interrupted):
            anew = session is not None and not session.resumed
            prompt = turn.prompt_anew if anew else turn.prompt_known
            turn = replace(turn, session=session, prompt=prompt or turn.prompt)
            outcome, result = await attempt(turn)
    except CannotStartError as error:
        return _report(Classification.failure("AgentError", str(error)), turn, started_at, clock())
    return conclude(agent, turn, outcome, result, developer=developer, started_at=started_at)


def conclude(
    agent: Agent,
    turn: Turn,
    outcome: Outcome,
    result: AgentResult,
    *,
    developer: bool,
    started_at: datetime,
) -> TurnReport:
    """Say what came of a turn whose agent has ended. Pure.

    Args:
        agent: The adapter.
        turn: The message.
        outcome: How the process ended.
        result: What the adapter read from it.
        developer: Whether a verdict is demanded.
        started_at: When the first process of the turn was started.
    """
    used = charge(result, turn.session)
    return _report(
        classify(agent.name, outcome, result, developer=developer),
        turn,
        started_at,
        outcome.finished_at,
        usage=used,
        session=_next_session(turn.session, result, context_size(result, used)),
        warnings=_ignored(agent, turn),
    )


async def _with_files(
    agent: Agent, turn: Turn, visible: Mapping[str, str]
) -> tuple[Turn, str | None]:
    """The turn, told in words what its agent reads in no file; and why that cannot be given."""
    try:
        said = await asyncio.to_thread(put_into_home, agent, turn.options, visible)
    except (ValueError, OSError) as error:
        return turn, str(error)
    words = "\n\n".join(filter(None, (turn.options.system_prompt, said)))
    return replace(turn, options=replace(turn.options, system_prompt=words or None)), None


def _prepared(turn: Turn, visible: Mapping[str, str], *, developer: bool) -> Turn:
    instruction = DEVELOPER_INSTRUCTION if developer else PO_INSTRUCTION
    system_prompt = "\n\n".join(filter(None, (turn.options.system_prompt, instruction)))
    return replace(
        turn,
        prompt=_no_command(turn.prompt),
        prompt_anew=turn.prompt_anew and _no_command(turn.prompt_anew),
        options=replace(turn.options, system_prompt=system_prompt),
        environ=visible,
    )


def _no_command(prompt: str) -> str:
    """A leading slash would make a command of the CLI of it."""
    return f" {prompt}" if prompt.startswith("/") else prompt


def _other_form(session: Session | None, result: AgentResult) -> Session | None:
    """The session in the form the CLI asks for: begun already, or not yet."""
    if session is None or result.session_conflict is None:
        return session
    if result.session_conflict == "in_use" and not session.resumed:
        return replace(session, resumed=True)
    if result.session_conflict == "unknown" and session.resumed:
        return Session(session.id)
    return session


def _tap(
    agent: Agent,
    listener: Callable[[Piece], None] | None,
    watcher: Callable[[Mapping[str, Any]], None] | None,
    missed: Callable[[int], None] | None,
) -> Callable[[bytes], None] | None:
    if listener is None and watcher is None:
        return None
    from worker_wrapper.agents.json_output import ObjectLines

    def hear(event: Mapping[str, Any]) -> None:
        if watcher is not None:
            watcher(event)
        if listener is not None and (piece := agent.piece(event)) is not None:
            listener(piece)

    return ObjectLines(hear, missed).feed


def _next_session(
    session: Session | None, result: AgentResult, context_tokens: int | None
) -> Session | None:
    if session is None:
        return None
    return Session(
        id=session.id,
        resumed=True,
        totals=result.totals or session.totals,
        agent_session_id=name(result.agent_session_id) or session.agent_session_id,
        context_tokens=context_tokens or session.context_tokens,
    )


def _ignored(agent: Agent, turn: Turn) -> list[str]:
    return [
        f"{agent.name} has no limit of that kind: {limit} was ignored"
        for limit in agent.ignores
        if getattr(turn.options, limit) is not None
    ]


def _report(
    classification: Classification,
    turn: Turn,
    started_at: datetime,
    finished_at: datetime,
    *,
    usage: Usage | None = None,
    session: Session | None = None,
    warnings: list[str] | None = None,
) -> TurnReport:
    return TurnReport(
        status=classification.status,
        reason=classification.reason,
        error=classification.error,
        text=classification.text,
        verdict=classification.verdict,
        usage=usage,
        session=session or turn.session,
        warnings=[*(warnings or ()), *classification.warnings],
        started_at=started_at,
        finished_at=finished_at,
        duration_ms=max(0, round((finished_at - started_at).total_seconds() * 1000)),
    )
