"""One turn of the agent, from a prompt to a report: the door between the queues and the process.

developer.py and po.py call `take_turn`; it builds the command (agents/), runs it (process.py) and
judges what came of it (verdict.py). Whatever an agent does ends up in the report.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from orbiter_contracts import AgentVerdict, OutputStatus, Usage
from worker_wrapper.agents.base import Agent, Session, Turn
from worker_wrapper.stop import StopReason, StopTurn

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
    clock: Callable[[], datetime],
) -> TurnReport:
    """Run the agent once and judge what came of it; never raises for what an agent does."""
    raise NotImplementedError
