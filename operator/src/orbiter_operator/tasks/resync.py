"""What a lost event may have left behind is repaired by level: at start, and now and then.

At start that makes the operator know everything before anything is decided. Later it compares with
the cluster and the queues again, which costs time when an event was lost and nothing else.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orbiter_contracts.attempts import Attempt
from orbiter_contracts.queues import BARE
from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError
from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.names import Key
from orbiter_operator.runtime.reconciler import WorkQueue
from orbiter_operator.runtime.supervisor import Part
from orbiter_operator.streams.attempts import CONSUMER, Attempts
from orbiter_operator.streams.dead_letters import forget_adopted
from orbiter_operator.streams.pending_outputs import PendingOutputs
from orbiter_operator.streams.reader import run_id
from orbiter_operator.streams.retention import StreamRepair, trim_streams
from orbiter_operator.streams.tenants import Tenants, lag, memory
from orbiter_operator.tasks.activity import Activity
from orbiter_operator.tasks.cache import TaskCache, phase_of
from orbiter_operator.tasks.capacity import Capacity
from orbiter_operator.tasks.models import FINAL

log = structlog.get_logger(__name__)
_PAUSE_SECONDS = 2.0
_LAG_SECONDS = 15.0
_SWEEPS_AGAIN = 4
"""After another server has begun to answer: it may know entries that the one before no longer had,
and of some the task has not ended yet."""
_REPAIR_SECONDS = 5.0
_RENEW_SECONDS = 3600.0
"""A week is how long what is renewed lasts, so an operator may be away for nearly as long."""
_AT_ONCE = 100


class TaskResync:
    """The slow, thorough part of the operator.

    Args:
        informers: One for each kind.
        store: AgentTasks, Jobs and Pods.
        capacity: Who runs and who waits.
        queue: Where keys go that should be reconciled.
        redis: A client for short commands.
        tenants: Whose streams there are.
        pending: What workers say of their tasks.
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
        tenants: Tenants,
        pending: PendingOutputs,
        every: float,
        dead: Callable[[str], None],
    ) -> None:
        self._informers = informers
        self._store = store
        self._capacity = capacity
        self._queue = queue
        self._redis = redis
        self._tenants = tenants
        self._every = every
        self._attempts = Attempts(redis)
        self._repair = StreamRepair(redis, dead)
        self._dead = dead
        self._activity = Activity(
            redis=redis,
            tasks=store,
            keys=tenants.keys,
            pending=pending,
            enqueue=queue.add,
        )
        self._server: str | None = None
        self._other_server = asyncio.Event()
        self.gauges = {"orbiter_outputs_lag": 0.0}
        self.missing: str | None = "nothing has been listed yet"

    def parts(self) -> dict[str, Part]:
        """What has to run all the time."""
        return {
            "resync": self.run,
            "sweep": self.sweep,
            "lag": self.watch_lag,
            "activity": self._activity.run,
            "stream repair": self.repair_streams,
            "records": self.renew_records,
        }

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
            works = any(not job.over for job in jobs)
            if phase_of(obj) not in FINAL and works:
                self._capacity.take(key.namespace, key.name)
            self._capacity.concurrency_keys.seed(key, obj, works=works)

    async def run(self) -> None:
        """Compare for ever."""
        while True:
            await asyncio.sleep(self._every)
            try:
                for informer in self._informers:
                    await informer.compare()
            except (ApiError, *TRANSPORT_ERRORS) as error:
                log.info("not compared with the cluster", error=str(error))
            for key in self._store:
                if phase_of(self._store.get(key) or {}) not in FINAL:
                    self._queue.add(key)

    async def sweep(self) -> None:
        """Tidy the streams for ever: now and then, and soon when another server answers."""
        again = 0
        while True:
            await self._trim()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAG_SECONDS if again else self._every):
                    await self._other_server.wait()
            again = max(again - 1, 0)
            if self._other_server.is_set():
                self._other_server.clear()
                again = _SWEEPS_AGAIN

    async def watch_lag(self) -> None:
        """Keep `gauges`, what Redis has to tell, recent for ever."""
        while True:
            try:
                await self._look_who_answers()
                unread = float(await lag(self._redis, self._tenants.served))
                self.gauges = {"orbiter_outputs_lag": unread, **await memory(self._redis)}
            except (RedisError, OSError):
                log.debug("lag not read")
            await asyncio.sleep(_LAG_SECONDS)

    async def _look_who_answers(self) -> None:
        try:
            server = await run_id(self._redis)
        except RedisError:
            return  # its user may not ask, or it does not say
        if self._server not in (None, server):
            log.info("another Redis answers, or it was started again")
            self._other_server.set()
        self._server = server

    async def repair_streams(self) -> None:
        """Keep the streams that all workers share able to take entries, for ever."""
        while True:
            try:
                await self._repair.repair_shared(self._tenants.served)
            except (RedisError, OSError) as error:
                log.info("streams not looked at", error=str(error))
            await asyncio.sleep(_REPAIR_SECONDS)

    async def renew_records(self) -> None:
        """Keep what Redis has of attempts from lapsing while their tasks wait, for ever."""
        while True:
            try:
                await self.renew()
            except (RedisError, OSError) as error:
                log.info("records of attempts not renewed", error=str(error))
            await asyncio.sleep(_RENEW_SECONDS)

    async def renew(self) -> None:
        """Renew the latest attempt of every task that has not ended, once.

        Raises:
            RedisError: Redis did not answer.
        """
        attempts = list(self._latest_attempts())
        for start in range(0, len(attempts), _AT_ONCE):
            await self._attempts.renew(attempts[start : start + _AT_ONCE])

    def _latest_attempts(self) -> Iterator[Attempt]:
        for key in self._store:
            task = self._store.get(key) or {}
            number = (task.get("status") or {}).get("attempts")
            if phase_of(task) in FINAL or not isinstance(number, int):
                continue
            uid = task["metadata"]["uid"]
            # It may have begun before its namespace had a prefix.
            for keys in dict.fromkeys((self._tenants.keys(key.namespace), BARE)):
                yield Attempt(f"{key.namespace}/{key.name}", uid, number, keys)

    async def _trim(self) -> None:
        for keys in self._tenants.served:
            try:
                taken = await trim_streams(
                    self._redis, self._store.unfinished, _now_ms, keys, self._dead
                )
                taken += await forget_adopted(self._redis, keys, self._how_far, CONSUMER)
            except (RedisError, OSError) as error:
                log.info("streams not trimmed", of=keys.prefix, error=str(error))
                continue
            if taken:
                log.info("orphaned entries taken off the queue", of=keys.prefix, count=taken)

    def _how_far(self, task: str) -> str | None:
        namespace, _, name = task.partition("/")
        if (obj := self._store.get(Key(namespace, name))) is None:
            return None
        return "over" if phase_of(obj) in FINAL else "goes on"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
