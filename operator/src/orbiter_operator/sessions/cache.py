"""The POSessions as the operator last saw them, their Deployments and Pods beside.

As `store` for AgentTasks. Beside the name a session is found by its worker id, under which its
worker speaks, and by its user, of whom there may be one session only in a namespace.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from orbiter_operator.kube.cache import Children, Tombstones, version_of
from orbiter_operator.kube.names import SESSION, Key
from orbiter_operator.pods.state import PodState
from orbiter_operator.sessions.observed import (
    DUPLICATE_USER,
    DUPLICATE_WORKER,
    DeploymentFacts,
    Rival,
    default_worker_id,
    deployment_facts,
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


class SessionStore:
    """POSessions by key, and the facts of their children.

    Args:
        enqueue: Called with the key of every session for which something has changed.
    """

    def __init__(self, enqueue: Callable[[Key], None]) -> None:
        self.deployments: Children[DeploymentFacts] = Children(
            deployment_facts, enqueue, kind=KIND, label=SESSION
        )
        self.pods: Children[PodState] = Children(pod_of_session, enqueue, kind=KIND, label=SESSION)
        self._enqueue = enqueue
        self._sessions: dict[Key, Object] = {}
        self._shared: dict[Hashable, set[Key]] = defaultdict(set)
        self._removed: dict[Key, list[Object]] = {}
        self._gone = Tombstones()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._sessions))

    def get(self, key: Key) -> Object | None:
        """The session as last seen, or None."""
        return self._sessions.get(key)

    def with_worker(self, worker_id: str) -> list[Key]:
        """The sessions whose worker has this id: one, if all is well."""
        return list(self._shared.get(("worker", worker_id), ()))

    def rival(self, key: Key) -> Rival | None:
        """The oldest other session with the same user, or with the same streams."""
        obj = self._sessions[key]
        for what, value in _claims(obj):
            older = [
                (_age(other), name)
                for name in self._shared.get((what, value), ())
                if name != key and _age(other := self._sessions[name]) < _age(obj)
            ]
            if older:
                reason = DUPLICATE_USER if what == "user" else DUPLICATE_WORKER
                user = f"user {obj['spec'].get('userId')}"
                shared = user if what == "user" else f"worker id {value}"
                return Rival(name=str(min(older)[1]), reason=reason, shared=shared)
        return None

    def removed(self, key: Key) -> list[Object]:
        """The last states of sessions of this name that were deleted and not yet tidied up."""
        return list(self._removed.get(key, ()))

    def tidied(self, key: Key, uid: str) -> None:
        """Nothing is left of this deleted session."""
        left = [obj for obj in self._removed.pop(key, ()) if obj["metadata"]["uid"] != uid]
        if left:
            self._removed[key] = left

    def put(self, obj: Object) -> None:
        """Remember a session as it is now."""
        meta = obj["metadata"]
        key = session_key(meta["namespace"], meta["name"])
        old = self._sessions.get(key)
        if meta["uid"] in self._gone or (old and version_of(old) >= version_of(obj)):
            return
        if old is not None and old["metadata"]["uid"] != meta["uid"]:
            self._drop(key, old)
        meta.pop("managedFields", None)
        (meta.get("annotations") or {}).pop("kubectl.kubernetes.io/last-applied-configuration", "")
        self._sessions[key] = obj
        for claim in _claims(obj):
            self._shared[claim].add(key)
        self._enqueue(key)

    def remove(self, obj: Object) -> None:
        """Forget a session that was deleted."""
        meta = obj["metadata"]
        key = session_key(meta["namespace"], meta["name"])
        self._gone.add(meta["uid"])
        old = self._sessions.get(key)
        if old is None or old["metadata"]["uid"] != meta["uid"]:
            return
        del self._sessions[key]
        self._drop(key, old)
        self._enqueue(key)

    def orphan(self, obj: Object) -> None:
        """Take over a session that was deleted while no operator looked."""
        meta = obj["metadata"]
        key = session_key(meta["namespace"], meta["name"])
        if all(known["metadata"]["uid"] != meta["uid"] for known in self.removed(key)):
            self._removed.setdefault(key, []).append(obj)
        self._enqueue(key)

    def missing_from(self, listed: set[str], version: int) -> list[Object]:
        """Sessions held here that a list taken at `version` does not have."""
        return [
            obj
            for obj in self._sessions.values()
            if obj["metadata"]["uid"] not in listed and version_of(obj) <= version
        ]

    def _drop(self, key: Key, old: Object) -> None:
        self._removed.setdefault(key, []).append(old)
        for claim in _claims(old):
            self._shared[claim].discard(key)
            for other in self._shared[claim]:
                self._enqueue(other)
            if not self._shared[claim]:
                del self._shared[claim]


def _claims(obj: Object) -> tuple[tuple[str, Hashable], ...]:
    """What a session wants for itself alone."""
    user = (obj["metadata"]["namespace"], obj["spec"].get("userId"))
    return (("user", user), ("worker", worker_id_of(obj)))


def _age(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["creationTimestamp"], obj["metadata"]["uid"]
