"""Collect what is known about one AgentTask into `Observed`, the input of `plan`.

Most of it is in memory; the API server and Redis are asked only where a decision hangs on them.
"""

import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from orbiter_contracts.queues import BARE, KeysOf
from orbiter_contracts.references import reference_problem
from orbiter_operator.budgets.models import Budgeted
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.informer import fetch
from orbiter_operator.kube.models import Profiled, Refusal, read_model, read_status
from orbiter_operator.kube.names import ATTEMPT, TASK_UID, Key, job_name
from orbiter_operator.kube.resources import JOBS, PODS
from orbiter_operator.pods.allowlist import class_error
from orbiter_operator.pods.rules import image_error, pod_error, role_error, shape_error
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.profiles.merge import with_profile
from orbiter_operator.profiles.models import Profile
from orbiter_operator.profiles.store import Profiles
from orbiter_operator.streams.attempts import Attempts
from orbiter_operator.streams.pending_outputs import AttemptRecord, PendingOutputs
from orbiter_operator.tasks.cache import TaskCache, cannot_start, phase_of
from orbiter_operator.tasks.capacity import Capacity, Kueue
from orbiter_operator.tasks.job import read_adoption, read_trace
from orbiter_operator.tasks.models import FINAL, Source, TaskSpec, TaskStatus, size_error
from orbiter_operator.tasks.observed import (
    Observed,
    attempt_of,
    current_attempt,
    message_id,
    name_of_job,
    stage,
)
from orbiter_operator.tasks.plan.disruption import may_be_taken
from orbiter_operator.tasks.plan.waiting import resolve, waits_for_others
from orbiter_operator.tasks.prompt import Prompts

Object = dict[str, Any]


class _Parsed(NamedTuple):
    spec: TaskSpec
    error: str | None
    status: TaskStatus
    profile: Profiled | None


