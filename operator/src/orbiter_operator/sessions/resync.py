"""Now and then: compare all sessions with what Redis and the registry hold.

The waker and the informers are quick, this is thorough: it repairs a missed wake-up within half a
minute, and deletes the keys of sessions that were deleted while no operator was there.
"""

import asyncio

import structlog
from redis.exceptions import RedisError

from orbiter_operator.kube.client import PO_SESSIONS, TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.names import Key
from orbiter_operator.runtime.workqueue import WorkQueue
from orbiter_operator.sessions.cache import SessionCache, session_key, worker_id_of
from orbiter_operator.sessions.streams import Record, SessionQueues

log = structlog.get_logger(__name__)
EVERY_SECONDS = 15.0
_RECORDS_EVERY = 20
"""The registry is compared with every so many-th look: deletions are rarely missed."""
_NOT_FOUND = 404


class SessionResync:
    """The slow part of the sessions.

    Args:
        store: POSessions, complete from the start.
        queues: The sessions' keys in Redis.
        queue: Where keys go that should be reconciled.
        kube: The API client, to make sure that a session is gone.
        namespaces: Namespaces the operator serves; empty for all.
        every: Seconds between two comparisons.
    """

    def __init__(
        self,
        *,
        store: SessionCache,
        queues: SessionQueues,
        queue: WorkQueue[Key],
        kube: Kube,
        namespaces: tuple[str, ...],
        every: float = EVERY_SECONDS,
    ) -> None:
        self._store = store
        self._queues = queues
        self._queue = queue
        self._kube = kube
        self._namespaces = namespaces
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
        for key in self._store:
            obj = self._store.get(key) or {}
            status = obj.get("status") or {}
            if status.get("replicas") == 0 and status.get("inputStream"):
                asleep[worker_id_of(obj)] = (key, status.get("pendingMessages", 0))
            else:
                self._queue.add(key)
        waiting = await self._queues.waiting(list(asleep))
        for worker_id, (key, known) in asleep.items():
            if waiting[worker_id] != known:
                self._queue.add(key)

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


def _last_state(record: Record) -> dict[str, object]:
    """As much of a deleted session as tidying up needs."""
    spec = {"workerId": record.worker_id, "retainPolicy": "Retain" if record.retain else "Delete"}
    meta = {"namespace": record.namespace, "name": record.name, "uid": record.uid}
    return {"metadata": meta, "spec": spec}
