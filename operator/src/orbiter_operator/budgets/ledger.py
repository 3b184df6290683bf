"""The accounts of one AgentBudget: what is spent, what is kept for whom, what still fits. Pure.

In millionths of a dollar, so that sums are exact. An attempt has a reservation under its task's uid
from before its Job until its end, when what it has cost takes the reservation's place. So whatever
is said twice changes nothing the second time, and what was never granted is never held. A session's
turns are in `turns`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from orbiter_operator.budgets.models import (
    MOST_USD,
    BudgetSpec,
    BudgetStatus,
    Period,
    Reservation,
    SessionAccount,
)

MOST_RESERVATIONS = 2000
"""Attempts at a time that one budget has: each write thinks over all of them, 12 ms for so many."""
_MICROS = 1_000_000
_OLDEST = datetime.min.replace(tzinfo=UTC)


class Counted(NamedTuple):
    """How much of what a session's worker has said is in `spent`, in this period or before."""

    micros: int
    unpriced: int


class Held(NamedTuple):
    """A reservation of one attempt, or with `counted` of one turn of a session."""

    task: str
    attempt: int
    micros: int
    over: bool = False
    counted: Counted | None = None


class Ledger(NamedTuple):
    """One budget's accounts; `reserved` is the sum of `held`, by the uids of tasks and sessions."""

    start: datetime
    end: datetime
    spent: int
    held: Mapping[str, Held]
    reserved: int

    @property
    def used(self) -> int:
        """What nobody else may have."""
        return self.spent + self.reserved


def micros(usd: float) -> int:
    """Dollars as the ledger counts them."""
    return round(min(usd, MOST_USD) * _MICROS)


def dollars(amount: int) -> float:
    """An amount of the ledger as people read it; `micros` gives the same amount back."""
    return amount / _MICROS


def zone_of(name: str) -> tzinfo:
    """A time zone by its name in the IANA database.

    Raises:
        ValueError: There is none of that name, or none is installed.
    """
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(f"{name!r} is no time zone that this operator knows") from error


def period_of(now: datetime, period: Period, zone: tzinfo) -> tuple[datetime, datetime]:
    """The beginning and the end of the period that a moment is in, by the calendar of a zone.

    Weeks begin on Mondays. A day may have 23 or 25 hours where clocks are changed.
    """
    today = now.astimezone(zone).date()
    match period:
        case "Daily":
            first, following = today, today + timedelta(days=1)
        case "Weekly":
            first = today - timedelta(days=today.weekday())
            following = first + timedelta(days=7)
        case "Monthly":
            first = today.replace(day=1)
            following = (first + timedelta(days=31)).replace(day=1)
    start, end = (
        datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
        for day in (first, following)
    )
    # Where clocks are set back over midnight the same day comes twice.
    return start, end if end > now else now + timedelta(hours=1)


def read(status: BudgetStatus) -> Ledger:
    """The ledger in a status; of one that has none yet, one whose period is over."""
    held = {
        uid: Held(each.task, each.attempt, micros(each.usd), each.over, _counted(each.session))
        for uid, each in status.reservations.items()
    }
    return Ledger(
        start=status.period_start or _OLDEST,
        end=status.period_end or _OLDEST,
        spent=micros(status.spent_usd),
        held=held,
        reserved=sum(each.micros for each in held.values()),
    )


def written(ledger: Ledger, limit: int, status: BudgetStatus) -> BudgetStatus:
    """The status with this ledger in it."""
    return status.model_copy(
        update={
            "period_start": ledger.start,
            "period_end": ledger.end,
            "spent_usd": dollars(ledger.spent),
            "reserved_usd": dollars(ledger.reserved),
            "available_usd": dollars(max(limit - ledger.used, 0)),
            "reservations": {
                uid: Reservation(
                    task=each.task,
                    attempt=each.attempt,
                    usd=dollars(each.micros),
                    over=each.over,
                    session=_account(each.counted),
                )
                for uid, each in ledger.held.items()
            },
        }
    )


def _counted(account: SessionAccount | None) -> Counted | None:
    return None if account is None else Counted(micros(account.cost_usd), account.unpriced)


def _account(counted: Counted | None) -> SessionAccount | None:
    if counted is None:
        return None
    return SessionAccount(cost_usd=dollars(counted.micros), unpriced=counted.unpriced)


def at(ledger: Ledger, spec: BudgetSpec, now: datetime) -> Ledger:
    """The ledger as it is at a moment: a new period has spent nothing, and holds what works.

    Where the spec says another period, that begins at once with what was spent in the one before.
    """
    start, end = period_of(now, spec.period, zone_of(spec.time_zone))
    if now >= ledger.end:
        return ledger._replace(start=start, end=end, spent=0)
    if now < ledger.start:
        return ledger  # the clock was set back, or that of the operator before was ahead
    return ledger._replace(start=start, end=end)


def fits(ledger: Ledger, limit: int, uid: str, attempt: int, amount: int) -> bool:
    """Whether an attempt's money is there, or has been put aside for it."""
    own = ledger.held.get(uid)
    if own is not None and own.attempt == attempt and own.micros >= amount:
        return True
    if own is None and len(ledger.held) >= MOST_RESERVATIONS:
        return False
    before = own.micros if own is not None and own.attempt == attempt else 0
    return ledger.used - before + amount <= limit


def reserve(ledger: Ledger, uid: str, held: Held) -> Ledger:
    """Hold an amount for an attempt. Whether it `fits` was asked before.

    An earlier attempt that was not settled is, at its whole reservation.
    """
    own = ledger.held.get(uid)
    if own is not None and own.attempt == held.attempt:
        if own.micros >= held.micros:
            return ledger
        ledger = settle(ledger, uid, own.attempt, 0)
    elif own is not None:
        ledger = settle(ledger, uid, own.attempt, None)
    return ledger._replace(held={**ledger.held, uid: held}, reserved=ledger.reserved + held.micros)


def settle(
    ledger: Ledger, uid: str, attempt: int | None, cost: int | None, *, least: bool = False
) -> Ledger:
    """Put what an attempt has cost in the place of its reservation; nothing without one.

    Args:
        ledger: The accounts.
        uid: The task's.
        attempt: Which attempt; None for whichever has a reservation.
        cost: What it has cost; None when nobody knows: then all that it might have.
        least: Whether it may have cost more than that: then all that it might have, too.
    """
    own = ledger.held.get(uid)
    if own is None or attempt not in (None, own.attempt):
        return ledger
    charged = own.micros if cost is None else max(cost, own.micros * least)
    return ledger._replace(
        held={other: held for other, held in ledger.held.items() if other != uid},
        reserved=ledger.reserved - own.micros,
        # A worker's word may be anything, and what was spent has to be readable again.
        spent=min(ledger.spent + charged, micros(MOST_USD)),
    )
