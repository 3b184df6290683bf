"""Carry a plan out, thin and boring: a replica that has lost its Lease acts no more (`allowed`)."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import structlog

from orbiter_contracts import WorkerLifecycleEvent, excerpt
from orbiter_contracts.bounds import MAX_STATUS_LINE
from orbiter_operator.kube.client import ApiError, Kube, too_large
from orbiter_operator.kube.events import EventPoster
from orbiter_operator.kube.models import Event, Refusal, RefusedError
from orbiter_operator.kube.names import Key, job_name, worker_id
from orbiter_operator.kube.patches import patch
from orbiter_operator.kube.resources import AGENT_TASKS, JOBS
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.streams.attempts import Attempts
from orbiter_operator.streams.pending_outputs import AttemptRecord, PendingOutputs
from orbiter_operator.tasks.cache import TaskCache, job_of_attempt
from orbiter_operator.tasks.job import build_job, build_message
from orbiter_operator.tasks.models import FINAL, TaskStatus
from orbiter_operator.tasks.observed import Observed, attempt_of, current_attempt, name_of_job
from orbiter_operator.tasks.plan.actions import (
    DeleteJob,
    DeleteTask,
    ForgetSession,
    Plan,
    Publish,
    StartAttempt,
)
from orbiter_operator.tasks.plan.events import too_large_event
from orbiter_operator.tasks.plan.status import paid, smallest, without_result

log = structlog.get_logger(__name__)
Object = dict[str, Any]


class TakenError(Exception):
    """The adopted entry is another worker's or task's; the text says whose."""


class Executor:
    """Carries plans out.

    Args:
        kube: The API client.
        attempts: Attempts in Redis.
        store: Told at once what our own writes returned.
        pending: Told at once what Redis said.
        events: Posts Kubernetes Events.
        defaults: What is the same for all workers.
        allowed: Raises unless this replica is the active one.
        started: Called after each Job that was created.
        changed: Called with a task's old and new status after each write.
        wrote: Called with a task as it was stored and the status that was written to it.
        clock: The time.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        attempts: Attempts,
        store: TaskCache,
        pending: PendingOutputs,
        events: EventPoster,
        defaults: WorkerDefaults,
        allowed: Callable[[], None],
        started: Callable[[], None],
        changed: Callable[[Observed, TaskStatus], None],
        wrote: Callable[[Key, Object, TaskStatus], None],
        clock: Callable[[], datetime],
    ) -> None:
        self._kube = kube
        self._attempts = attempts
        self._store = store
        self._pending = pending
        self._events = events
        self._defaults = defaults
        self._allowed = allowed
        self._started = started
        self._changed = changed
        self._wrote = wrote
        self._clock = clock

    async def run(self, key: Key, obj: Object, observed: Observed, plan: Plan) -> bool:
        """Carry out the actions in order, then the Events and the status.

        Returns:
            Whether the task has to be observed again at once.

        Raises:
            RefusedError: The Job was refused.
            TakenError: The adopted entry is another worker's.
            ApiError: The API server refused something else; 409 when `obj` is out of date.
            RedisError: Redis did not answer.
        """
        for action in plan.actions:
            self._allowed()
            match action:
                case StartAttempt():
                    if await self._start(key, observed, action):
                        return True
                case Publish():
                    await self._publish(key, observed, action)
                case DeleteJob():
                    await self._kube.delete(JOBS, key.namespace, action.name)
                case ForgetSession():
                    latest = attempt_of(observed, current_attempt(observed)).keys
                    await self._attempts.forget_session(observed.uid, latest, observed.keys)
                case DeleteTask():
                    await self._kube.delete(AGENT_TASKS, key.namespace, key.name, uid=observed.uid)
        if plan.events and observed.unacknowledged:
            # The unacknowledged output brings both back if only one of them gets through.
            # The status goes first: somebody waits for it.
            written = self._write(key, obj, observed, plan.status)
            posted = (self._post(obj, event) for event in plan.events)
            for result in await asyncio.gather(written, *posted, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result
            return plan.reobserve
        for event in plan.events:
            await self._post(obj, event)
        await self._write(key, obj, observed, plan.status)
        return plan.reobserve

    async def _start(self, key: Key, observed: Observed, action: StartAttempt) -> bool:
        """Put the entry on the queue and create the Job. Returns whether it was all over before."""
        attempt = attempt_of(observed, action.attempt)
        name = job_name(key.name, action.attempt, action.resume)
        known = observed.record_of(action.attempt)
        source = observed.source
        if action.inherits and source.attempt and source.checkpoint:
            await self._attempts.inherit(attempt, source.attempt, source.checkpoint)
        if action.resume and known is not None and known.entry is not None:
            record = known
        elif observed.adopted and action.attempt == 1:
            worker = worker_id(key.namespace, name)
            taken = await self._attempts.adopt(attempt, observed.adopted.entry, worker)
            if taken:
                raise TakenError(taken)
            record = await self._attempts.read(attempt)
        else:
            prompt = action.prompt
            before = attempt_of(observed, action.attempt - 1).keys
            if action.anew is not None and not await self._attempts.has_session(
                observed.uid, attempt.keys, before
            ):
                prompt = action.anew
            try:
                message = build_message(observed, action.attempt, prompt)
                record = await self._attempts.admit(attempt, message)
                if action.attempt > 1:  # Nobody goes on from an attempt that another has followed.
                    await self._attempts.forget_checkpoint(attempt_of(observed, action.attempt - 1))
            except ValueError as error:
                # A message beyond its bounds (contracts) stays so, however often it is tried.
                raise RefusedError(_no_message(error)) from None
        self._pending.learn(observed.uid, action.attempt, record)
        if record.output is not None:
            return True
        entry = record.entry or ""
        body = build_job(observed, action.attempt, entry, self._defaults, resume=action.resume)
        self._allowed()
        try:
            created = await self._kube.create(JOBS, key.namespace, body)
            self._store.jobs.put(created, ours=True)
            self._started()
        except ApiError as error:
            await self._not_created(key, observed, name, error)
        return False

    async def _not_created(self, key: Key, observed: Observed, name: str, error: ApiError) -> None:
        if error.passes:
            raise error
        if error.status == 409:
            found = await self._kube.get(JOBS, key.namespace, name)
            state = job_of_attempt(found)
            if state is not None and state.owner == observed.uid:
                self._store.jobs.put(found)
                return
            whose = "another AgentTask's" if state is not None else "not ours"
            raise RefusedError(error.refusal(holder=whose))
        raise RefusedError(error.refusal())

    async def _publish(self, key: Key, observed: Observed, action: Publish) -> None:
        attempt = attempt_of(observed, action.attempt)
        known = self._pending.record(observed.uid, action.attempt) or AttemptRecord()
        newest = await self._attempts.read(attempt)  # What it has cost until now is paid for.
        output = paid(action.output, observed, action.attempt, newest.checkpoint)
        entry = known.entry or newest.entry
        if entry is None:
            # Which streams it had, its status alone says: without a record it has its own.
            attempt = attempt._replace(keys=observed.keys)
        worker = worker_id(key.namespace, name_of_job(observed, action.attempt))
        if entry is None and observed.adopted and action.attempt == 1:
            taken = await self._attempts.adopt(attempt, observed.adopted.entry, worker)
            if taken and not current_attempt(observed):
                # Before it ran, nobody has made sure yet that the entry is this task's.
                raise TakenError(taken)
            entry = None if taken else observed.adopted.entry
        event = WorkerLifecycleEvent(
            worker_id=worker,
            event="failed",
            timestamp=self._clock(),
            details={"reason": output.reason, "published_by": "operator"},
        )
        output_id = await self._attempts.publish(attempt, entry, output, event)
        if output_id is None:
            record = await self._attempts.read(attempt)
        else:
            record = AttemptRecord(entry=entry, output_id=output_id, output=output)
            log.info(
                "published in the worker's place",
                task=str(key),
                attempt=action.attempt,
                reason=output.reason,
            )
        self._pending.learn(observed.uid, action.attempt, record)

    async def _post(self, obj: Object, event: Event) -> None:
        self._allowed()
        await self._events.post(obj, event, self._clock())

    async def _write(
        self, key: Key, obj: Object, observed: Observed, status: TaskStatus | None
    ) -> None:
        if status is None or status == observed.status:
            return
        changes = patch(observed.status, status)
        if not changes:
            return
        try:
            written = await self._patch(key, obj, changes)
        except ApiError as error:
            if not _too_much(error):
                raise
            log.warning("the status is not stored as it is", task=str(key), error=str(error))
            shorter = await self._write_less(key, obj, observed, status, error)
            if shorter is None:
                return
            written, status = shorter
        self._store.put(written)
        self._wrote(key, written, status)
        self._changed(observed, status)
        if status.phase != observed.status.phase:
            level = log.info if status.phase in FINAL else log.debug
            level(
                "phase changed",
                task=str(key),
                phase=status.phase,
                reason=status.reason,
                attempt=status.attempts,
                request_id=status.request_id,
                duration_ms=status.duration_ms,
            )

    async def _patch(self, key: Key, obj: Object, changes: Object) -> Object:
        self._allowed()
        version = obj["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "status": changes}
        return await self._kube.patch_status(AGENT_TASKS, key.namespace, key.name, body)

    async def _write_less(
        self, key: Key, obj: Object, observed: Observed, status: TaskStatus, error: ApiError
    ) -> tuple[Object, TaskStatus] | None:
        """Write as much of a refused status as there is room for.

        Returns:
            The task as stored and its status; None when there is no room at all, which an Event
            tells: trying again would not mend it.
        """
        ends = status.phase in FINAL or status.result is not None
        less = [without_result(status, error.message)] if status.result is not None else []
        if ends and too_large(error):
            less.append(smallest(status, self._clock()))
        for shorter in less:
            try:
                return await self._patch(key, obj, patch(observed.status, shorter)), shorter
            except ApiError as refused:
                if not _too_much(refused):
                    raise
                error = refused
        if not too_large(error):
            raise error
        await self._post(obj, too_large_event(status))
        return None


def _no_message(error: ValueError) -> Refusal:
    text = excerpt(str(error), MAX_STATUS_LINE)
    return Refusal(status=413, reason="InvalidMessage", message=f"no queue entry: {text}")


def _too_much(error: ApiError) -> bool:
    """Whether the API server or its database cannot store what is in this status."""
    return error.status in (400, 422) or too_large(error)
