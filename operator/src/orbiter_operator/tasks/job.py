"""The objects of a task, as dicts: the Job of an attempt, and the AgentTask that an entry becomes.

Pure: the same task always gives the same Job, and the same entry the same task.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from orbiter_contracts import DeveloperWorkerInput, GitWorkspace
from orbiter_contracts.bounds import one_line
from orbiter_contracts.queues import BARE, Keys
from orbiter_contracts.references import escaped
from orbiter_contracts.stream_names import is_entry_id
from orbiter_contracts.tracing import TRACEPARENT, TraceParent, agent_span, trace_of
from orbiter_operator.kube.names import (
    API_VERSION,
    APP_NAME,
    ATTEMPT,
    ENTRY,
    KUEUE_PRIORITY,
    KUEUE_QUEUE,
    MANAGED_BY,
    MANAGER,
    REQUEST,
    RESUME,
    SAFE_TO_EVICT,
    TASK,
    TASK_UID,
    TRACE,
    WORKER_APP,
    job_name,
    owner_reference,
    task_name,
    worker_id,
)
from orbiter_operator.pods.template import WorkerDefaults, worker_template
from orbiter_operator.tasks.observed import Adopted, Observed, attempt_of, message_id, session_of

_SHOWN = 60

Object = dict[str, Any]
_DEADLINE_MARGIN_SECONDS = 2400
"""How long behind its timeout a worker may take to publish: so long Redis may be away."""
_LONGEST_NOTE = 200
"""A worker takes no longer one."""
_IGNORED = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
"""A pod that the cluster takes away is not the worker's failure: the Job makes another."""


def build_job(
    observed: Observed, attempt: int, entry: str, defaults: WorkerDefaults, *, resume: int = 0
) -> Object:
    """The Job that runs one attempt.

    Args:
        observed: The task.
        attempt: Which attempt, from 1.
        entry: Id of its entry on the developer input stream.
        defaults: What is the same for all workers.
        resume: Behind which disruption of the task it goes on; 0 for an attempt's first Job.

    Returns:
        The object to create.
    """
    spec = observed.spec
    disruption = spec.disruption
    name = job_name(observed.name, attempt, resume)
    labels = {
        MANAGED_BY: MANAGER,
        APP_NAME: WORKER_APP,
        TASK: observed.name,
        TASK_UID: observed.uid,
        ATTEMPT: str(attempt),
    }
    if resume:
        labels[RESUME] = str(resume)
    environment = attempt_of(observed, attempt).environment(
        worker=worker_id(observed.namespace, name),
        entry=entry,
        session=session_of(observed, attempt),
    )
    environment |= {
        "CHECKPOINT_SECONDS": str(disruption.checkpoint_seconds),
        "DISRUPTION_POLICY": disruption.policy,
    }
    if observed.trace:
        parent = observed.trace._replace(span_id=agent_span(observed.uid, attempt))
        environment[TRACEPARENT] = str(parent)
    if note := _note(observed, attempt, resume):
        environment["DISRUPTION_NOTE"] = note
    template = worker_template(
        *(spec.agent, spec.workspace, spec.pod_template or {}, labels, environment, defaults),
        artifacts=bool(spec.artifacts),
        transcript=(observed.namespace, "tasks", observed.uid, str(attempt)),
        fixed=observed.profile.fixed_template if observed.profile else None,
    )
    # Of a pod, not of the Job: each pod has its agent's time, and none while it waits for one.
    template["spec"]["activeDeadlineSeconds"] = spec.timeout_seconds + _DEADLINE_MARGIN_SECONDS
    annotations = template["metadata"].setdefault("annotations", {})
    annotations.setdefault(SAFE_TO_EVICT, "true" if disruption.policy == "Resume" else "false")
    queue = {KUEUE_QUEUE: spec.queue_name, KUEUE_PRIORITY: spec.queue_priority_class}
    body: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": observed.namespace,
            "labels": labels | {key: value for key, value in queue.items() if value},
            "ownerReferences": [owner_reference("AgentTask", observed.name, observed.uid)],
        },
        "spec": {
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": defaults.job_ttl_seconds,
            "template": template,
        },
    }
    if disruption.policy != "Fail":
        body["spec"]["podFailurePolicy"] = {"rules": [_IGNORED]}
    if spec.queue_name:
        body["spec"]["suspend"] = True
    return body


