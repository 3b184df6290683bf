"""A sliding minute: how much was taken in the last sixty seconds, and when more can be."""

from collections import deque
from dataclasses import dataclass

MINUTE = 60.0


@dataclass(eq=False, slots=True)
class Entry:
    """What was taken at one moment."""

    at: float
    amount: int


class Window:
    """At most `limit` in any sixty seconds; None is no limit. Times never go back."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._entries: deque[Entry] = deque()
        self._total = 0

    def wait(self, now: float, amount: int) -> float:
        """Return the seconds until an amount can be taken; one above the limit goes alone."""
        self._forget(now)
        if self._limit is None:
            return 0.0
        left = self._total
        wait = 0.0
        for entry in self._entries:
            if not left or left + amount <= self._limit:
                break
            left -= entry.amount
            wait = entry.at + MINUTE - now
        return wait

    def take(self, now: float, amount: int) -> Entry:
        """Take an amount, fit or not."""
        entry = Entry(now, amount)
        if self._limit is not None:
            self._entries.append(entry)
            self._total += amount
        return entry

    def correct(self, entry: Entry, amount: int) -> None:
        """Say what an entry has really been; one that is a minute old does not count any more."""
        if entry in self._entries:
            self._total += amount - entry.amount
            entry.amount = amount

    def _forget(self, now: float) -> None:
        while self._entries and self._entries[0].at + MINUTE <= now:
            self._total -= self._entries.popleft().amount
