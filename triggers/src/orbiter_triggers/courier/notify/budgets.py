"""AgentBudgets that are near their limit, and who of their namespace wants to know.

A budget names no receivers: those of the tasks and sessions that it pays for are told, each once in
a period, if they were there when it happened. A task that has ended since counts too: what it cost
is written into the budget before its own end is.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pydantic import Field

from orbiter_contracts.notify import merged_sinks
from orbiter_operator.kube.models import KubeModel, Status, Time, read_model, read_status, timestamp
from orbiter_triggers.courier.notify.facts import (
    BUDGET,
    Fact,
    Receivers,
    receivers_of,
    subject_of,
    tell,
    text_of,
)
from orbiter_triggers.courier.notify.models import DAY, Notification

Object = dict[str, Any]
_WANTED = "BudgetWarning"


class _Limit(KubeModel):
    max_cost_usd: float | None = Field(None, alias="maxCostUSD")


class _Account(Status):
    period_start: Time | None = None
    period_end: Time | None = None
    spent_usd: float | None = Field(None, alias="spentUSD")
    reserved_usd: float | None = Field(None, alias="reservedUSD")
    available_usd: float | None = Field(None, alias="availableUSD")


class Budgets:
    """What is near its limit, and who wants to know, of all namespaces."""

    def __init__(self) -> None:
        self._near: defaultdict[str, dict[str, Object]] = defaultdict(dict)
        self._listeners: defaultdict[str, dict[str, Receivers]] = defaultdict(dict)

    def put_budget(self, obj: Object) -> None:
        """An AgentBudget as it is now."""
        meta = obj["metadata"]
        if _fact(obj) is not None:
            self._near[meta["namespace"]][meta["uid"]] = obj
        else:
            self._near[meta["namespace"]].pop(meta["uid"], None)

    def put_object(self, obj: Object, now: datetime) -> bool:
        """A task or a session as it is now; returns whether it wants to know of budgets."""
        meta = obj["metadata"]
        found = receivers_of(obj)
        wants = found is not None and any(_WANTED in sink.events for sink in found.sinks)
        listeners = self._listeners[meta["namespace"]]
        if found is None or not wants or (found.until and now - found.until > DAY):
            listeners.pop(meta["uid"], None)
            return False
        listeners[meta["uid"]] = found
        return True

    def remove(self, obj: Object) -> None:
        """A budget, a task or a session is gone."""
        meta = obj["metadata"]
        self._near[meta["namespace"]].pop(meta["uid"], None)
        self._listeners[meta["namespace"]].pop(meta["uid"], None)

    def notifications(
        self, namespace: str, now: datetime, base: str = ""
    ) -> list[tuple[Notification, ...]]:
        """What is to be told of each budget of a namespace."""
        listeners = self._listeners[namespace].values()
        found = (warning(obj, listeners, now, base) for obj in self._near[namespace].values())
        return [told for told in found if told]


def warning(
    obj: Object, listeners: Iterable[Receivers], now: datetime, base: str = ""
) -> tuple[Notification, ...]:
    """What is to be told of one AgentBudget. Pure.

    Args:
        obj: It, as the API server has it.
        listeners: The receivers of the tasks and sessions of its namespace.
        now: The time.
        base: What tells this cluster from others in `source`.
    """
    fact = _fact(obj)
    if fact is None or now - fact.time >= DAY:
        return ()
    there = [one for one in listeners if one.since <= fact.time and (one.until or now) >= fact.time]
    sinks = merged_sinks(sink for one in there for sink in one.sinks if _WANTED in sink.events)
    subject = subject_of(BUDGET, obj)
    data = {**_data(obj), **subject.model_dump(exclude={"plural"})}
    return tuple(tell(subject, fact, data, sinks, now, base))


def _fact(obj: Object) -> Fact | None:
    """That a good part of it is spent, in this period."""
    status = read_status(_Account, obj.get("status"))
    near = status.condition("NearLimit")
    if near is None or near.status != "True" or status.period_start is None:
        return None
    period = int(status.period_start.timestamp())
    # A condition that goes on holding in a new period is news there.
    when = max(near.last_transition_time, status.period_start)
    return Fact("BudgetWarning", f"budgetwarning.{period}", when)


def _data(obj: Object) -> Object:
    status = read_status(_Account, obj.get("status"))
    near = status.condition("NearLimit")
    said = {
        "message": text_of(near.message) if near else None,
        "maxCostUSD": read_model(_Limit, obj.get("spec"))[0].max_cost_usd,
        "spentUSD": status.spent_usd,
        "reservedUSD": status.reserved_usd,
        "availableUSD": status.available_usd,
        "periodStart": status.period_start and timestamp(status.period_start),
        "periodEnd": status.period_end and timestamp(status.period_end),
    }
    return {name: value for name, value in said.items() if value is not None}