def _note(observed: Observed, attempt: int, resume: int) -> str | None:
    """What the agent is told of why it goes on, where the pod itself would not know it."""
    if resume:
        last = observed.status.condition("Disrupted")
        return one_line(f"{last.reason}: {last.message}", _LONGEST_NOTE) if last else None
    if observed.spec.resume_from and attempt == 1:
        return f"task {observed.spec.resume_from} has ended, and this one goes on with its work"
    return None


def build_message(observed: Observed, attempt: int, prompt: str) -> DeveloperWorkerInput:
    """The message of an attempt, with what its agent is told."""
    spec = observed.spec
    git = spec.workspace.git
    repository = None
    if git is not None:
        repository = GitWorkspace(url=git.url, ref=git.ref, branch=git.branch, push=git.push)
    return attempt_of(observed, attempt).message(
        prompt,
        spec.timeout_seconds,
        request=message_id(observed, attempt),
        task_id=spec.task_id,
        project_id=spec.project_id,
        git=repository,
        artifacts=spec.artifacts,
        setup=spec.workspace.setup,
    )


def build_task(
    entry: str,
    message: DeveloperWorkerInput,
    namespace: str,
    keys: Keys = BARE,
    *,
    agent: Object,
    kept_seconds: int | None = None,
) -> Object:
    """The AgentTask made of an entry from outside, with that very entry as its first attempt.

    Args:
        entry: The entry's id.
        message: What it says.
        namespace: Where the task is made.
        keys: Whose stream the entry is in.
        agent: `spec.agent`: nobody outside chooses one.
        kept_seconds: How long it is kept when it has finished; None as any other.

    Returns:
        The object to create.
    """
    spec: Object = {
        "prompt": escaped(message.prompt),
        "agent": agent,
        "timeoutSeconds": message.timeout,
        "taskId": message.task_id,
    }
    if kept_seconds is not None:
        spec["ttlSecondsAfterFinished"] = kept_seconds
    if message.project_id:
        spec["projectId"] = message.project_id
    if message.workspace and message.workspace.git:
        spec["workspace"] = {"git": message.workspace.git.model_dump(exclude_none=True)}
    if message.artifacts:
        spec["artifacts"] = message.artifacts
    return {
        "apiVersion": API_VERSION,
        "kind": "AgentTask",
        "metadata": {
            "name": task_name(entry, keys),
            "namespace": namespace,
            "labels": {MANAGED_BY: MANAGER},
            "annotations": {ENTRY: entry, REQUEST: message.request_id},
        },
        "spec": spec,
    }


def task_builder(agent: Object, kept_seconds: int | None) -> Callable[..., Object]:
    """`build_task` for an installation's adopted tasks."""
    return partial(build_task, agent=agent, kept_seconds=kept_seconds)


def read_adoption(
    meta: dict[str, Any], namespace: str, keys: Keys = BARE
) -> tuple[Adopted | None, str | None]:
    """Which queue entry a task was made of, by its annotations; or why they are not believed.

    Anybody who may create a task may annotate it so. A name that is the entry's hash, where adopted
    tasks are, is what the operator gives; that the entry is nobody else's, Redis is asked.

    Args:
        meta: The task's metadata.
        namespace: Where entries without a namespace become tasks; empty when nowhere.
        keys: Those of the task's namespace: with a prefix its own entries become tasks there.
    """
    annotations = meta.get("annotations") or {}
    if ENTRY not in annotations:
        return None, None
    entry, request = str(annotations[ENTRY]), str(annotations.get(REQUEST) or "")
    here = bool(keys.prefix) or meta["namespace"] == namespace
    ours = here and meta["name"] == task_name(entry, keys)
    if ours and request and is_entry_id(entry):
        return Adopted(entry=entry, request_id=request), None
    return None, (
        f"annotation {ENTRY}: {one_line(entry, _SHOWN)!r} is ignored, the task runs its own "
        "prompt: the operator alone makes tasks of queue entries; leave the annotation out"
    )


def read_trace(meta: dict[str, Any]) -> TraceParent:
    """The trace of a task: that of its annotation, which who makes tasks may write, or its own."""
    return trace_of(meta["uid"], (meta.get("annotations") or {}).get(TRACE))
