"""Whether an attempt may begin under the budgets of its namespace, and what its budget says. Pure.

All of them have to have room: what is short of two is told of the stricter one.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from orbiter_contracts.bounds import one_line
from orbiter_operator.budgets.ledger import (
    MOST_RESERVATIONS,
    Ledger,
    at,
    dollars,
    fits,
    micros,
    read,
    written,
    zone_of,
)
from orbiter_operator.budgets.models import MOST_BUDGETS, Budgeted, BudgetSpec, BudgetStatus, Need
from orbiter_operator.kube.models import Condition, Event, read_model, read_status

_STRICTEST = ("Cancel", "Queue", "Warn", None)
NEAR, EXCEEDED = "NearLimit", "Exceeded"
_FIELDS = frozenset(BudgetStatus().model_dump(by_alias=True))


class Budget(NamedTuple):
    """One AgentBudget as last seen.

    `error` says why nothing can be reserved of it, `stored` is what the API has of its status.
    """

    name: str
    uid: str
    generation: int
    version: str
    spec: BudgetSpec
    status: BudgetStatus
    ledger: Ledger
    stored: dict[str, Any]
    error: str | None = None

    @classmethod
    def of(cls, obj: dict[str, Any]) -> "Budget":
        """Read one, whoever has written it. Total."""
        meta = obj["metadata"]
        spec, error = read_model(BudgetSpec, obj.get("spec") or {})
        raw = obj.get("status")
        status = read_status(BudgetStatus, raw)
        try:
            zone_of(spec.time_zone)
        except ValueError as why:
            error = error or f"spec.timeZone: {one_line(str(why), 120)}"
        return cls(
            name=meta["name"],
            uid=meta["uid"],
            generation=meta.get("generation", 1),
            version=meta["resourceVersion"],
            spec=spec,
            status=status,
            ledger=read(status),
            stored={k: raw[k] for k in _FIELDS & raw.keys()} if isinstance(raw, dict) else {},
            error=error,
        )

    @property
    def limit(self) -> int:
        """What may be used in a period."""
        return micros(self.spec.max_cost_usd)

    def becomes_other(self, new: "Budget") -> bool:
        """Whether more is new of it than its accounts."""
        return (self.uid, self.spec) != (new.uid, new.spec)

    def now(self, now: datetime) -> Ledger:
        """Its accounts at a moment; as they were last, where the spec cannot be read."""
        return self.ledger if self.error else at(self.ledger, self.spec, now)

    def amount(self, need: Need) -> int:
        """What an attempt reserves of it: a limit that nobody keeps makes none cheaper."""
        most = micros(self.spec.default_task_usd)
        if need.usd is None:
            return most
        return micros(need.usd) if need.kept else max(most, micros(need.usd))

    def has_room(self, need: Need, now: datetime) -> bool:
        """Whether what an attempt needs fits, or was put aside for it before."""
        if self.error:
            return False
        amount = self.amount(need)
        return fits(self.now(now), self.limit, need.uid, need.attempt, amount)


def judge(budgets: Sequence[Budget], need: Need, now: datetime, again: float) -> Budgeted | None:
    """What the budgets of a namespace say to an attempt that would begin; None without any.

    Args:
        budgets: All of them, by their names; with one too many none of them lets anybody begin.
        need: What the attempt would reserve.
        now: The time.
        again: Seconds after which to look again, where none of them tells sooner.
    """
    if len(budgets) > MOST_BUDGETS:
        name = budgets[MOST_BUDGETS].name
        text = f"the namespace has more than {MOST_BUDGETS} AgentBudgets; delete AgentBudget {name}"
        return Budgeted(
            budget=name, message=text, lacks="Queue", reason="BudgetInvalid", again=again
        )
    found = [_said(budget, need, now, again) for budget in budgets]
    return min(found, key=lambda said: _STRICTEST.index(said.lacks), default=None)


def _said(budget: Budget, need: Need, now: datetime, again: float) -> Budgeted:
    name = f"AgentBudget {budget.name}"
    if budget.error:
        text = f"{name} cannot be used: {budget.error}"
        return Budgeted(
            budget=budget.name, message=text, lacks="Queue", reason="BudgetInvalid", again=again
        )
    wanted, spec = f"{dollars(budget.amount(need)):g} USD", budget.spec
    if budget.has_room(need, now):
        own = budget.ledger.held.get(need.uid)
        held = held_by(budget, need.uid) if own and own.attempt == need.attempt else None
        return held or Budgeted(budget=budget.name, message=f"{wanted} of {name}")
    ledger, most = budget.now(now), f"{spec.max_cost_usd:g} USD"
    if len(ledger.held) >= MOST_RESERVATIONS and need.uid not in ledger.held:
        text = f"{name} has as many reservations as it can hold; one has to end first"
        return Budgeted(
            budget=budget.name, message=text, lacks="Queue", reason="BudgetExceeded", again=again
        )
    if budget.amount(need) > budget.limit:
        text = f"needs {wanted}, more than all {most} of {name}; lower agent.maxCostUSD"
    else:
        until = ledger.end.isoformat(timespec="minutes").replace("+00:00", "Z")
        text = f"needs {wanted}, more than {name} has left of its {most} until {until}"
    left = (ledger.end - now).total_seconds()
    return Budgeted(
        budget=budget.name,
        message=text,
        lacks=spec.on_exceeded,
        reason="BudgetExceeded",
        again=max(min(again, left), 1.0),
    )


def held_by(budget: Budget, uid: str) -> Budgeted | None:
    """What a budget says of a task or session with a reservation of it; None when it has none."""
    held = budget.ledger.held.get(uid)
    if held is None:
        return None
    text = f"{dollars(held.micros):g} USD of AgentBudget {budget.name}"
    if held.over:
        text += ", which had no room for it and only warns"
    reason = "BudgetExceeded" if held.over else "Reserved"
    return Budgeted(budget=budget.name, message=text, held=True, reason=reason)


def status_of(budget: Budget, ledger: Ledger, now: datetime) -> BudgetStatus:
    """The status that a budget should have: its ledger, and what people and programs read of it."""
    status = written(ledger, budget.limit, budget.status)
    conditions: tuple[Condition, ...] = ()
    if budget.error:
        conditions = (_next(budget, now, "Ready", "InvalidSpec", budget.error, holds=False),)
    else:
        conditions = (
            _next(budget, now, "Ready", "AsExpected", "", holds=True),
            _near(budget, ledger, now),
            _next(
                *(budget, now, EXCEEDED, "BudgetUsed"),
                "all of it is spent or reserved" if ledger.used >= budget.limit else "",
                holds=ledger.used >= budget.limit,
            ),
        )
    update = {"conditions": conditions, "observed_generation": budget.generation}
    return status.model_copy(update=update)


def near_event(budget: Budget, status: BudgetStatus) -> Event | None:
    """The Event of a budget of which a good part is spent: one in each of its periods."""
    near = status.condition(NEAR)
    if near is None or near.status != "True" or status.period_start is None:
        return None
    period = int(status.period_start.timestamp())
    return Event(
        kind="Warning", reason=NEAR, message=near.message, attempt=budget.generation, number=period
    )


def _near(budget: Budget, ledger: Ledger, now: datetime) -> Condition:
    percent = budget.spec.warn_at_percent
    near = percent is not None and ledger.spent * 100 >= budget.limit * percent
    text = f"{percent} % or more of {budget.spec.max_cost_usd:g} USD are spent" if near else ""
    return _next(budget, now, NEAR, "WarnAtPercent", text, holds=near)


def _next(
    budget: Budget, now: datetime, kind: str, reason: str, message: str, *, holds: bool
) -> Condition:
    return budget.status.next_condition(
        kind, "True" if holds else "False", reason, message, now, budget.generation
    )
