"""What the informers of notifications fill: an object is planned for as it comes, none is kept."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from orbiter_operator.kube.names import Key
from orbiter_triggers.courier.notify.budgets import Budgets
from orbiter_triggers.courier.notify.facts import BUDGET, Kind, notifications
from orbiter_triggers.courier.notify.models import Notification

Object = dict[str, Any]
Told = tuple[Notification, ...]


class Watched:
    """One kind of object.

    Args:
        kind: The kind.
        plan: What there is to tell as an object is as it is, of one object each; it is gone if
            the last argument says so.
        saw: Called with an object's key and what there is to tell of it.
    """

    def __init__(
        self,
        kind: Kind,
        plan: Callable[[Kind, Object, bool], Iterator[Told]],
        saw: Callable[[Key, Told], None],
    ) -> None:
        self._kind = kind
        self._plan = plan
        self._saw = saw

    def put(self, obj: Object) -> None:
        """An object as it is now."""
        for told in self._plan(self._kind, obj, False):
            subject = told[0].subject
            self._saw(Key(subject.namespace, subject.uid, subject.kind), told)

    def remove(self, obj: Object) -> None:
        """One that was deleted is told of as it was."""
        for _ in self._plan(self._kind, obj, True):
            pass

    def missing_from(self, listed: set[str], version: int) -> list[Object]:
        """Nothing is kept."""
        return []


def planned(
    budgets: Budgets,
    kind: Kind,
    obj: Object,
    gone: bool,
    *,
    now: Callable[[], datetime],
    base: str,
) -> Iterator[Told]:
    """What there is to tell once an object is as it is: of itself, and of its namespace's budgets.

    Args:
        budgets: What is known of them.
        kind: The object's kind.
        obj: The object.
        gone: Whether it was deleted.
        now: The time.
        base: What tells this cluster from others in `source`.
    """
    if gone:
        budgets.remove(obj)
        return
    if kind == BUDGET:
        budgets.put_budget(obj)
        concerned = True
    else:
        concerned = budgets.put_object(obj, now())
        if told := notifications(kind, obj, now(), base):
            yield told
    if concerned:
        yield from budgets.notifications(obj["metadata"]["namespace"], now(), base)
