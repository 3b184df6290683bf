"""Slots for Jobs: who may run one in a namespace under its limit, and who waits in which position.

One instance per operator, changed only between two awaits: `slots` and the `take`, `wait` or
`leave` that follows from it happen in the same step of the event loop, so two tasks never get one
slot. The task of the highest priority goes first, of equal ones the oldest, whoever asks.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import NamedTuple

from orbiter_operator.tasks.observed import Slots


class Waiter(NamedTuple):
    """A task in the queue of its namespace: its priority, creation time in seconds, then name."""

    rank: int
    created: float
    name: str


class Capacity:
    """Slots by namespace.

    Args:
        limit: How many Jobs a namespace may run.
    """

    def __init__(self, limit: Callable[[str], int]) -> None:
        self._limit = limit
        self._running: dict[str, set[str]] = {}
        self._waiting: dict[str, list[Waiter]] = {}
        self._waiters: dict[tuple[str, str], Waiter] = {}

    def slots(self, namespace: str, name: str, created: float, priority: int = 0) -> Slots:
        """How things stand for one task that would run."""
        running = self._running.get(namespace, set())
        waiting = self._waiting.get(namespace, [])
        limit = self._limit(namespace)
        ahead = bisect_left(waiting, Waiter(-priority, created, name))
        known = (namespace, name) in self._waiters
        return Slots(
            free=name in running or len(running) + ahead < limit,
            position=ahead + 1,
            waiting=len(waiting) + (0 if known else 1),
            running=len(running),
            limit=limit,
        )

    def take(self, namespace: str, name: str) -> None:
        """Give the task a slot."""
        self._remove_waiter(namespace, name)
        self._running.setdefault(namespace, set()).add(name)

    def wait(self, namespace: str, name: str, created: float, priority: int = 0) -> None:
        """Put the task in line, or elsewhere in it when its priority was changed."""
        self._running.get(namespace, set()).discard(name)
        waiter = Waiter(-priority, created, name)
        if self._waiters.get((namespace, name)) != waiter:
            self._remove_waiter(namespace, name)
            self._waiters[namespace, name] = waiter
            insort(self._waiting.setdefault(namespace, []), waiter)

    def leave(self, namespace: str, name: str) -> None:
        """The task neither runs nor waits any more."""
        self._remove_waiter(namespace, name)
        self._running.get(namespace, set()).discard(name)

    def next_up(self, namespace: str) -> list[str]:
        """Names of the waiting tasks for which there is a slot now."""
        free = self._limit(namespace) - len(self._running.get(namespace, ()))
        return [waiter.name for waiter in self._waiting.get(namespace, ())[: max(free, 0)]]

    def free_slots(self, namespace: str) -> int:
        """How many more Jobs could start in the namespace, after all that wait."""
        taken = len(self._running.get(namespace, ())) + len(self._waiting.get(namespace, ()))
        return max(self._limit(namespace) - taken, 0)

    def running(self) -> list[tuple[str, str]]:
        """Namespace and name of every task that has a slot."""
        return [(place, name) for place, names in self._running.items() for name in names]

    def totals(self) -> tuple[int, int]:
        """How many tasks run and how many wait, in all namespaces."""
        return sum(map(len, self._running.values())), len(self._waiters)

    def _remove_waiter(self, namespace: str, name: str) -> None:
        waiter = self._waiters.pop((namespace, name), None)
        if waiter is not None:
            waiting = self._waiting[namespace]
            del waiting[bisect_left(waiting, waiter)]
