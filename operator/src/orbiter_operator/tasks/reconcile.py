"""One pass over one AgentTask: observe, plan, execute; again while a step has changed the facts.

Called by the work queue with a key. Decides nothing about the task itself, only what to do when the
API server or Redis do not play along.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import structlog
from redis.exceptions import RedisError

from orbiter_operator.kube.client import AGENT_TASKS, TRANSPORT_ERRORS, ApiError, Kube, RefusedError
from orbiter_operator.kube.leader_election import NotLeadingError
from orbiter_operator.kube.names import Key
from orbiter_operator.pods.reasons import one_line
from orbiter_operator.runtime.workqueue import WorkQueue
from orbiter_operator.streams.attempts import Attempt, Attempts
from orbiter_operator.streams.pending_outputs import PendingOutput, PendingOutputs
from orbiter_operator.tasks.cache import TaskCache, phase_of
from orbiter_operator.tasks.capacity import Capacity
from orbiter_operator.tasks.executor import Executor, TakenError
from orbiter_operator.tasks.models import FINAL, TaskStatus
from orbiter_operator.tasks.observe import Observer
from orbiter_operator.tasks.plan import plan
from orbiter_operator.tasks.plan.actions import Plan

log = structlog.get_logger(__name__)
_LOOKS = 8
_SHOWN = 80


class Reconciler:
    """Brings one task at a time to where it should be.

    Args:
        queue: Where keys come back to.
        store: AgentTasks, Jobs and Pods.
        pending: Outputs that are not acknowledged.
        capacity: Who runs and who waits.
        observer: Collects the facts.
        executor: Carries plans out.
        attempts: Attempts in Redis, for tasks that were deleted.
        kube: The API client, for a task that turns out to be out of date.
        settled: Takes the outputs that have been dealt with, for their acknowledgement.
        measure: Called with the seconds a pass took and whether it succeeded.
        image_patience: How long an image may fail to be pulled.
        queue_address: Where Redis is, without a password.
        clock: The time.
    """

    def __init__(
        self,
        *,
        queue: WorkQueue[Key],
        store: TaskCache,
        pending: PendingOutputs,
        capacity: Capacity,
        observer: Observer,
        executor: Executor,
        attempts: Attempts,
        kube: Kube,
        settled: Callable[[tuple[PendingOutput, ...]], None],
        measure: Callable[[float, bool], None],
        image_patience: timedelta,
        queue_address: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._queue = queue
        self._store = store
        self._pending = pending
        self._capacity = capacity
        self._observer = observer
        self._executor = executor
        self._attempts = attempts
        self._kube = kube
        self._settled = settled
        self._measure = measure
        self._image_patience = image_patience
        self._queue_address = queue_address
        self._clock = clock

    async def __call__(self, key: Key) -> None:
        """Reconcile one key; never raises but when the process ends."""
        began = time.perf_counter()
        outputs = self._pending.of(key)
        trouble: str | None = None
        try:
            await self._clean_up(key)
            trouble = await self._bring_forward(key)
        except (ApiError, RedisError, NotLeadingError, *TRANSPORT_ERRORS) as error:
            trouble = f"{type(error).__name__}: {error}"
        except Exception:
            # A bug must not end the operator, nor the other tasks: this key comes back later.
            log.exception("reconcile failed", task=str(key))
            trouble = "bug"
        if trouble is None:
            self._queue.succeeded(key)
            self._pending.settle(key, outputs)
            self._settled(outputs)
        else:
            pause = self._queue.failed(key)
            log.warning("will try again", task=str(key), seconds=pause, error=trouble)
        self._measure(time.perf_counter() - began, trouble is None)

    async def _bring_forward(self, key: Key) -> str | None:
        """Look and act until nothing more can be done now. Returns what stands in the way."""
        facts: dict[str, Any] = {}
        trouble: str | None = None
        for _ in range(_LOOKS):
            obj = self._store.get(key)
            if obj is None:
                self._leave(key)
                self._pending.nobody(key)
                return None
            try:
                observed = await self._observer.observe(key, obj, **facts)
                decision = plan(observed, self._clock(), image_patience=self._image_patience)
                self._apply_place(key, decision, observed.created)
                self._queue.add_at(key, self._due(decision))
                again = await self._executor.run(key, obj, observed, decision)
            except RefusedError as refused:
                facts["refusal"] = refused.refusal
                continue
            except TakenError as taken:
                facts["taken_by"] = str(taken)
                continue
            except RedisError as error:
                if "queue_error" in facts:
                    raise
                trouble = f"{type(error).__name__}: {error}"
                facts["queue_error"] = self._queue_error(error)
                continue
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
                await self._refresh(key)
                continue
            self._after(key, decision)
            if not again:
                return trouble
        return trouble or f"still not settled after {_LOOKS} looks"

    def _queue_error(self, error: RedisError) -> str:
        why = one_line(str(error), _SHOWN) or type(error).__name__
        return f"Redis at {self._queue_address} cannot be used: {why}"

    def _due(self, decision: Plan) -> float | None:
        return None if decision.requeue_after is None else time.monotonic() + decision.requeue_after

    def _apply_place(self, key: Key, decision: Plan, created: datetime) -> None:
        match decision.slot:
            case "take":
                self._capacity.take(key.namespace, key.name)
            case "wait":
                self._capacity.wait(key.namespace, key.name, created.timestamp())
            case "leave":
                self._leave(key)

    def _leave(self, key: Key) -> None:
        self._capacity.leave(key.namespace, key.name)
        for name in self._capacity.next_up(key.namespace):
            self._queue.add(Key(key.namespace, name))

    def _after(self, key: Key, decision: Plan) -> None:
        status = decision.status
        if status is not None and status.reason == "ConcurrencyLimit":
            self._observer.place_was_written(key)
        obj = self._store.get(key)
        if obj is not None and phase_of(obj) in FINAL:
            self._observer.forget(key)
            self._pending.forget(key, obj["metadata"]["uid"])

    async def _refresh(self, key: Key) -> None:
        """Somebody else has changed or deleted the task: look at it as it is now."""
        obj = self._store.get(key)
        try:
            self._store.put(await self._kube.get(AGENT_TASKS, key.namespace, key.name))
        except ApiError as error:
            if error.status != 404:
                raise
            if obj is not None:
                self._store.remove(obj)

    async def _clean_up(self, key: Key) -> None:
        """Take what deleted tasks of this name left on the queue off it."""
        for obj in self._store.removed(key):
            await self._withdraw(key, obj)
            self._store.tidied(key, obj["metadata"]["uid"])

    async def _withdraw(self, key: Key, obj: dict[str, Any]) -> None:
        uid = obj["metadata"]["uid"]
        status = TaskStatus.model_validate(obj.get("status") or {})
        self._pending.forget(key, uid)
        self._observer.forget(key)
        if status.input_request is not None or (obj.get("spec") or {}).get("input"):
            await self._attempts.forget_session(uid)
        if status.phase in FINAL:
            return
        # The latest attempt the status knows, and one that may have begun since.
        for number in range(max(status.attempts, 1), status.attempts + 2):
            await self._attempts.withdraw(Attempt(str(key), uid, number))
