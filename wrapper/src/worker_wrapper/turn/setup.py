"""What a task has done in its workspace before its agent begins: `workspace.setup`.

It runs as the agent would: its user, its environment, its directory; so it has no credential that
the agent has not. It belongs to the worker and not to a container of its own, because the workspace
is whole only here: cloned, and as a checkpoint left it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from orbiter_contracts.bounds import shortened
from worker_wrapper.agents.base import Agent
from worker_wrapper.process.command import Command, Outcome
from worker_wrapper.process.environment import agent_environment
from worker_wrapper.process.run import CannotStartError, run
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.turn.outputs import without_turn
from worker_wrapper.turn.turn import TurnReport

_START: Final = 'exec 1>&2; eval "$1"'
"""All it prints in one place, in its order: the end of that is kept."""
_TOLD_CHARACTERS: Final = 4000


class Place(NamedTuple):
    """Where it runs: the workspace, our environment, and the directory for large output."""

    workdir: Path
    environ: Mapping[str, str]
    spill_dir: Path


async def set_up(
    script: str,
    agent: Agent,
    place: Place,
    seconds: float,
    stop: StopTurn,
    *,
    clock: Callable[[], datetime],
) -> tuple[TurnReport | None, float]:
    """Run the script in the workspace.

    Args:
        script: For `sh`.
        agent: Whose environment it has.
        place: Where; of the environment it sees what the agent would.
        seconds: How long it and the agent may take.
        stop: Ends it early when set.
        clock: Tells the time.

    Returns:
        What came of the attempt, None where the agent can begin, and what is left of the seconds.
    """
    try:
        outcome = await run(
            Command(("sh", "-c", _START, "sh", script)),
            env=agent_environment(
                (*agent.credentials, *agent.passes), place.environ, place.workdir
            ),
            workdir=place.workdir,
            timeout_seconds=seconds,
            stop=stop,
            spill_dir=place.spill_dir,
            clock=clock,
        )
    except CannotStartError as error:
        said = f"workspace.setup cannot be started: {error}"
        return without_turn(clock(), reason="SetupFailed", error=said), seconds
    outcome.stdout.close()
    left = max(1.0, seconds - (outcome.finished_at - outcome.started_at).total_seconds())
    if (problem := _problem(outcome)) is None:
        return None, left
    reason, error_text = problem
    report = without_turn(clock(), reason=reason, error=error_text)
    return replace(report, status="cancelled") if reason == "Cancelled" else report, left


def _problem(outcome: Outcome) -> tuple[str, str] | None:
    if outcome.interrupted == "cancelled":
        return "Cancelled", "workspace.setup was stopped: cancelled"
    if outcome.interrupted:
        return "Terminated", "workspace.setup was stopped: worker shut down"
    if outcome.timed_out:
        how = "was ended: the attempt's time was up"
    elif outcome.signal is not None:
        memory = ": out of memory" if outcome.oom_killed else ""
        how = f"was killed by signal {outcome.signal}{memory}"
    elif outcome.exit_code:
        how = f"exited with code {outcome.exit_code}"
    else:
        return None
    said = shortened(outcome.complaint[-_TOLD_CHARACTERS:], _TOLD_CHARACTERS)
    return "SetupFailed", f"workspace.setup {how}" + (f": {said}" if said else "")
