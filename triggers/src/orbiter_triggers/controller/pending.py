"""Which entries of the streams wait for a decision about their trigger: ids, in their order."""

from collections import OrderedDict
from itertools import islice
from typing import Final, NamedTuple

MOST_FRESH: Final = 32
"""How many that nobody has looked at are looked at at a time."""


class Batch(NamedTuple):
    """What to look at: the first of those that wait for room, and new ones."""

    parked: tuple[str, ...]
    fresh: tuple[str, ...]


class Pending:
    """The entries of all triggers, by the triggers' uids."""

    def __init__(self) -> None:
        self._fresh: dict[str, OrderedDict[str, None]] = {}
        self._parked: dict[str, OrderedDict[str, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, (*self._fresh.values(), *self._parked.values())))

    def clear(self) -> None:
        """Forget all of them: they are read anew."""
        self._fresh.clear()
        self._parked.clear()

    def add(self, uid: str, entry: str) -> None:
        """An entry has come."""
        if entry not in self._parked.get(uid, ()):
            self._fresh.setdefault(uid, OrderedDict())[entry] = None

    def batch(self, uid: str) -> Batch:
        """What to look at now."""
        return Batch(
            tuple(islice(self._parked.get(uid, ()), 1)),
            tuple(islice(self._fresh.get(uid, ()), MOST_FRESH)),
        )

    def waiting(self, uid: str) -> int:
        """How many wait for room."""
        return len(self._parked.get(uid, ()))

    def has_fresh(self, uid: str) -> bool:
        """Whether there are some that nobody has looked at."""
        return bool(self._fresh.get(uid))

    def park(self, uid: str, entry: str) -> None:
        """It has to wait for room."""
        fresh = self._fresh.get(uid, OrderedDict())
        if entry in fresh:
            del fresh[entry]
            self._parked.setdefault(uid, OrderedDict())[entry] = None

    def remove(self, uid: str, entry: str) -> None:
        """Nothing is left to decide about it."""
        for held in (self._fresh, self._parked):
            entries = held.get(uid, OrderedDict())
            entries.pop(entry, None)
            if not entries:
                held.pop(uid, None)

    def all_of(self, uid: str) -> tuple[str, ...]:
        """All that wait for a decision about a trigger."""
        return (*self._parked.get(uid, ()), *self._fresh.get(uid, ()))
