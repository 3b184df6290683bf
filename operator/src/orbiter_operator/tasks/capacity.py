"""Who may run a Job in a namespace: slots under its limit, or what Kueue says of its own queues.

One `Capacity` per operator, changed only between two awaits: `slots` and the `take`, `wait` or
`leave` that follows from it happen in the same step of the event loop, so two tasks never get one
slot. The task of the highest priority goes first, of equal ones the oldest, whoever asks.

Tasks that Kueue lets in have no slot here. Why one of them waits `Kueue` reads of the Workload that
Kueue has made of its Job, and so seldom that a long queue costs no more than a short one.
"""

import time
from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any, NamedTuple

from orbiter_contracts.bounds import one_line
from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.names import KUEUE_JOB, Key
from orbiter_operator.kube.resources import Resource
from orbiter_operator.pods.state import JobState
from orbiter_operator.tasks.concurrency_keys import ConcurrencyKeys
from orbiter_operator.tasks.models import Slots

WORKLOADS = tuple(
    Resource(f"/apis/kueue.x-k8s.io/{version}", "workloads") for version in ("v1beta2", "v1beta1")
)
"""Of Kueue, where it is installed; the newer version first."""
ASKED_AGAIN_SECONDS, NOTHING_SAID_SECONDS = 8.0, 1.0
"""How long an answer of Kueue's is good, and that there is none yet."""
REQUESTS_A_SECOND = 10
"""No more than that Kueue's Workloads are asked for, however many wait."""
_LONGEST = 300

_REFRESH_SECONDS = 10.0
_REFRESHED_A_SECOND = 4
"""A place in line is said anew so often at most: of one task, and of all that wait."""


class Waiter(NamedTuple):
    """A task in the queue of its namespace: its priority, creation time in seconds, then name."""

    rank: int
    created: float
    name: str


class Capacity:
    """Slots by namespace, and who holds or waits for a concurrencyKey.

    Args:
        limit: How many Jobs a namespace may run.
    """

    def __init__(self, limit: Callable[[str], int]) -> None:
        self.concurrency_keys = ConcurrencyKeys()
        self._limit = limit
        self._running: dict[str, set[str]] = {}
        self._waiting: dict[str, list[Waiter]] = {}
        self._waiters: dict[tuple[str, str], Waiter] = {}

    def slots(
        self,
        namespace: str,
        name: str,
        created: float,
        priority: int = 0,
        stuck: Callable[[str], bool] = lambda name: False,
    ) -> Slots:
        """How things stand for one task that would run; `stuck` says who has a slot in vain."""
        running = self._running.get(namespace, set())
        waiting = self._waiting.get(namespace, [])
        limit = self._limit(namespace)
        ahead = bisect_left(waiting, Waiter(-priority, created, name))
        known = (namespace, name) in self._waiters
        free = name in running or len(running) + ahead < limit
        return Slots(
            free=free,
            position=ahead + 1,
            waiting=len(waiting) + (0 if known else 1),
            running=len(running),
            limit=limit,
            refresh=max(_REFRESH_SECONDS, len(self._waiters) / _REFRESHED_A_SECOND),
            stuck=() if free else tuple(sorted(name for name in running if stuck(name))),
        )

    def take(self, namespace: str, name: str) -> None:
        """Give the task a slot."""
        self._remove_waiter(namespace, name)
        self._running.setdefault(namespace, set()).add(name)

    def wait(self, namespace: str, name: str, created: float, priority: int = 0) -> None:
        """Put the task in line, or elsewhere in it when its priority was changed."""
        self._running.get(namespace, set()).discard(name)
        waiter = Waiter(-priority, created, name)
        if self._waiters.get((namespace, name)) != waiter:
            self._remove_waiter(namespace, name)
            self._waiters[namespace, name] = waiter
            insort(self._waiting.setdefault(namespace, []), waiter)

    def leave(self, namespace: str, name: str) -> None:
        """The task neither runs nor waits any more."""
        self._remove_waiter(namespace, name)
        self._running.get(namespace, set()).discard(name)

    def next_up(self, namespace: str) -> list[str]:
        """Names of the waiting tasks for which there is a slot now."""
        free = self._limit(namespace) - len(self._running.get(namespace, ()))
        return [waiter.name for waiter in self._waiting.get(namespace, ())[: max(free, 0)]]

    def free_slots(self, namespace: str) -> int:
        """How many more Jobs could start in the namespace, after all that wait."""
        taken = len(self._running.get(namespace, ())) + len(self._waiting.get(namespace, ()))
        return max(self._limit(namespace) - taken, 0)

    def totals(self) -> tuple[int, int]:
        """How many tasks run and how many wait, in all namespaces."""
        return sum(map(len, self._running.values())), len(self._waiters)

    def _remove_waiter(self, namespace: str, name: str) -> None:
        waiter = self._waiters.pop((namespace, name), None)
        if waiter is not None:
            waiting = self._waiting[namespace]
            del waiting[bisect_left(waiting, waiter)]


class Kueue:
    """Why Kueue has not let Jobs in, in its own words.

    Args:
        kube: The API client.
        clock: Monotonic seconds.
    """

    def __init__(self, kube: Kube, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._asked: dict[Key, tuple[str, float, str]] = {}

    async def said_of(self, key: Key, jobs: tuple[JobState, ...]) -> str:
        """What Kueue says of a task's last Job; empty when it does not hold it, or says nothing."""
        job = jobs[-1] if jobs else None
        if job is None or job.state != "suspended" or not job.queue:
            self._asked.pop(key, None)
            return ""
        uid, asked, said = self._asked.get(key, ("", 0.0, ""))
        least = ASKED_AGAIN_SECONDS if said else NOTHING_SAID_SECONDS
        patience = max(least, len(self._asked) / REQUESTS_A_SECOND)
        if uid != job.uid or self._clock() - asked >= patience:
            said = await self._ask(key.namespace, job)
            self._asked[key] = (job.uid, self._clock(), said)
        return said

    def forget(self, key: Key) -> None:
        """The task is gone or at its end."""
        self._asked.pop(key, None)

    async def _ask(self, namespace: str, job: JobState) -> str:
        for resource in WORKLOADS:
            try:
                selector = f"{KUEUE_JOB}={job.uid}"
                found, _ = await self._kube.list(resource, namespace, selector=selector)
            except (ApiError, *TRANSPORT_ERRORS) as error:
                if isinstance(error, ApiError) and error.status == 404:
                    continue
                return ""  # what it says explains, and decides nothing
            return _why_held(found[0]) if found else ""
        return "there is no Kueue in this cluster; install it, or leave queueName out"


def _why_held(workload: dict[str, Any]) -> str:
    """What a Workload says of why it is not admitted. Total: it is another program's object."""
    spec, status = workload.get("spec"), workload.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    found = {
        str(item.get("type")): item
        for item in (conditions if isinstance(conditions, list) else ())
        if isinstance(item, dict)
    }
    reserved, evicted = found.get("QuotaReserved", {}), found.get("Evicted", {})
    if isinstance(spec, dict) and spec.get("active") is False:
        return f"its Workload is not active: {one_line(str(evicted.get('message', '')), _LONGEST)}"
    if reserved.get("status") == "True":
        return "quota is reserved, an admission check is not ready yet"
    return one_line(str(reserved.get("message") or ""), _LONGEST)
