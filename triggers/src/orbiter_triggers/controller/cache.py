"""The AgentTriggers as last seen, and the tasks that each has made."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from orbiter_contracts.outcome import FINAL_PHASES
from orbiter_operator.kube.cache import Children, ObjectCache
from orbiter_operator.kube.models import Frozen
from orbiter_operator.kube.names import Key, owner_of, parse_time
from orbiter_triggers.naming import EVENT, KIND, TRIGGER, scheduled_name, scheduled_time

Object = dict[str, Any]
_ENTRY: Final = 64


class TaskState(Frozen):
    """A trigger's task, as far as its trigger goes by it.

    `scheduled` is the time of the schedule that it was made for, `event` the entry of the event.
    `branch` is the one that it pushes to, if it pushes.
    """

    name: str
    uid: str
    owner: str
    created: datetime
    phase: str = "Pending"
    scheduled: datetime | None = None
    event: str = ""
    branch: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing will happen in it any more."""
        return self.phase in FINAL_PHASES


def task_state(obj: Object) -> TaskState | None:
    """What a task is to its trigger; None when it is no trigger's."""
    owner = owner_of(obj, KIND)
    if owner is None:
        return None
    name, uid = owner
    meta = obj["metadata"]
    created = parse_time(meta["creationTimestamp"])
    assert created is not None  # noqa: S101 - the API server's own
    scheduled = scheduled_time(obj)
    if scheduled is not None and meta["name"] != scheduled_name(name, uid, scheduled):
        scheduled = None
    return TaskState(
        name=meta["name"],
        uid=meta["uid"],
        owner=uid,
        created=created,
        phase=str((obj.get("status") or {}).get("phase") or "Pending"),
        scheduled=scheduled,
        event=str((meta.get("annotations") or {}).get(EVENT, ""))[:_ENTRY],
        branch=_pushed(obj.get("spec")),
    )


def _pushed(spec: Any) -> str:
    """The branch that a task pushes to; "" for none."""
    git = spec
    for name in ("workspace", "git"):
        git = git.get(name) if isinstance(git, dict) else None
    if not isinstance(git, dict) or git.get("push", "Never") == "Never":
        return ""
    return str(git.get("branch") or "")


class TriggerCache(ObjectCache):
    """AgentTriggers by key, with their tasks.

    Args:
        enqueue: Called with the key of every trigger for which something has changed.
    """

    def __init__(self, enqueue: Callable[[Key], None]) -> None:
        super().__init__(KIND, enqueue)
        self.tasks: Children[TaskState] = Children(task_state, enqueue, kind=KIND, label=TRIGGER)

    def tasks_of(self, key: Key, uid: str) -> tuple[TaskState, ...]:
        """The tasks of a trigger, the newest last."""
        found: list[TaskState] = self.tasks.of(key, uid)
        return tuple(sorted(found, key=lambda task: (task.created, task.name)))
