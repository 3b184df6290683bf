"""AgentBudget as the operator understands it: the spec it reads and the ledger in the status.

crds/agentbudget.yaml is the authority on what each field means.
"""

from typing import Literal

from pydantic import Field

from orbiter_operator.kube.models import Frozen, KubeModel, Status, Time

Period = Literal["Daily", "Weekly", "Monthly"]
MOST_USD = 1e9
"""More than any budget has. In millionths, sums of it are exact as the API writes numbers."""
MOST_BUDGETS = 20
"""Of one namespace: each is written before and behind each attempt, one after the other."""
OnExceeded = Literal["Queue", "Cancel", "Warn"]


class BudgetSpec(KubeModel):
    """What may be spent, and what follows when it is."""

    period: Period = "Monthly"
    time_zone: str = "UTC"
    max_cost_usd: float = Field(0.0, alias="maxCostUSD", ge=0, le=MOST_USD)
    default_task_usd: float = Field(0.0, alias="defaultTaskUSD", ge=0, le=MOST_USD)
    warn_at_percent: int | None = None
    on_exceeded: OnExceeded = "Queue"


class SessionAccount(KubeModel):
    """How much of what a session's worker has said is charged by now."""

    cost_usd: float = Field(0.0, alias="costUSD", ge=0, le=MOST_USD)
    unpriced: int = Field(0, ge=0)


class Reservation(KubeModel):
    """What is kept for an attempt that may be at work, or for the next turn of an awake session.

    `over`: it did not fit, and only warned. `session` is there where it is a session's.
    """

    task: str
    attempt: int
    usd: float = Field(ge=0, le=MOST_USD)
    over: bool = False
    session: SessionAccount | None = None


class BudgetStatus(Status):
    """The ledger: what was spent in the period, and what is kept for whom, by their uids."""

    period_start: Time | None = None
    period_end: Time | None = None
    spent_usd: float = Field(0.0, alias="spentUSD", ge=0, le=MOST_USD)
    reserved_usd: float = Field(0.0, alias="reservedUSD")
    available_usd: float = Field(0.0, alias="availableUSD")
    reservations: dict[str, Reservation] = Field(default_factory=dict)


class Need(Frozen):
    """What an attempt, or a turn of a session, asks its namespace's budgets for.

    `usd` is None when it has no limit; `kept` says whether its agent ends at one.
    """

    uid: str
    task: str
    attempt: int
    usd: float | None
    kept: bool = True


class Budgeted(Frozen):
    """How a task stands to the budget of its namespace that matters most to it.

    Attributes:
        budget: Its name.
        message: A sentence, which says the same as long as nothing about it has changed.
        lacks: What follows as the attempt does not fit; None when it does, or has its money.
        held: Whether it has its money.
        reason: Of the task's condition.
        again: Seconds after which to look again.
    """

    budget: str
    message: str
    lacks: OnExceeded | None = None
    held: bool = False
    reason: str = "Reserved"
    again: float = 30.0
