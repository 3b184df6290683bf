"""The POSessions as last seen, their Deployments and Pods beside, and how that is repaired.

Beside the name a session is found by its worker id, under which its worker speaks, and by its user,
of whom there may be one session only in a namespace.

Now and then all sessions are compared with what Redis and the registry hold. The waker and the
informers are quick, this is thorough: it repairs a missed wake-up within EVERY_SECONDS, and deletes
the keys of sessions that were deleted while no operator was there.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Any

import structlog
from redis.exceptions import RedisError, ResponseError

from orbiter_contracts.queues import BARE, Keys, KeysOf
from orbiter_operator.kube.cache import Children, ObjectCache
from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.models import read_status
from orbiter_operator.kube.names import SESSION, Key
from orbiter_operator.kube.resources import PO_SESSIONS
from orbiter_operator.pods.state import PodState
from orbiter_operator.runtime.reconciler import WorkQueue
from orbiter_operator.sessions.migration import Migration, stream_keys
from orbiter_operator.sessions.models import (
    DUPLICATE_USER,
    DUPLICATE_WORKER,
    DeploymentState,
    Rival,
    SessionStatus,
    default_worker_id,
    deployment_of_session,
    pod_of_session,
    worker_id_error,
)
from orbiter_operator.sessions.streams import Record, SessionQueues

Object = dict[str, Any]
KIND = "POSession"
_OF_ITS_PROFILE = ("ProfileMissing", "ProfileInvalid", "ProfileConflict", "InvalidSpec")


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

    def knows(self, key: Key, uid: str) -> bool:
        """Whether a session is there, or was and is not tidied up."""
        found = (self.get(key), *self.removed(key))
        return any(obj["metadata"]["uid"] == uid for obj in found if obj is not None)

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

    def wake(self, namespace: str) -> None:
        """A profile has changed: those that could not have theirs look again, others as they wake.

        Args:
            namespace: Whose profile; empty for one of the cluster.
        """
        for key in self:
            if namespace in ("", key.namespace) and _held_back(self._objects[key]):
                self._enqueue(key)

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


def _held_back(obj: Object) -> bool:
    """Whether a session could have been awake, were it not for its profile."""
    status = read_status(SessionStatus, obj.get("status"))
    available = status.condition("Available")
    return available is not None and available.reason in _OF_ITS_PROFILE


def _claims(obj: Object) -> tuple[tuple[str, Hashable], ...]:
    """What a session wants for itself alone."""
    user = (obj["metadata"]["namespace"], obj["spec"].get("userId"))
    return (("user", user), ("worker", worker_id_of(obj)))


def _age(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["creationTimestamp"], obj["metadata"]["uid"]


log = structlog.get_logger(__name__)
EVERY_SECONDS = 15.0
_RECORDS_EVERY = 20
"""The registry is compared with every so many-th comparison: deletions are rarely missed."""
_NOT_FOUND = 404


class SessionResync:
    """The slow part of the sessions.

    Args:
        store: POSessions, complete from the start.
        queues: The sessions' keys in Redis.
        migration: Moves them.
        queue: Where keys go that should be reconciled.
        kube: The API client, to make sure that a session is gone.
        namespaces: Namespaces the operator serves; empty for all.
        keys: Which keys a namespace has.
        every: Seconds between two comparisons.
    """

    def __init__(
        self,
        *,
        store: SessionCache,
        queues: SessionQueues,
        migration: Migration,
        queue: WorkQueue[Key],
        kube: Kube,
        namespaces: tuple[str, ...],
        keys: KeysOf = lambda namespace: BARE,
        every: float = EVERY_SECONDS,
    ) -> None:
        self._store = store
        self._queues = queues
        self._migration = migration
        self._queue = queue
        self._kube = kube
        self._namespaces = namespaces
        self._keys = keys
        self._every = every

    async def run(self) -> None:
        """Compare for ever."""
        count = 0
        while True:
            try:
                if count % _RECORDS_EVERY == 0:
                    await self.compare_records()
                if count:
                    await self.compare_streams()
                count += 1
            except (RedisError, OSError, ApiError, *TRANSPORT_ERRORS) as error:
                log.info("sessions not compared", error=f"{type(error).__name__}: {error}")
            await asyncio.sleep(self._every)

    async def compare_streams(self) -> None:
        """Requeue every session that is awake, or whose stream is not as its status says."""
        asleep: dict[str, tuple[Key, int]] = {}
        moved: dict[str, Object] = {}
        for key in self._store:
            obj = self._store.get(key) or {}
            status = obj.get("status") or {}
            # A tenant may write a status: what it names counts as far as it is the session's own.
            own, named = self._keys(key.namespace), stream_keys(obj)
            if own.prefix and named == own:
                moved[worker_id_of(obj)] = obj
            if status.get("replicas") == 0 and named is not None and named in (own, BARE):
                asleep[named.po_input(worker_id_of(obj))] = (key, status.get("pendingMessages", 0))
            else:
                self._queue.add(key)
        for worker_id in await self._migration.left_behind(list(moved)):
            await self._fetch(worker_id, moved[worker_id])
        waiting = await self._queues.waiting(list(asleep))
        for stream, (key, known) in asleep.items():
            if waiting[stream] != known:
                self._queue.add(key)

    async def _fetch(self, worker_id: str, obj: Object) -> None:
        """Put what was said to a session under its old names behind what is under its own."""
        keys = self._keys(obj["metadata"]["namespace"])
        try:
            await self._migration.move(worker_id, obj["spec"].get("userId"), keys)
        except ResponseError as error:
            log.warning("messages not moved", worker=worker_id, error=str(error))

    async def compare_records(self) -> None:
        """Hand over what is left of sessions that do not exist any more."""
        for record in await self._queues.records():
            key = session_key(record.namespace, record.name)
            obj = self._store.get(key)
            if obj is not None and obj["metadata"]["uid"] == record.uid:
                continue
            if self._namespaces and record.namespace not in self._namespaces:
                continue
            try:
                if await self._is_gone(record):
                    self._store.orphan(_last_state(record))
            except ApiError as error:
                log.info("session not compared", session=str(key), error=str(error))

    async def _is_gone(self, record: Record) -> bool:
        try:
            found = await self._kube.get(PO_SESSIONS, record.namespace, record.name)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            return True
        return bool(found["metadata"]["uid"] != record.uid)


def record_of(obj: Object, keys: Keys) -> Record:
    """What the registry says about a session.

    Args:
        obj: The session.
        keys: The keys it is under.
    """
    meta = obj["metadata"]
    retain = (obj.get("spec") or {}).get("retainPolicy") == "Retain"
    worker_id = worker_id_of(obj)
    return Record(
        meta["uid"], meta["namespace"], meta["name"], worker_id, retain, prefix=keys.prefix
    )


def _last_state(record: Record) -> dict[str, object]:
    """As much of a deleted session as tidying up needs."""
    spec = {"workerId": record.worker_id, "retainPolicy": "Retain" if record.retain else "Delete"}
    meta = {"namespace": record.namespace, "name": record.name, "uid": record.uid}
    status = {"inputStream": record.keys.po_input(record.worker_id)}
    return {"metadata": meta, "spec": spec, "status": status}
