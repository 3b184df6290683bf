"""The work queue, and one pass over what comes off it: the one loop of both kinds.

The queue is between whoever sees a change (informers, stream readers, due times) and the reconcile
workers: which keys to reconcile, each at most once at a time, now or later. A key that is added
while it is being worked on is worked on again afterwards; a failed one is requeued after a backoff
that grows. Tenants take turns: however much one has to do, the next key is another's, if another
has any. One heap holds all due times. Measured against asyncio.PriorityQueue, CPU a key: 0.7 µs
here, 1.6 there; with a due time 6.5, and 3.4 there, which has each worker wait for one key, and
hands out twice what was added twice.

A pass is: observe, plan, execute, and observe again while acting has taught more. A kind says how
it observes, plans and acts, and what a failure of acting teaches; how often is tried, the backoff
and the measuring are here.
"""

import asyncio
import heapq
import time
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar

import structlog

K = TypeVar("K", bound=Hashable)
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 30.0
_DOUBLINGS = 12
_SPARE = 64
"""How many due times that were replaced may be kept, beside as many as there are keys."""
WORKERS = 16
"""How many keys of a kind are reconciled at a time."""


class WorkQueue(Generic[K]):
    """A de-duplicating queue with due times.

    Args:
        clock: Monotonic seconds.
        tenant: Whose a key is; those of one tenant are handed out in the order they came.
    """

    def __init__(
        self, clock: Callable[[], float], tenant: Callable[[K], Hashable] = lambda key: None
    ) -> None:
        self._clock = clock
        self._tenant = tenant
        self._ready: OrderedDict[Hashable, deque[K]] = OrderedDict()
        self._queued: set[K] = set()
        self._working: set[K] = set()
        self._requeued: set[K] = set()
        self._due_at: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._queued)

    def add(self, key: K) -> None:
        """Have the key reconciled as soon as possible."""
        if key in self._working:
            self._requeued.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.setdefault(self._tenant(key), deque()).append(key)
            self._wake()

    def requeue_at(self, key: K, when: float | None) -> None:
        """Have the key reconciled at this time of the clock; None forgets its due time."""
        if when is None:
            self._due_at.pop(key, None)
            return
        self._due_at[key] = when
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, key))
        if len(self._heap) > 2 * len(self._due_at) + _SPARE:
            # What was replaced and would be due in years lies below what is due soon.
            self._heap = [item for item in self._heap if self._due_at.get(item[2]) == item[0]]
            heapq.heapify(self._heap)
        self._set_timer()

    def failed(self, key: K) -> float:
        """Requeue the key after a backoff that doubles; returns its seconds."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        doubled = float(FIRST_PAUSE_SECONDS * 2 ** min(count - 1, _DOUBLINGS))
        pause = min(doubled, LONGEST_PAUSE_SECONDS)
        self.requeue_at(key, self._clock() + pause)
        return pause

    def succeeded(self, key: K) -> None:
        """The next failure of the key counts as its first."""
        self._failures.pop(key, None)

    def retry_now(self) -> None:
        """Requeue every failed key at once: what they failed for is back."""
        for key in list(self._failures):
            self._failures[key] = 0
            self.add(key)

    async def work(self, handle: Callable[[K], Awaitable[object]]) -> None:
        """Hand out keys for ever; run several of these for several at a time."""
        while True:
            while not self._ready:
                waiter = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                await waiter
            key = self._next()
            self._due_at.pop(key, None)
            self._working.add(key)
            try:
                await handle(key)
            finally:
                self._working.discard(key)
                if key in self._requeued:
                    self._requeued.discard(key)
                    self.add(key)

    def _next(self) -> K:
        tenant, keys = next(iter(self._ready.items()))
        key = keys.popleft()
        if keys:
            self._ready.move_to_end(tenant)
        else:
            del self._ready[tenant]
        self._queued.discard(key)
        return key

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._heap and self._due_at.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if self._heap:
            pause = max(self._heap[0][0] - self._clock(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(pause, self._ring)

    def _ring(self) -> None:
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            when, _, key = heapq.heappop(self._heap)
            if self._due_at.get(key) == when:
                del self._due_at[key]
                self.add(key)
        self._set_timer()


log = structlog.get_logger(__name__)
Object = dict[str, Any]
_ROUNDS = 8
"""How often a pass observes: acting and what others do meanwhile call for two or three."""


class _Observed(Protocol):
    @property
    def queue_error(self) -> str | None: ...


class _Plan(Protocol):
    @property
    def requeue_after(self) -> float | None: ...


O = TypeVar("O", bound=_Observed)  # noqa: E741
P = TypeVar("P", bound=_Plan)


async def run_pass(
    queue: WorkQueue[K],
    key: K,
    work: Callable[[K], Awaitable[str | None]],
    *,
    retried: tuple[type[Exception], ...],
    measure: Callable[[float, bool], None],
) -> bool:
    """Reconcile one key; never raises but when the process ends. Returns whether it is done.

    Args:
        queue: Where the key comes back to.
        key: The key.
        work: Brings its object to where it should be; returns what stands in the way.
        retried: Failures that pass: the key is requeued after a backoff that grows.
        measure: Called with the seconds it took and whether it succeeded.
    """
    began = time.perf_counter()
    try:
        problem = await work(key)
    except retried as error:
        problem = f"{type(error).__name__}: {error}"
    except Exception:
        # A bug must not end the operator, nor the other objects: this key is requeued.
        log.exception("reconcile failed", key=str(key))
        problem = "bug"
    if problem is None:
        queue.succeeded(key)
    else:
        backoff = queue.failed(key)
        log.warning("will try again", key=str(key), seconds=backoff, error=problem)
    measure(time.perf_counter() - began, problem is None)
    return problem is None


class Reconciler(ABC, Generic[K, O, P]):
    """Brings one object at a time to where it should be.

    Args:
        queue: Where keys come back to.
        retried: Failures that pass: the key is requeued after a backoff that grows.
        measure: Called with the seconds a pass took and whether it succeeded.
    """

    def __init__(
        self,
        *,
        queue: WorkQueue[K],
        retried: tuple[type[Exception], ...],
        measure: Callable[[float, bool], None],
    ) -> None:
        self._queue = queue
        self._retried = retried
        self._measure = measure

    async def __call__(self, key: K) -> bool:
        """Reconcile one key; never raises but when the process ends. Returns whether it is done."""
        return await run_pass(
            self._queue, key, self._work, retried=self._retried, measure=self._measure
        )

    async def _work(self, key: K) -> str | None:
        return await self._pass(key) if await self.tidy_up(key) else None

    async def _pass(self, key: K) -> str | None:
        """Observe and act until nothing more can be done now. Returns what stands in the way."""
        learned: dict[str, Any] = {}
        for _ in range(_ROUNDS):
            try:
                found = await self.observe(key, learned)
                if found is None:
                    return None
                obj, observed = found
                plan = self.plan(observed)
                after = plan.requeue_after
                self._queue.requeue_at(key, None if after is None else time.monotonic() + after)
                reobserve = await self.execute(key, obj, observed, plan)
            except Exception as error:
                lesson = await self.learn(key, error, learned)
                if lesson is None:
                    raise
                learned |= lesson
                continue
            if not reobserve:
                return observed.queue_error
        return f"still not settled after {_ROUNDS} rounds"

    @abstractmethod
    async def tidy_up(self, key: K) -> bool:
        """Remove what deleted objects of this name have left; False when the rest has to wait."""

    @abstractmethod
    async def observe(self, key: K, learned: dict[str, Any]) -> tuple[Object, O] | None:
        """The object and what a decision depends on; None when there is nothing to decide."""

    @abstractmethod
    def plan(self, observed: O) -> P:
        """Decide. Follows `observe` in the same turn of the event loop, as `execute` follows it."""

    @abstractmethod
    async def execute(self, key: K, obj: Object, observed: O, plan: P) -> bool:
        """Act. Returns whether that calls for another observation at once."""

    @abstractmethod
    async def learn(
        self, key: K, error: Exception, learned: dict[str, Any]
    ) -> dict[str, Any] | None:
        """What a failure adds to the next observation of this pass; None when it ends the pass."""
