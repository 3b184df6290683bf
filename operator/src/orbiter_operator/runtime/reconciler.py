"""One pass over one object: observe, plan, execute, and observe again while acting has taught more.

The one loop of both kinds. A kind says how it observes, plans and acts, and what a failure of
acting teaches; how often is tried, the backoff and the measuring are here.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar

import structlog

from orbiter_operator.runtime.workqueue import WorkQueue

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


K = TypeVar("K", bound=Hashable)
O = TypeVar("O", bound=_Observed)  # noqa: E741
P = TypeVar("P", bound=_Plan)


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
        began = time.perf_counter()
        try:
            problem = await self._pass(key) if await self.tidy_up(key) else None
        except self._retried as error:
            problem = f"{type(error).__name__}: {error}"
        except Exception:
            # A bug must not end the operator, nor the other objects: this key is requeued.
            log.exception("reconcile failed", key=str(key))
            problem = "bug"
        if problem is None:
            self._queue.succeeded(key)
        else:
            backoff = self._queue.failed(key)
            log.warning("will try again", key=str(key), seconds=backoff, error=problem)
        self._measure(time.perf_counter() - began, problem is None)
        return problem is None

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
                self._queue.add_at(key, None if after is None else time.monotonic() + after)
                again = await self.execute(key, obj, observed, plan)
            except Exception as error:
                lesson = await self.learn(key, error, learned)
                if lesson is None:
                    raise
                learned |= lesson
                continue
            if not again:
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
