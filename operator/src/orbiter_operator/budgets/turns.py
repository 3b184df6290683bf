"""What the turns of an awake session do to a ledger. Pure.

Its worker says what all turns together have cost, and how many have a cost that nobody knows. What
that has grown by since the last time is spent, and what was charged is remembered in the same
write: whoever is killed anywhere says it again, and then it has grown by nothing. The reservation
is that of one turn: once this is over, the next one reserves anew, or has to wait.
"""

from typing import NamedTuple

from orbiter_operator.budgets.ledger import (
    MOST_RESERVATIONS,
    Counted,
    Held,
    Ledger,
    fits,
    micros,
)
from orbiter_operator.budgets.models import MOST_USD, Need

_LAST = 2**31 - 1
"""The largest number that a reservation can have in the resource definition."""


class Turn(NamedTuple):
    """Where a session stands, and the turn that it asks money for.

    Attributes:
        uid: The session's.
        session: Its name.
        number: Which of its turns is under way, or would be the next.
        usd: What that may cost; None when its agent has no limit.
        told: What its worker has said of the cost of all turns, and of those that nobody knows.
        kept: Whether its agent ends at `usd`.
    """

    uid: str
    session: str
    number: int
    usd: float | None
    told: Counted
    kept: bool = True

    @property
    def need(self) -> Need:
        """What it asks for."""
        number = min(self.number, _LAST)
        most, kept = self.usd, self.kept
        return Need(uid=self.uid, task=self.session, attempt=number, usd=most, kept=kept)


def charged(ledger: Ledger, turn: Turn, amount: int) -> Ledger:
    """Spend what was said beyond what is charged; a reservation of an earlier turn is over.

    Args:
        ledger: The accounts.
        turn: The session's.
        amount: What a turn reserves: a cost that nobody knows is as high as its reservation.
    """
    own = ledger.held.get(turn.uid)
    if own is None or own.counted is None:
        return ledger
    before, now, number = own.counted, turn.told, turn.need.attempt
    if now.micros < before.micros or number < own.attempt - 1:
        before = Counted(0, 0)  # Redis has lost its data, and the worker has begun to count anew
    unpriced = max(now.unpriced, before.unpriced)
    cost = now.micros - before.micros + (unpriced - before.unpriced) * (own.micros or amount)
    goes_on = own.attempt == number
    kept = Held(
        own.task,
        own.attempt,
        own.micros if goes_on else 0,
        own.over and goes_on,
        Counted(now.micros, unpriced),
    )
    spent = min(ledger.spent + cost, micros(MOST_USD))
    return _with(ledger._replace(spent=spent), turn.uid, kept)


def taken(
    ledger: Ledger, turn: Turn, amount: int, limit: int, *, grant: bool, warns: bool
) -> Ledger:
    """Charge what an awake session has cost, and hold the money of its turn if there is room.

    Args:
        ledger: The accounts.
        turn: The session's.
        amount: What the turn reserves.
        limit: What may be used in a period.
        grant: Whether anything new may be held for it.
        warns: Whether it is even where there is no room.
    """
    ledger = charged(ledger, turn, amount)
    own, number = ledger.held.get(turn.uid), turn.need.attempt
    if own is not None and own.attempt == number and own.micros >= amount:
        return ledger
    room = fits(ledger, limit, turn.uid, number, amount)
    if own is None and len(ledger.held) >= MOST_RESERVATIONS:
        return ledger
    counted = turn.told if own is None else own.counted
    if grant and (room or warns):
        return _with(ledger, turn.uid, Held(turn.session, number, amount, not room, counted))
    if own is not None:
        return ledger
    # It holds nothing, but what the turn that it is in has cost is charged.
    return _with(ledger, turn.uid, Held(turn.session, number - 1, 0, False, counted))


def released(ledger: Ledger, turn: Turn, amount: int) -> Ledger:
    """Charge what a session has cost that sleeps now, and hold nothing more for it."""
    ledger = charged(ledger, turn, amount)
    own = ledger.held.get(turn.uid)
    if own is None:
        return ledger
    held = {uid: each for uid, each in ledger.held.items() if uid != turn.uid}
    return ledger._replace(held=held, reserved=ledger.reserved - own.micros)


def has_money(ledger: Ledger, turn: Turn) -> bool:
    """Whether the money of a session's turn is put aside."""
    own = ledger.held.get(turn.uid)
    return own is not None and own.attempt == turn.need.attempt


def _with(ledger: Ledger, uid: str, held: Held) -> Ledger:
    own = ledger.held.get(uid)
    reserved = ledger.reserved - (own.micros if own else 0) + held.micros
    return ledger._replace(held={**ledger.held, uid: held}, reserved=reserved)
