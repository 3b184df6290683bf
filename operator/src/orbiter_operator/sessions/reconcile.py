"""One pass over one POSession: observe, plan, execute; again while a step has changed the facts.

Called by the sessions' work queue with a key. Also tidies up after sessions that were deleted, once
the last of their pods has ended: a worker that still runs would make its streams anew.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog
from redis.exceptions import RedisError

from orbiter_operator.kube.client import PO_SESSIONS, TRANSPORT_ERRORS, ApiError, Kube, RefusedError
from orbiter_operator.kube.leader_election import NotLeadingError
from orbiter_operator.kube.models import Refusal
from orbiter_operator.kube.names import Key
from orbiter_operator.runtime.workqueue import WorkQueue
from orbiter_operator.sessions.cache import SessionCache, worker_id_of
from orbiter_operator.sessions.executor import SessionExecutor
from orbiter_operator.sessions.metrics import SessionMetrics
from orbiter_operator.sessions.observe import SessionObserver, record_of
from orbiter_operator.sessions.plan import plan_session
from orbiter_operator.sessions.streams import SessionQueues
from orbiter_operator.sessions.wake import Waker

log = structlog.get_logger(__name__)
_LOOKS = 6
_TIDY_AGAIN_SECONDS = 2.0
REFUSED_AGAIN_SECONDS = 15.0


class SessionReconciler:
    """Brings one session at a time to where it should be.

    Args:
        queue: Where keys come back to.
        store: POSessions, Deployments and Pods.
        queues: The sessions' keys in Redis.
        observer: Collects the facts.
        executor: Carries plans out.
        waker: Told which sessions to watch for messages.
        metrics: Where what happens is counted.
        kube: The API client, for a session that turns out to be out of date.
        measure: Called with the seconds a pass took and whether it succeeded.
        image_patience: How long an image may fail to be pulled.
        clock: The time.
    """

    def __init__(
        self,
        *,
        queue: WorkQueue[Key],
        store: SessionCache,
        queues: SessionQueues,
        observer: SessionObserver,
        executor: SessionExecutor,
        waker: Waker[Key],
        metrics: SessionMetrics,
        kube: Kube,
        measure: Callable[[float, bool], None],
        image_patience: timedelta,
        clock: Callable[[], datetime],
    ) -> None:
        self._queue = queue
        self._store = store
        self._queues = queues
        self._observer = observer
        self._executor = executor
        self._waker = waker
        self._metrics = metrics
        self._kube = kube
        self._measure = measure
        self._image_patience = image_patience
        self._clock = clock

    async def __call__(self, key: Key) -> None:
        """Reconcile one key; never raises but when the process ends."""
        began = time.perf_counter()
        trouble: str | None = None
        try:
            if await self._tidy_up(key):
                trouble = await self._bring_forward(key)
        except (ApiError, RedisError, NotLeadingError, *TRANSPORT_ERRORS) as error:
            trouble = f"{type(error).__name__}: {error}"
        except Exception:
            # A bug must not end the operator, nor the other sessions: this key comes back later.
            log.exception("reconcile failed", session=str(key))
            trouble = "bug"
        if trouble is None:
            self._queue.succeeded(key)
        else:
            pause = self._queue.failed(key)
            log.warning("will try again", session=str(key), seconds=pause, error=trouble)
        self._measure(time.perf_counter() - began, trouble is None)

    async def _bring_forward(self, key: Key) -> str | None:
        """Look and act until nothing more can be done now. Returns what stands in the way."""
        refusal: Refusal | None = None
        for _ in range(_LOOKS):
            if self._store.removed(key):
                # Deleted and made anew meanwhile: what the old one has left goes first, or a
                # message to the new one would go with it.
                self._queue.add(key)
                return None
            obj = self._store.get(key)
            if obj is None:
                self._waker.unwatch(key)
                self._metrics.forget(key)
                return None
            observed = await self._observer.observe(key, obj, refusal=refusal)
            plan = plan_session(observed, self._clock(), image_patience=self._image_patience)
            due = plan.requeue_after
            if refusal is not None:
                plan, due = plan.model_copy(update={"action": None}), REFUSED_AGAIN_SECONDS
            self._queue.add_at(key, None if due is None else time.monotonic() + due)
            try:
                await self._executor.run(key, obj, observed, plan)
            except RefusedError as refused:
                refusal = refused.refusal
                continue
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
                await self._refresh(key)
                continue
            if plan.watch == "input" and observed.queue is not None:
                self._waker.watch(key, observed.worker_id, observed.queue.last_message)
            else:
                self._waker.unwatch(key)
            if plan.requeue:
                self._queue.add(key)
            if not plan.reobserve:
                return observed.queue_error
        return f"still not settled after {_LOOKS} looks"

    async def _refresh(self, key: Key) -> None:
        """Somebody else has changed or deleted the session: look at it as it is now."""
        obj = self._store.get(key)
        try:
            self._store.put(await self._kube.get(PO_SESSIONS, key.namespace, key.name))
        except ApiError as error:
            if error.status != 404:
                raise
            if obj is not None:
                self._store.remove(obj)

    async def _tidy_up(self, key: Key) -> bool:
        """Delete what deleted sessions of this name have left. Returns whether nothing is left."""
        for obj in self._store.removed(key):
            uid = obj["metadata"]["uid"]
            if self._store.deployments.of(key, uid) or self._store.pods.of(key, uid):
                # The end of the last pod brings the key back; this is for a lost event.
                self._queue.add_at(key, time.monotonic() + _TIDY_AGAIN_SECONDS)
                self._waker.unwatch(key)
                return False
            record = record_of(obj)
            shared = any(other != key for other in self._store.with_worker(worker_id_of(obj)))
            await self._queues.wipe(record, shared=shared)
            self._observer.forget(key, record.worker_id)
            self._store.tidied(key, uid)
            log.info("session deleted", session=str(key), kept=record.retain or shared)
        return True
