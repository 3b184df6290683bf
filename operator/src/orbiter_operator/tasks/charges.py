"""What an AgentTask costs its namespace's budgets: put aside before an attempt, settled behind it.

The order is what no crash can break. An attempt's money is reserved before its Job is made, and
its end is settled before the task's status says that it has ended: an output whose status is not
written is read again, and then finds nothing more to settle.
"""

from typing import NamedTuple

from orbiter_contracts import DeveloperWorkerOutput
from orbiter_contracts.agent_types import keeps_cost
from orbiter_operator.budgets.models import Budgeted, Need
from orbiter_operator.budgets.store import Budgets
from orbiter_operator.kube.names import Key
from orbiter_operator.tasks.cache import START_IN_VAIN
from orbiter_operator.tasks.models import FINAL
from orbiter_operator.tasks.observed import Observed, current_attempt, stage
from orbiter_operator.tasks.plan.actions import Plan, StartAttempt
from orbiter_operator.tasks.plan.status import WAITING_FOR_A_BUDGET

_NEVER_RAN = ("JobRejected", "ImagePullFailed")
"""Reasons of outputs that the operator publishes for workers that there never were."""
_NOT_BEGUN = (*START_IN_VAIN, "Suspended")
"""Reasons of tasks that wait with their Job: whoever cancels one then has stopped no agent."""


class Charge(NamedTuple):
    """The end of an attempt's reservation: see `ledger.settle`. `attempt` None: of whichever."""

    attempt: int | None
    usd: float | None
    least: bool = False


def told(budgets: Budgets, observed: Observed) -> Budgeted | None:
    """How a task stands to the budgets of its namespace."""
    if stage(observed) == "between attempts":
        return budgets.judge(observed.namespace, need_of(observed, current_attempt(observed) + 1))
    return budgets.held_by(observed.namespace, observed.uid)


def need_of(observed: Observed, attempt: int) -> Need:
    """What an attempt reserves: the most that it may cost, if its agent has a limit."""
    agent = observed.spec.agent
    limit, kept = agent.max_cost_usd, keeps_cost(agent.type)
    return Need(uid=observed.uid, task=observed.name, attempt=attempt, usd=limit, kept=kept)


def charge_of(observed: Observed, decision: Plan) -> Charge | None:
    """What is settled with a decision, if anything. Pure."""
    match stage(observed):
        case "in an attempt":
            attempt = current_attempt(observed)
            record = observed.record_of(attempt)
            if record is None or record.output is None:
                return None
            if _never_ran(observed, attempt, record.output):
                return Charge(attempt, 0.0)
            usd = record.output.usage.cost_usd if record.output.usage else None
            # A worker that could not say it at its end may have cost more than it said before.
            return Charge(attempt, usd, record.output.worker_id is None)
        case "between attempts":
            status = decision.status or observed.status
            # It was put aside for a Job that was not made, and is not going to be now.
            over = status.phase in FINAL or waits(observed, decision)
            return Charge(current_attempt(observed) + 1, 0.0) if over else None
        case "finished":
            return Charge(None, None)
        case _:
            return None


def _never_ran(observed: Observed, attempt: int, output: DeveloperWorkerOutput) -> bool:
    """Whether an output is the operator's own, of an attempt whose worker has never begun."""
    status = observed.status
    began = status.attempts == attempt and status.start_time is not None
    if output.worker_id is not None or began:
        return False
    if output.status == "cancelled":
        return status.attempts == attempt and status.reason in _NOT_BEGUN
    return output.reason in _NEVER_RAN


class Charges:
    """Does it.

    Args:
        budgets: What tasks may cost, and who has reserved what.
    """

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets

    async def before(self, key: Key, observed: Observed, decision: Plan) -> bool:
        """Settle what has ended, and reserve for what begins.

        Returns:
            Whether somebody else was quicker: then the attempt may not begin, and is decided anew.

        Raises:
            RefusedError: The operator may not write budgets.
            ApiError: The API server could not answer.
        """
        charge = charge_of(observed, decision)
        if charge is not None:
            await self._budgets.settle(
                key.namespace, observed.uid, charge.attempt, charge.usd, least=charge.least
            )
        starts = [each for each in decision.actions if isinstance(each, StartAttempt)]
        if waits(observed, decision):
            self._budgets.wait(key, need_of(observed, current_attempt(observed) + 1))
        else:
            self._budgets.leave(key)
        # An attempt that goes on behind a disruption has what was reserved for it.
        if not starts or starts[0].resume:
            return False
        return not await self._budgets.reserve(key.namespace, need_of(observed, starts[0].attempt))

    async def gone(self, key: Key, uid: str) -> None:
        """A task was deleted: whether it was still at work, nobody will know."""
        self._budgets.leave(key)
        await self._budgets.settle(key.namespace, uid, None, None)


def waits(observed: Observed, decision: Plan) -> bool:
    """Whether it is a budget that a task waits for."""
    status = decision.status or observed.status
    held = status.phase == "Pending" and status.reason in WAITING_FOR_A_BUDGET
    return held and not decision.starts
