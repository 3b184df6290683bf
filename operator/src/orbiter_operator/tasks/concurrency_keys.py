"""Whose turn it is among the tasks of a namespace that have the same `spec.concurrencyKey`.

A task has its key from its first attempt to its end: while it waits for an answer or its next
attempt nobody else has it, because what it works on is not finished. The others stand in line, the
oldest first, but only who could begin: one that waits for its dependencies stands in nobody's way,
so a line and `dependsOn` never wait for each other. Who has a key waits for no key, and a place in
line takes no slot.

Changed only between two awaits, as slots are. Nothing of it is stored: who has begun has its key.
"""

from bisect import bisect_left, insort
from datetime import datetime
from typing import Any, NamedTuple

from orbiter_operator.kube.names import Key
from orbiter_operator.tasks.cache import phase_of
from orbiter_operator.tasks.models import FINAL
from orbiter_operator.tasks.observed import Observed, current_attempt, stage
from orbiter_operator.tasks.plan.actions import Plan


class Place(NamedTuple):
    """A task in line: its creation time in seconds, then its name; uids tell namesakes apart."""

    created: float
    name: str
    uid: str


class _Line(NamedTuple):
    """The tasks of one key of one namespace."""

    holders: set[Place]
    waiting: list[Place]


class ConcurrencyKeys:
    """The lines of all namespaces."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], _Line] = {}
        self._places: dict[tuple[str, str], dict[str, tuple[str, Place]]] = {}

    def seed(self, key: Key, obj: dict[str, Any], *, works: bool) -> None:
        """Take a task in before anything is decided: in the order of their ages, whoever is first.

        Args:
            key: The task's key.
            obj: The task.
            works: Whether it has a Job that is not over.
        """
        meta, named = obj["metadata"], (obj.get("spec") or {}).get("concurrencyKey")
        over = phase_of(obj) in FINAL and not works
        if not isinstance(named, str) or over:
            return
        created = datetime.fromisoformat(meta["creationTimestamp"]).timestamp()
        begun = works or (obj.get("status") or {}).get("attempts")
        enter = self.take if begun else self.wait
        enter(key.namespace, named, Place(created, key.name, meta["uid"]))

    def behind(self, observed: Observed) -> str:
        """Whom a task that has not begun waits for; empty when its key is free for it."""
        key = observed.spec.concurrency_key
        return self.before(observed.namespace, key, _place(observed)) if key else ""

    def before(self, namespace: str, key: str, place: Place) -> str:
        """Whoever is next before a task, in line or with the key; empty when nobody is."""
        line = self._lines.get((namespace, key))
        if line is None:
            return ""
        ahead = bisect_left(line.waiting, place)
        if ahead:
            return line.waiting[ahead - 1].name
        return min((other.name for other in line.holders if other != place), default="")

    def of(self, namespace: str, name: str) -> set[str]:
        """The uids of all tasks of this name that have a key or wait for one."""
        return set(self._places.get((namespace, name), ()))

    def take(self, namespace: str, key: str, place: Place) -> str:
        """Give the task its key. Returns who waits for another one now, as all these do."""
        return self._move(namespace, key, place, has=True)

    def wait(self, namespace: str, key: str, place: Place) -> str:
        """Put the task in line."""
        return self._move(namespace, key, place, has=False)

    def leave(self, namespace: str, name: str, uid: str) -> str:
        """The task has no key and wants none."""
        known = self._places.get((namespace, name), {})
        if uid not in known:
            return ""
        key, place = known.pop(uid)
        if not known:
            del self._places[namespace, name]
        line = self._lines[namespace, key]
        at = 0
        if place in line.holders:
            line.holders.discard(place)
        else:
            at = bisect_left(line.waiting, place)
            del line.waiting[at]
        if not line.holders and not line.waiting:
            del self._lines[namespace, key]
        return _name_at(line, at)

    def follow(self, observed: Observed, decision: Plan) -> str:
        """Do what follows from a decision. Returns who waits for another one now."""
        key, place = observed.spec.concurrency_key, _place(observed)
        if key and _has_begun(observed, decision):
            return self.take(observed.namespace, key, place)
        if key and (decision.in_line or decision.slot == "wait"):
            return self.wait(observed.namespace, key, place)
        return self.leave(observed.namespace, place.name, place.uid)

    def _move(self, namespace: str, key: str, place: Place, *, has: bool) -> str:
        line = self._lines.get((namespace, key))
        known = self._places.get((namespace, place.name), {}).get(place.uid)
        if line is not None and known == (key, place) and (place in line.holders) == has:
            return ""
        self.leave(namespace, place.name, place.uid)
        line = self._lines.setdefault((namespace, key), _Line(set(), []))
        self._places.setdefault((namespace, place.name), {})[place.uid] = (key, place)
        if has:
            line.holders.add(place)
            return _name_at(line, 0)
        insort(line.waiting, place)
        return _name_at(line, bisect_left(line.waiting, place) + 1)


def _name_at(line: _Line, at: int) -> str:
    return line.waiting[at].name if at < len(line.waiting) else ""


def _place(observed: Observed) -> Place:
    return Place(observed.created.timestamp(), observed.name, observed.uid)


def _has_begun(observed: Observed, decision: Plan) -> bool:
    """Whether a task has its key after a decision: a pod of it may work, or it has to go on."""
    if decision.slot == "take":
        return True
    if stage(observed) == "ignored":
        return False
    phase = (decision.status or observed.status).phase
    return (current_attempt(observed) > 0 or decision.starts) and phase not in FINAL
