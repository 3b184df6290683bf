"""What is left of an attempt's time, turns and money for the pod that goes on with it. Pure."""

from dataclasses import dataclass, replace

from orbiter_contracts import Checkpoint, OutputStatus
from worker_wrapper.agents.base import AgentOptions


@dataclass(frozen=True, slots=True)
class Left:
    """What the agent may use."""

    seconds: float
    options: AgentOptions


@dataclass(frozen=True, slots=True)
class UsedUp:
    """Nothing is left: what the attempt's outcome says."""

    status: OutputStatus
    reason: str
    error: str


def left(seconds: float, options: AgentOptions, spent: Checkpoint | None) -> Left | UsedUp:
    """What of the limits of an attempt its earlier pods have left.

    Args:
        seconds: Its `timeout`.
        options: Its limits.
        spent: What the earlier pods have used; None in the first one.
    """
    if spent is None:
        return Left(seconds, options)
    if spent.agent_seconds >= seconds:
        late = f"its {seconds:.0f} s were up when it was interrupted"
        return UsedUp("timeout", "AgentTimeout", late)
    turns, cost = options.max_turns, options.max_cost_usd
    if turns is not None and spent.turns >= turns:
        return UsedUp("error", "AgentError", f"its {turns} turns were taken before it could go on")
    if cost is not None and (spent.cost_usd or 0.0) >= cost:
        paid = f"{spent.cost_usd or 0.0:.4f} of {cost:g} USD were spent before it could go on"
        return UsedUp("error", "AgentError", paid)
    remaining = replace(
        options,
        max_turns=None if turns is None else turns - spent.turns,
        max_cost_usd=None if cost is None else cost - (spent.cost_usd or 0.0),
    )
    return Left(seconds - spent.agent_seconds, remaining)
