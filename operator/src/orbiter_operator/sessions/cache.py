"""The POSessions as the operator last saw them, their Deployments and Pods beside.

Beside the name a session is found by its worker id, under which its
worker speaks, and by its user, of whom there may be one session only in a namespace.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Any

from orbiter_operator.kube.cache import Children, ObjectCache
from orbiter_operator.kube.names import SESSION, Key
from orbiter_operator.pods.state import PodState
from orbiter_operator.sessions.observed import (
    DUPLICATE_USER,
    DUPLICATE_WORKER,
    DeploymentState,
    Rival,
    default_worker_id,
    deployment_of_session,
    pod_of_session,
    worker_id_error,
)

Object = dict[str, Any]
KIND = "POSession"


def session_key(namespace: str, name: str) -> Key:
    """The work queue's name of a session."""
    return Key(namespace, name, KIND)


def worker_id_of(obj: Object) -> str:
    """The worker id of a session: part of the names of everything it has in Redis.

    Always one of its own namespace: a session that asks for another's is refused, and meanwhile
    neither looks at the other's keys nor deletes them.
    """
    meta = obj["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    wanted = obj["spec"].get("workerId")
    if wanted is None or worker_id_error(namespace, name, str(wanted)):
        return default_worker_id(namespace, name)
    return str(wanted)


class SessionCache(ObjectCache):
    """POSessions by key, and the state of their children.

    Args:
        enqueue: Called with the key of every session for which something has changed.
    """

    def __init__(self, enqueue: Callable[[Key], None]) -> None:
        super().__init__(KIND, enqueue)
        self.deployments: Children[DeploymentState] = Children(
            deployment_of_session, enqueue, kind=KIND, label=SESSION
        )
        self.pods: Children[PodState] = Children(pod_of_session, enqueue, kind=KIND, label=SESSION)
        self._claimed: dict[Hashable, set[Key]] = defaultdict(set)

    def with_worker(self, worker_id: str) -> list[Key]:
        """The sessions whose worker has this id: one, if all is well."""
        return list(self._claimed.get(("worker", worker_id), ()))

    def rival(self, key: Key) -> Rival | None:
        """The oldest other session with the same user, or with the same streams."""
        obj = self._objects[key]
        for what, value in _claims(obj):
            older = [
                (_age(other), name)
                for name in self._claimed.get((what, value), ())
                if name != key and _age(other := self._objects[name]) < _age(obj)
            ]
            if older:
                reason = DUPLICATE_USER if what == "user" else DUPLICATE_WORKER
                user = f"user {obj['spec'].get('userId')}"
                shared = user if what == "user" else f"worker id {value}"
                return Rival(name=str(min(older)[1]), reason=reason, shared=shared)
        return None

    def _added(self, key: Key, old: Object | None, obj: Object) -> None:
        for claim in _claims(obj):
            self._claimed[claim].add(key)
        self._enqueue(key)

    def _dropped(self, key: Key, old: Object) -> None:
        for claim in _claims(old):
            self._claimed[claim].discard(key)
            for other in self._claimed[claim]:
                self._enqueue(other)
            if not self._claimed[claim]:
                del self._claimed[claim]


def _claims(obj: Object) -> tuple[tuple[str, Hashable], ...]:
    """What a session wants for itself alone."""
    user = (obj["metadata"]["namespace"], obj["spec"].get("userId"))
    return (("user", user), ("worker", worker_id_of(obj)))


def _age(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["creationTimestamp"], obj["metadata"]["uid"]
