"""Brings one AgentTrigger at a time to where it should be: observe, `plan`, act."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import structlog

from orbiter_contracts.trigger_events import TriggerEvent
from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.kube.informer import refresh
from orbiter_operator.kube.models import RefusedError, read_model, read_status
from orbiter_operator.kube.names import Key, owner_of, parse_time
from orbiter_operator.kube.patches import patch
from orbiter_operator.kube.resources import AGENT_TASKS, AGENT_TRIGGERS
from orbiter_operator.runtime.reconciler import Reconciler, WorkQueue
from orbiter_operator.streams.client import RETRIED, passes_by_itself
from orbiter_triggers.controller.cache import TaskState, TriggerCache
from orbiter_triggers.controller.observed import Observed, Plan, Run
from orbiter_triggers.controller.plan import plan
from orbiter_triggers.controller.received import Received
from orbiter_triggers.models import TriggerSpec, TriggerStatus
from orbiter_triggers.naming import COMMIT, EVENT, KIND, NUMBER, SCHEDULED, shown
from orbiter_triggers.template import build_task

log = structlog.get_logger(__name__)
Object = dict[str, Any]


class TriggerReconciler(Reconciler[Key, Observed, Plan]):
    """Reconciles triggers.

    Args:
        queue: Where keys come back to.
        cache: The triggers and their tasks.
        kube: The API client.
        allowed: Raises unless this replica is the active one.
        measure: Called with the seconds a pass took and whether it succeeded.
        made: Called with the namespace of each task that was made.
        received: The events; None where none are received.
        clock: The time.
    """

    def __init__(
        self,
        *,
        queue: WorkQueue[Key],
        cache: TriggerCache,
        kube: Kube,
        allowed: Callable[[], None],
        measure: Callable[[float, bool], None],
        made: Callable[[str], None],
        received: Received | None,
        clock: Callable[[], datetime],
    ) -> None:
        super().__init__(queue=queue, retried=RETRIED, measure=measure)
        self._cache = cache
        self._kube = kube
        self._allowed = allowed
        self._made = made
        self._received = received
        self._clock = clock

    async def tidy_up(self, key: Key) -> bool:
        """Its tasks go by their owner references; its events and its hook are nobody's."""
        for obj in self._cache.removed(key):
            if self._received is not None:
                await self._received.forget(key, obj["metadata"]["uid"])
            self._cache.tidied(key, obj["metadata"]["uid"])
        return True

    async def observe(self, key: Key, learned: dict[str, Any]) -> tuple[Object, Observed] | None:
        """The trigger, its tasks, its events and the time."""
        obj = self._cache.get(key)
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            return None
        meta = obj["metadata"]
        spec, error = read_model(TriggerSpec, obj.get("spec"))
        created = parse_time(meta["creationTimestamp"])
        assert created is not None  # noqa: S101 - the API server's own
        if self._received is not None:
            learned = await self._received.observe(key, meta["uid"], spec) | learned
        return obj, Observed(
            namespace=key.namespace,
            name=key.name,
            uid=meta["uid"],
            generation=meta.get("generation", 1),
            created=created,
            spec=spec,
            spec_error=error,
            status=read_status(TriggerStatus, obj.get("status")),
            tasks=self._cache.tasks_of(key, meta["uid"]),
            now=self._clock(),
            **learned,
        )

    def plan(self, observed: Observed) -> Plan:
        """Decide."""
        return plan(observed)

    async def execute(self, key: Key, obj: Object, observed: Observed, plan: Plan) -> bool:
        """Delete what is replaced, create, write the status, tidy up, in this order.

        A task of an event comes behind the status and what is settled, each event in a pass of its
        own: there may be hundreds.
        """
        run = plan.run
        if run is not None and run.arrival is None:
            if plan.status.missed_runs != observed.status.missed_runs:
                # Once there is a task of a later time, nobody can tell what was missed before it.
                await self._write(key, obj, observed, plan)
            await self._replace(key, plan)
            await self._create(observed, run)
            # Then the task itself says that its time is over.
            return True
        await self._write(key, obj, observed, plan)
        if self._received is not None and await self._received.carry_out(key, observed.uid, plan):
            self._queue.add(key)  # there are more, and other triggers have theirs first
        if run is not None:
            await self._create(observed, run)
            self._queue.add(key)
        for task in () if run else plan.outdated:
            await self._delete(key, task)
            log.info("task beyond the limits of history", trigger=str(key), task=task.name)
        return False

    async def learn(
        self, key: Key, error: Exception, learned: dict[str, Any]
    ) -> dict[str, Any] | None:
        """That the API server would not take a task."""
        if isinstance(error, TaskRefusedError):
            return {"refused": error.name, "refusal": error.refusal}
        return None

    async def _write(self, key: Key, obj: Object, observed: Observed, plan: Plan) -> None:
        """Write the status onto the very object that was observed, and not onto its successor."""
        changes = patch(observed.status, plan.status)
        if not changes:
            return
        self._allowed()
        version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        try:
            stored = await self._kube.patch_status(
                *(AGENT_TRIGGERS, key.namespace, key.name),
                {"metadata": version, "status": changes},
            )
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            await refresh(self._kube, AGENT_TRIGGERS, self._cache, key)
            raise
        self._cache.put(stored)

    async def _replace(self, key: Key, plan: Plan) -> None:
        """Delete the tasks in whose place the new one comes."""
        for task in plan.replaced:
            await self._delete(key, task)
            log.info("task replaced", trigger=str(key), task=task.name)

    async def _delete(self, key: Key, task: TaskState) -> None:
        self._allowed()
        await self._kube.delete(AGENT_TASKS, key.namespace, task.name, uid=task.uid)

    async def _create(self, observed: Observed, run: Run) -> None:
        """Make the task of one time or one event; one that is there already is as good.

        Raises:
            TaskRefusedError: There will be none.
            ApiError: The API server could not answer, or takes no task for now.
        """
        trigger = {"name": observed.name, "namespace": observed.namespace, "uid": observed.uid}
        own, told, annotations = {"trigger": observed.name}, dict[str, str](), dict[str, str]()
        if run.arrival is not None:
            told = run.arrival.event.told()
            annotations = {EVENT: run.arrival.entry, **_subject(run.arrival.event)}
        if run.scheduled is not None:
            own["scheduledTime"] = annotations[SCHEDULED] = shown(run.scheduled)
        body, problem = await asyncio.to_thread(
            build_task,
            trigger,
            run.name,
            observed.spec.task_template,
            own=own,
            told=told,
            annotations=annotations,
        )
        if problem is not None:
            raise TaskRefusedError.of(run.name, ApiError(422, "Invalid", problem))
        self._allowed()
        try:
            stored = await self._kube.create(AGENT_TASKS, observed.namespace, body)
            self._made(observed.namespace)
        except ApiError as error:
            if error.status == 409:
                stored = await self._existing(observed, run.name, error)
            elif passes_by_itself(error):
                raise
            else:
                raise TaskRefusedError.of(run.name, error) from None
        self._cache.tasks.put(stored, ours=True)
        log.info("task made", trigger=f"{observed.namespace}/{observed.name}", task=run.name)

    async def _existing(self, observed: Observed, name: str, error: ApiError) -> Object:
        found = await self._kube.get(AGENT_TASKS, observed.namespace, name)
        if owner_of(found, KIND) == (observed.name, observed.uid):
            return found
        text = f"AgentTask {name} exists and is not this trigger's; delete or rename it"
        raise TaskRefusedError.of(name, ApiError(409, "AlreadyExists", text)) from error


def _subject(event: TriggerEvent) -> dict[str, str]:
    """What the courier writes about: an issue or pull request of GitHub's, and a commit."""
    if event.scheme != "github":
        return {}
    found = {NUMBER: event.number, COMMIT: event.commit}
    return {name: text for name, text in found.items() if text}


class TaskRefusedError(RefusedError):
    """The API server would not take the task of this name, and trying again does not mend that."""

    name: str

    @classmethod
    def of(cls, name: str, error: ApiError) -> "TaskRefusedError":
        """The refusal of a task."""
        made = cls(error.refusal())
        made.name = name
        return made