class Observer:
    """Observes one task at a time.

    Args:
        store: AgentTasks, Jobs and Pods.
        pending: Outputs that are not acknowledged.
        attempts: Attempts in Redis.
        capacity: Who runs and who waits.
        kube: The API client.
        profiles: Which profile each task has.
        budget: How a task stands to the budgets of its namespace.
        defaults: What the installation says about every worker.
        keys: Which keys a namespace has.
        over_quota: Why the workers of a namespace may not publish, if so.
        not_served: Why no worker may run in a namespace, if so.
        traced: Whether spans of tasks are written.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        store: TaskCache,
        pending: PendingOutputs,
        attempts: Attempts,
        capacity: Capacity,
        kube: Kube,
        profiles: Profiles,
        defaults: WorkerDefaults,
        keys: KeysOf = lambda namespace: BARE,
        over_quota: Callable[[str], str | None] = lambda namespace: None,
        not_served: Callable[[str], str | None] = lambda namespace: None,
        budget: Callable[[Observed], Budgeted | None] = lambda observed: None,
        traced: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._pending = store, pending
        self._attempts = attempts
        self._capacity = capacity
        self._kube = kube
        self._profiles = profiles
        self._defaults = defaults
        self._keys = keys
        self._over_quota, self._not_served = over_quota, not_served
        self._budget, self._traced = budget, traced
        self._clock = clock
        self._kueue, self._prompts = Kueue(kube, clock), Prompts(kube)
        self._position_shown: dict[Key, float] = {}
        self._parsed: dict[Key, tuple[str, _Parsed]] = {}

    def position_was_written(self, key: Key) -> None:
        """The status of a waiting task has just been written."""
        self._position_shown[key] = self._clock()

    def wrote(self, key: Key, obj: Object, status: TaskStatus) -> None:
        """The task was stored with this status, and with the spec that was observed last."""
        known = self._parsed.get(key)
        if known is not None and known[0] != obj["metadata"]["resourceVersion"]:
            parsed = known[1]._replace(status=status)
            self._parsed[key] = obj["metadata"]["resourceVersion"], parsed

    def forget(self, key: Key) -> None:
        """The task is gone or at its end."""
        self._position_shown.pop(key, None)
        self._kueue.forget(key)
        self._prompts.forget(key)
        self._profiles.forget(key)
        self._parsed.pop(key, None)

    async def fix(self, key: Key, observed: Observed) -> bool:
        """Keep the profile that an attempt begins with; see `Profiles.fix`."""
        return await self._profiles.fix(key, observed.uid, observed.profile)

    async def observe(
        self,
        key: Key,
        obj: Object,
        *,
        refusal: Refusal | None = None,
        queue_error: str | None = None,
        taken_by: str | None = None,
    ) -> Observed:
        """Everything a decision about the task may depend on.

        The last steps wait for nothing, so the capacity in the answer is that of the moment.

        Args:
            key: The task's key.
            obj: The task.
            refusal: The API server's refusal of its Job, if that has just happened.
            queue_error: Why Redis cannot be used, if that has just happened; it is not asked again.
            taken_by: What has become of its adopted entry, if another worker has it.

        Raises:
            RedisError: Redis was needed and did not answer.
            ApiError: The API server was needed and refused.
        """
        if phase_of(obj) not in FINAL and self._store.begun(key, obj):
            await self._profiles.recall(key, obj)
        base = self._base(key, obj)
        if stage(base) == "in an attempt":
            base = await self._with_record(key, base, queue_error)
        update: dict[str, Any] = {"refusal": refusal, "queue_error": queue_error}
        update |= {"taken_by": taken_by, "kueue": await self._kueue.said_of(key, base.jobs)}
        attempt = current_attempt(base)
        update["doing"] = self._pending.doing(key, attempt)
        update["busy_since"] = self._pending.busy_since(key, attempt, base.created)
        if stage(base) == "between attempts":
            edges = partial(self._store.depends_on, key.namespace)
            phase = partial(self._store.phase, key.namespace)
            base = base.model_copy(update={"dependencies": resolve(key.name, phase, edges)})
            if not waits_for_others(base):
                update |= await self._prompts.read(base)
            if base.spec.resume_from and attempt == 0 and queue_error is None:
                update["source"] = await self._source(key, base.spec.resume_from)
            slots = self._capacity.slots(
                *(key.namespace, key.name, base.created.timestamp(), base.spec.priority),
                lambda name: cannot_start(self._store.get(Key(key.namespace, name))),
            )
            update["behind"] = self._capacity.concurrency_keys.behind(base)
            since = self._position_shown.get(key)
            shown = since is not None and self._clock() - since < slots.refresh
            update["slots"] = slots.model_copy(update={"shown": shown})
        if told := self._budget(base):
            update["budget"] = told
        return base.model_copy(update=update)

    def _base(self, key: Key, obj: Object) -> Observed:
        meta = obj["metadata"]
        keys = self._keys(key.namespace)
        adopted, ignored = read_adoption(meta, self._defaults.adopt_namespace, keys)
        spec, error, status, profile = self._parse(key, obj)
        base = Observed(
            namespace=key.namespace,
            name=key.name,
            uid=meta["uid"],
            generation=meta.get("generation", 1),
            created=datetime.fromisoformat(meta["creationTimestamp"]),
            deleting="deletionTimestamp" in meta,
            spec=spec,
            spec_error=error,
            status=status,
            **self._store.children(key, meta["uid"]),
            dependents_waiting=self._store.dependents_wait(key),
            adopted=adopted,
            entry_ignored=ignored,
            keys=keys,
            over_quota=self._over_quota(key.namespace),
            not_served=self._not_served(key.namespace),
            trace=read_trace(meta) if self._traced else None,
            profile=profile,
        )
        return base.model_copy(update=self._known_record(key, base))

    def _parse(self, key: Key, obj: Object) -> _Parsed:
        """What the task says; the last answer is kept while it and its profile are the same."""
        version, raw = obj["metadata"]["resourceVersion"], obj.get("spec") or {}
        known, over = self._parsed.get(key), phase_of(obj) in FINAL
        told, profile = (None, None) if over else self._profiles.of(key, obj)
        if known is None or known[0] != version or known[1].profile != told:
            # Whether a pod may be made of it is asked before an attempt alone.
            unread = over or (told is not None and profile is None)
            read = read_model(TaskSpec, raw) if unread else read_spec(raw, self._defaults, profile)
            spec = read[0].kept_for(self._defaults.task_ttl_seconds)
            status = read_status(TaskStatus, obj.get("status"))
            known = self._parsed[key] = version, _Parsed(spec, read[1], status, told)
        return known[1]

    def _known_record(self, key: Key, base: Observed) -> dict[str, Any]:
        """The record of the attempt at hand if it is in memory, and whether it is acknowledged."""
        latest = current_attempt(base)
        found = False
        for pending in self._pending.of(key):
            output = pending.output
            if output is None or output.request_id != message_id(base, pending.attempt):
                continue  # of an earlier task of the same name, or unreadable: Redis will tell
            found = True
            known = self._pending.record(base.uid, pending.attempt) or AttemptRecord()
            record = known.model_copy(update={"output_id": pending.entry, "output": output})
            self._pending.learn(base.uid, pending.attempt, record)
        for attempt in (latest + 1, latest):
            known_record = self._pending.record(base.uid, attempt)
            if known_record is not None and (attempt == latest or known_record.output):
                return {"record": known_record, "record_attempt": attempt, "unacknowledged": found}
        return {"unacknowledged": found}

    async def _with_record(self, key: Key, base: Observed, queue_error: str | None) -> Observed:
        """Ask for certain before an attempt without an output is taken for dead."""
        attempt = current_attempt(base)
        record = base.record_of(attempt)
        if record is not None and record.output is not None:
            return base
        job, jobs = base.job(attempt), self._store.jobs
        newer = self._pending.has_newer(key, attempt)
        if job is None:
            await fetch(self._kube, JOBS, jobs, key.namespace, name_of_job(base, attempt))
            if base.status.disruptions:
                name = job_name(key.name, attempt, base.status.disruptions)
                await fetch(self._kube, JOBS, jobs, key.namespace, name)
        elif job.state == "failed" and not any(pod.over for pod in base.pods_of(attempt)):
            selector = f"{TASK_UID}={base.uid},{ATTEMPT}={attempt}"
            pods, _ = await self._kube.list(PODS, key.namespace, selector=selector)
            for pod in pods:
                self._store.pods.put(pod)
        elif not job.over and not newer and not may_be_taken(base, attempt, record):
            return base
        base = base.model_copy(update=self._store.children(key, base.uid))
        job = base.job(attempt)
        if queue_error is None:
            record = await self._attempts.read(attempt_of(base, attempt))
            self._pending.learn(base.uid, attempt, record)
            base = base.model_copy(update={"record": record, "record_attempt": attempt})
            if record.entry is None and record.output is None:
                base = base.model_copy(update=await self._prompts.read(base))
        return base

    async def _source(self, key: Key, name: str) -> Source:
        """The checkpoint of the task that another is to go on with, of the same namespace."""
        obj = self._store.get(Key(key.namespace, name))
        if obj is None:
            return Source(error=f"resumeFrom: AgentTask {name} does not exist here")
        base = self._base(Key(key.namespace, name), obj)
        if base.status.phase not in FINAL:
            return Source(error=f"resumeFrom: AgentTask {name} has not ended; wait until it has")
        attempt = attempt_of(base, base.status.attempts)
        found = await self._attempts.resumable(attempt)
        if found is None:
            text = "has no checkpoint to go on from; leave resumeFrom out to begin anew"
            return Source(error=f"resumeFrom: AgentTask {name} {text}")
        return Source(attempt=attempt, checkpoint=found)


def read_spec(
    raw: dict[str, Any], defaults: WorkerDefaults, profile: Profile | None = None
) -> tuple[TaskSpec, str | None]:
    """Read an AgentTask's spec with its profile, and why it cannot be read (then empty) or run."""
    spec, why = read_model(TaskSpec, raw)
    why = why or role_error(spec.agent, defaults.allowed_roles)
    if profile is not None and not (why := why or profile.problem):
        why = shape_error(spec.pod_template or {})
        spec, why = (spec, why) if why else with_profile(spec, profile)
    why = why or size_error(raw) or reference_problem(spec.prompt or "", spec.depends_on)
    why = why or image_error(spec.agent, defaults.images)
    why = why or class_error(spec.queue_priority_class, defaults)
    fixed = profile.fixed_template if profile else None
    why = why or pod_error(spec.agent, spec.workspace, spec.pod_template or {}, defaults, fixed)
    return spec, why
