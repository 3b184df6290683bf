"""AgentTasks, reconciled: the slot of each, what a failure teaches, and what a deleted one leaves.

The loop is in `runtime/reconciler`; what to do about a task, `plan` decides.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from redis.exceptions import RedisError

from orbiter_contracts.attempts import Attempt
from orbiter_contracts.queues import BARE, KeysOf
from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.kube.informer import refresh
from orbiter_operator.kube.models import RefusedError, read_status
from orbiter_operator.kube.names import Key
from orbiter_operator.kube.resources import AGENT_TASKS
from orbiter_operator.runtime.reconciler import Reconciler, WorkQueue
from orbiter_operator.streams.attempts import Attempts
from orbiter_operator.streams.client import RETRIED, redis_unusable
from orbiter_operator.streams.pending_outputs import PendingOutput, PendingOutputs
from orbiter_operator.tasks.cache import TaskCache, phase_of
from orbiter_operator.tasks.capacity import Capacity
from orbiter_operator.tasks.charges import Charges
from orbiter_operator.tasks.executor import Executor, TakenError
from orbiter_operator.tasks.job import read_adoption
from orbiter_operator.tasks.models import FINAL, TaskStatus
from orbiter_operator.tasks.observe import Observer
from orbiter_operator.tasks.observed import Observed
from orbiter_operator.tasks.plan import plan
from orbiter_operator.tasks.plan.actions import REQUEUE_SECONDS, Plan

Object = dict[str, Any]


class TaskReconciler(Reconciler[Key, Observed, Plan]):
    """Brings one task at a time to where it should be.

    Args:
        queue: Where keys come back to.
        store: AgentTasks, Jobs and Pods.
        pending: Outputs that are not acknowledged.
        capacity: Who runs and who waits.
        observer: Collects what a decision depends on.
        executor: Carries plans out.
        charges: What tasks cost their budgets.
        attempts: Attempts in Redis, for tasks that were deleted.
        keys: Which keys a namespace has.
        adopt_namespace: Where entries without a namespace become tasks; empty when nowhere.
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
        charges: Charges,
        attempts: Attempts,
        keys: KeysOf,
        adopt_namespace: str,
        kube: Kube,
        settled: Callable[[tuple[PendingOutput, ...]], None],
        measure: Callable[[float, bool], None],
        image_patience: timedelta,
        queue_address: str,
        clock: Callable[[], datetime],
    ) -> None:
        super().__init__(queue=queue, retried=RETRIED, measure=measure)
        self._store = store
        self._pending = pending
        self._capacity = capacity
        self._observer = observer
        self._executor = executor
        self._charges = charges
        self._attempts = attempts
        self._keys = keys
        self._adopt_namespace = adopt_namespace
        self._kube = kube
        self._settled = settled
        self._image_patience = image_patience
        self._queue_address, self._clock = queue_address, clock

    async def __call__(self, key: Key) -> bool:
        """Reconcile one task; outputs it had before are dealt with afterwards."""
        outputs = self._pending.of(key)
        done = await super().__call__(key)
        if done:
            self._pending.settle(key, outputs)
            self._settled(outputs)
        return done

    async def tidy_up(self, key: Key) -> bool:
        """Take what deleted tasks of this name left on the queue off it."""
        for obj in self._store.removed(key):
            await self._charges.gone(key, obj["metadata"]["uid"])
            await self._withdraw(key, obj)
            self._store.tidied(key, obj["metadata"]["uid"])
        return True

    async def observe(self, key: Key, learned: dict[str, Any]) -> tuple[Object, Observed] | None:
        """The task as it is now."""
        obj = self._store.get(key)
        self._leave_lines(key, obj["metadata"]["uid"] if obj else "")
        if obj is None:
            self._leave(key)
            self._pending.nobody(key)
            return None
        return obj, await self._observer.observe(key, obj, **learned)

    def plan(self, observed: Observed) -> Plan:
        """Decide what to do about it."""
        return plan(observed, self._clock(), image_patience=self._image_patience)

    async def execute(self, key: Key, obj: Object, observed: Observed, decision: Plan) -> bool:
        """Take or leave the slot, then act."""
        self._apply_slot(key, decision, observed)
        if behind := self._capacity.concurrency_keys.follow(observed, decision):
            self._queue.add(Key(key.namespace, behind))
        if decision.starts and len(self._queue):
            # Others wait to begin: their Jobs come before the line that says that this one has.
            decision = decision.model_copy(update={"status": None})
            self._queue.add(key)
        if decision.starts and await self._observer.fix(key, observed):
            return True
        if await self._charges.before(key, observed, decision):
            return True
        reobserve = await self._executor.run(key, obj, observed, decision)
        self._after(key, decision)
        return reobserve

    async def learn(
        self, key: Key, error: Exception, learned: dict[str, Any]
    ) -> dict[str, Any] | None:
        """A refused Job, an entry of another's, Redis away: the plan says what to do about each."""
        match error:
            case RefusedError():
                return {"refusal": error.refusal}
            case TakenError():
                return {"taken_by": str(error)}
            case RedisError() if "queue_error" not in learned:
                return {"queue_error": redis_unusable(self._queue_address, error)}
            case ApiError(status=404 | 409):
                await refresh(self._kube, AGENT_TASKS, self._store, key)
                return {}
        return None

    def _apply_slot(self, key: Key, decision: Plan, observed: Observed) -> None:
        created = observed.created.timestamp()
        match decision.slot:
            case "take" if observed.queue:
                self._leave(key)  # Kueue says how many of these there may be
            case "take":
                self._capacity.take(key.namespace, key.name)
            case "wait":
                self._capacity.wait(key.namespace, key.name, created, observed.spec.priority)
            case "leave":
                self._leave(key)

    def _leave(self, key: Key) -> None:
        self._capacity.leave(key.namespace, key.name)
        for name in self._capacity.next_up(key.namespace):
            self._queue.add(Key(key.namespace, name))

    def _leave_lines(self, key: Key, uid: str) -> None:
        """Deleted tasks have their concurrencyKey until no pod of them can work any more."""
        lines, pods = self._capacity.concurrency_keys, self._store.pods
        for gone in lines.of(key.namespace, key.name) - {uid}:
            if any(pod.alive(self._clock()) for pod in pods.of(key, gone)):
                self._queue.requeue_at(key, time.monotonic() + REQUEUE_SECONDS)
            elif behind := lines.leave(key.namespace, key.name, gone):
                self._queue.add(Key(key.namespace, behind))

    def _after(self, key: Key, decision: Plan) -> None:
        status = decision.status
        if status is not None and status.reason == "ConcurrencyLimit":
            self._observer.position_was_written(key)
        obj = self._store.get(key)
        if obj is not None and phase_of(obj) in FINAL:
            self._observer.forget(key)
            self._pending.forget(key, obj["metadata"]["uid"])

    async def _withdraw(self, key: Key, obj: dict[str, Any]) -> None:
        uid = obj["metadata"]["uid"]
        status = read_status(TaskStatus, obj.get("status"))
        own = self._keys(key.namespace)
        # Where a status names no other streams, attempts may be under the names without a prefix.
        places = {own} if status.input_stream == own.developer_input else {own, BARE}
        self._pending.forget(key, uid)
        self._observer.forget(key)
        if status.input_request is not None or (obj.get("spec") or {}).get("input"):
            await self._attempts.forget_session(uid, *places)
        if status.phase in FINAL:
            # Nobody goes on any more with what a task has left that is gone.
            for keys in places:
                latest = Attempt(str(key), uid, max(status.attempts, 1), keys)
                await self._attempts.forget_checkpoint(latest)
            return
        adopted, _ = read_adoption(obj["metadata"], self._adopt_namespace, own)
        if adopted and status.attempts == 0:
            # It would become a task again. Another worker that has it answers it.
            await self._attempts.adopt(Attempt(str(key), uid, 1, own), adopted.entry, "")
        # The latest attempt the status knows, and one that may have begun since.
        for number in range(max(status.attempts, 1), status.attempts + 2):
            for keys in places:
                await self._attempts.withdraw(Attempt(str(key), uid, number, keys))
