"""The AgentTasks as the operator last saw them, their Jobs and Pods beside.

A change enqueues the keys of the tasks it may matter to: the task itself, and those that depend on
it when its phase changes.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from orbiter_operator.kube.cache import Children, ObjectCache
from orbiter_operator.kube.names import Key
from orbiter_operator.pods.state import JobState, PodState
from orbiter_operator.tasks.models import FINAL
from orbiter_operator.tasks.observed import job_of_attempt, pod_matters, pod_of_attempt

Object = dict[str, Any]
KIND = "AgentTask"


class TaskCache(ObjectCache):
    """AgentTasks by key, and the state of their children.

    Args:
        enqueue: Called with the key of every task for which something has changed.
    """

    def __init__(self, enqueue: Callable[[Key], None]) -> None:
        super().__init__(KIND, enqueue)
        self.jobs: Children[JobState] = Children(job_of_attempt, enqueue)
        self.pods: Children[PodState] = Children(pod_of_attempt, enqueue, matters=pod_matters)
        self._dependents: dict[Key, set[Key]] = defaultdict(set)

    def unfinished(self, namespace: str, name: str) -> str | None:
        """The uid of the task of this name; None when it is over or not there."""
        obj = self.get(Key(namespace, name))
        return None if obj is None or phase_of(obj) in FINAL else str(obj["metadata"]["uid"])

    def dependents(self, key: Key) -> list[Key]:
        """Tasks that name this one in their dependsOn."""
        return list(self._dependents.get(key, ()))

    def _added(self, key: Key, old: Object | None, obj: Object) -> None:
        if phase_of(obj) in FINAL:
            # No decision needs these any more.
            obj["spec"].pop("prompt", None)
            (obj["status"].get("result") or {}).pop("data", None)
        for name in _dependencies(obj):
            self._dependents[Key(key.namespace, name)].add(key)
        if old is None or not _only_runs_now(old, obj):
            self._enqueue(key)
        if old is None or phase_of(old) != phase_of(obj):
            self._enqueue_dependents(key)

    def _dropped(self, key: Key, old: Object) -> None:
        for name in _dependencies(old):
            on = Key(key.namespace, name)
            dependents = self._dependents.get(on, set())
            dependents.discard(key)
            if not dependents:
                self._dependents.pop(on, None)
        self._enqueue_dependents(key)

    def _enqueue_dependents(self, key: Key) -> None:
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
