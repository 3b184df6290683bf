"""Everything the operator knows of the cluster: the AgentTasks here, their Jobs and Pods beside.

`reconcile` reads it, the informers fill it. A change enqueues the keys of the tasks it may matter
to: the task itself, and those that depend on it when its phase changes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from orbiter_operator.kube.cache import Children, Tombstones, version_of
from orbiter_operator.kube.names import Key
from orbiter_operator.pods.state import JobState, PodState
from orbiter_operator.tasks.models import FINAL
from orbiter_operator.tasks.observed import job_of_attempt, pod_matters, pod_of_attempt

Object = dict[str, Any]


class Store:
    """AgentTasks by key, and the facts of their children.

    Args:
        enqueue: Called with the key of every task for which something has changed.
    """

    def __init__(self, enqueue: Callable[[Key], None]) -> None:
        self.jobs: Children[JobState] = Children(job_of_attempt, enqueue)
        self.pods: Children[PodState] = Children(pod_of_attempt, enqueue, matters=pod_matters)
        self._enqueue = enqueue
        self._tasks: dict[Key, Object] = {}
        self._dependents: dict[Key, set[Key]] = defaultdict(set)
        self._removed: dict[Key, list[Object]] = {}
        self._gone = Tombstones()

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._tasks))

    def get(self, key: Key) -> Object | None:
        """The AgentTask as last seen, or None."""
        return self._tasks.get(key)

    def take_removed(self, key: Key) -> list[Object]:
        """The last states of tasks of this name that were deleted; handed out once."""
        return self._removed.pop(key, [])

    def put_back_removed(self, key: Key, objs: list[Object]) -> None:
        """What was handed out could not be dealt with."""
        self._removed.setdefault(key, []).extend(objs)

    def unfinished(self, namespace: str, name: str) -> str | None:
        """The uid of the task of this name; None when it is over or not there."""
        obj = self._tasks.get(Key(namespace, name))
        return None if obj is None or phase_of(obj) in FINAL else str(obj["metadata"]["uid"])

    def dependents(self, key: Key) -> list[Key]:
        """Tasks that name this one in their dependsOn."""
        return list(self._dependents.get(key, ()))

    def put(self, obj: Object) -> None:
        """Remember a task as it is now."""
        meta = obj["metadata"]
        key = Key(meta["namespace"], meta["name"])
        old = self._tasks.get(key)
        if meta["uid"] in self._gone or (old and version_of(old) >= version_of(obj)):
            return
        if old is not None and old["metadata"]["uid"] != meta["uid"]:
            self._removed.setdefault(key, []).append(old)
            self._drop_dependencies(key, old)
        _trim(obj)
        self._tasks[key] = obj
        for name in _dependencies(obj):
            self._dependents[Key(key.namespace, name)].add(key)
        if old is None or not _only_runs_now(old, obj):
            self._enqueue(key)
        if old is None or phase_of(old) != phase_of(obj):
            self._tell_dependents(key)

    def remove(self, obj: Object) -> None:
        """Forget a task that was deleted."""
        meta = obj["metadata"]
        key = Key(meta["namespace"], meta["name"])
        self._gone.add(meta["uid"])
        old = self._tasks.get(key)
        if old is None or old["metadata"]["uid"] != meta["uid"]:
            return
        del self._tasks[key]
        self._removed.setdefault(key, []).append(old)
        self._drop_dependencies(key, old)
        self._enqueue(key)
        self._tell_dependents(key)

    def missing_from(self, listed: set[str], version: int) -> list[Object]:
        """Tasks held here that a list taken at `version` does not have."""
        return [
            obj
            for obj in self._tasks.values()
            if obj["metadata"]["uid"] not in listed and version_of(obj) <= version
        ]

    def _drop_dependencies(self, key: Key, old: Object) -> None:
        for name in _dependencies(old):
            on = Key(key.namespace, name)
            dependents = self._dependents.get(on, set())
            dependents.discard(key)
            if not dependents:
                self._dependents.pop(on, None)

    def _tell_dependents(self, key: Key) -> None:
        for dependent in self.dependents(key):
            self._enqueue(dependent)


def phase_of(obj: Object) -> str:
    """The phase of an AgentTask; empty before the first."""
    return str((obj.get("status") or {}).get("phase") or "")


def _only_runs_now(old: Object, obj: Object) -> bool:
    """Whether nothing is new but that its status says Running: nothing follows from that."""
    before, meta = old["metadata"], obj["metadata"]
    told = ("generation", "annotations", "labels", "deletionTimestamp", "uid")
    return phase_of(obj) == "Running" and all(before.get(name) == meta.get(name) for name in told)


def _dependencies(obj: Object) -> list[str]:
    return (obj.get("spec") or {}).get("dependsOn") or []


def _trim(obj: Object) -> None:
    """Drop what no decision needs; a thousand finished tasks should cost little memory."""
    obj["metadata"].pop("managedFields", None)
    annotations = obj["metadata"].get("annotations") or {}
    annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    if phase_of(obj) in FINAL:
        obj["spec"].pop("prompt", None)
        (obj["status"].get("result") or {}).pop("data", None)
