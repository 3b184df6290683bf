"""Repair by level what a lost event may have left behind: at start, and now and then.

At start it makes the operator know everything before anything is decided. Later it compares with
the cluster and the queues again, which costs time when an event was lost and nothing else.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError
from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.names import Key
from orbiter_operator.runtime.workqueue import WorkQueue
from orbiter_operator.streams.id_repair import Mender
from orbiter_operator.streams.retention import lag, trim_streams
from orbiter_operator.tasks.cache import TaskCache, phase_of
from orbiter_operator.tasks.capacity import Capacity
from orbiter_operator.tasks.models import FINAL

log = structlog.get_logger(__name__)
_PAUSE_SECONDS = 2.0
_LAG_SECONDS = 15.0
_MEND_SECONDS = 5.0


class TaskResync:
    """The slow, thorough part of the operator.

    Args:
        informers: One for each kind.
        store: AgentTasks, Jobs and Pods.
        capacity: Who runs and who waits.
        queue: Where keys go that should be reconciled.
        redis: A client for short commands.
        every: Seconds between two comparisons.
        dead: Called for every entry that became a dead letter.
    """

    def __init__(
        self,
        *,
        informers: Sequence[Informer],
        store: TaskCache,
        capacity: Capacity,
        queue: WorkQueue[Key],
        redis: Redis,
        every: float,
        dead: Callable[[str], None],
    ) -> None:
        self._informers = informers
        self._store = store
        self._capacity = capacity
        self._queue = queue
        self._redis = redis
        self._every = every
        self._mender = Mender(redis, dead)
        self.lag = 0.0
        self.missing: str | None = "nothing has been listed yet"

    async def list_everything(self) -> None:
        """Know everything before deciding anything; who has a Job has its slot."""
        while self.missing is not None:
            try:
                for informer in self._informers:
                    await informer.compare()
                self.missing = None
            except (ApiError, *TRANSPORT_ERRORS) as error:
                self.missing = str(error)
                if isinstance(error, ApiError) and error.status == 404:
                    self.missing = "the API server does not know our kinds; apply the CRDs"
                log.warning("cannot list", error=self.missing)
                await asyncio.sleep(_PAUSE_SECONDS)
        for key in self._store:
            obj = self._store.get(key) or {}
            jobs = self._store.jobs.of(key, obj["metadata"]["uid"])
            if phase_of(obj) not in FINAL and any(not job.over for job in jobs):
                self._capacity.take(key.namespace, key.name)

    async def run(self) -> None:
        """Compare for ever."""
        while True:
            await self._sweep()
            await asyncio.sleep(self._every)
            try:
                for informer in self._informers:
                    await informer.compare()
            except (ApiError, *TRANSPORT_ERRORS) as error:
                log.info("not compared with the cluster", error=str(error))
            for key in self._store:
                if phase_of(self._store.get(key) or {}) not in FINAL:
                    self._queue.add(key)

    async def watch_lag(self) -> None:
        """Keep `lag` recent for ever."""
        while True:
            try:
                self.lag = float(await lag(self._redis))
            except (RedisError, OSError):
                log.debug("lag not read")
            await asyncio.sleep(_LAG_SECONDS)

    async def mend_streams(self) -> None:
        """Keep the streams that all workers share able to take entries, for ever."""
        while True:
            try:
                await self._mender.mend_shared()
            except (RedisError, OSError) as error:
                log.info("streams not looked at", error=str(error))
            await asyncio.sleep(_MEND_SECONDS)

    async def _sweep(self) -> None:
        try:
            taken = await trim_streams(
                self._redis, self._store.unfinished, lambda: time.time_ns() // 1_000_000
            )
        except (RedisError, OSError) as error:
            log.info("streams not swept", error=str(error))
            return
        if taken:
            log.info("orphaned entries taken off the queue", count=taken)
