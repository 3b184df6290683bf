"""Reduce what the API server has of a task, its Jobs and Pods, to facts. Pure."""

import re
from datetime import datetime
from typing import Any, Literal

from pydantic import ValidationError

from orbiter_operator.kube.cache import label_of, owner_of, parse_time
from orbiter_operator.kube.names import (
    ATTEMPT,
    ENTRY,
    REQUEST,
    TASK,
    TASK_UID,
    WORKER,
    job_name,
    task_name,
)
from orbiter_operator.kube.stored_size import size_error
from orbiter_operator.pods.reasons import one_line
from orbiter_operator.pods.rules import pod_error
from orbiter_operator.pods.state import JobFacts, PodFacts
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.tasks.models import TaskSpec, task_spec_error
from orbiter_operator.tasks.observed import Adopted

_ENTRY_ID = re.compile(r"(0|[1-9][0-9]{0,19})-(0|[1-9][0-9]{0,19})")
_ATTEMPT = re.compile(r"[1-9][0-9]{0,5}")
_SHOWN = 60


def job_facts(obj: dict[str, Any]) -> JobFacts | None:
    """Read a Job; None when it is no attempt of an AgentTask, whatever its labels say."""
    meta = obj["metadata"]
    owner = owner_of(obj, "AgentTask")
    attempt = _attempt(meta)
    if owner is None or attempt is None or label_of(obj, TASK) != owner[0]:
        return None
    if meta["name"] != job_name(owner[0], attempt):
        return None
    state: Literal["suspended", "active", "complete", "failed"] = "active"
    if (obj.get("spec") or {}).get("suspend"):
        state = "suspended"
    reason = message = ""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("status") != "True":
            continue
        if condition["type"] in ("Complete", "Failed"):
            state = "complete" if condition["type"] == "Complete" else "failed"
            reason, message = condition.get("reason", ""), condition.get("message", "")
    return JobFacts(
        name=meta["name"],
        uid=meta["uid"],
        owner=owner[1],
        attempt=attempt,
        created=datetime.fromisoformat(meta["creationTimestamp"]),
        state=state,
        reason=reason,
        message=message,
        deleting="deletionTimestamp" in meta,
    )


def pod_facts(obj: dict[str, Any]) -> PodFacts | None:
    """Read a Pod; None when it is not a worker of an attempt, whatever its labels say.

    A worker's pod is its Job's. Which Job that is, `observe` asks where it still exists.
    """
    meta, status = obj["metadata"], obj.get("status") or {}
    owner, attempt = owner_of(obj, "Job"), _attempt(meta)
    task, uid = label_of(obj, TASK), label_of(obj, TASK_UID)
    if owner is None or attempt is None or not task or not uid:
        return None
    if owner[0] != job_name(task, attempt):
        return None
    facts: dict[str, Any] = {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            facts["unschedulable"] = condition.get("message", "")
        if condition["type"] == "DisruptionTarget" and condition.get("status") == "True":
            facts["disruption"] = condition.get("reason", "")
    for state, image in _container_states(status):
        facts.update(_state_facts(state, image))
    if facts.get("waiting_reason"):
        facts["waiting_since"] = parse_time(status.get("startTime") or meta["creationTimestamp"])
    return PodFacts(
        name=meta["name"],
        owner=uid,
        job=owner[1],
        attempt=attempt,
        phase=status.get("phase", "Pending"),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        deleted_at=parse_time(meta.get("deletionTimestamp")),
        node=(obj.get("spec") or {}).get("nodeName", ""),
        **facts,
    )


def _container_states(status: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """States that matter, with their image: what waits, failed init containers, the worker's."""
    states = []
    for item in status.get("initContainerStatuses") or ():
        state = item.get("state") or {}
        if "running" not in state and (state.get("terminated") or {}).get("exitCode") != 0:
            states.append((state, item.get("image", "")))
    for item in status.get("containerStatuses") or ():
        state = item.get("state") or {}
        if item["name"] == WORKER or "waiting" in state:
            states.append((state, item.get("image", "")))
    return states


def _state_facts(state: dict[str, Any], image: str) -> dict[str, Any]:
    if waiting := state.get("waiting"):
        # PodInitializing and ContainerCreating are the ordinary course of things.
        if waiting.get("reason") in ("PodInitializing", "ContainerCreating", None):
            return {}
        return {
            "waiting_reason": waiting["reason"],
            "image": image,
            "waiting_message": waiting.get("message", ""),
        }
    if running := state.get("running"):
        return {"running_since": parse_time(running.get("startedAt"))}
    if ended := state.get("terminated"):
        return {
            "exit_reason": ended.get("reason", ""),
            "exit_code": ended.get("exitCode"),
            "exit_message": ended.get("message", ""),
            "running_since": parse_time(ended.get("startedAt")),
        }
    return {}


def _attempt(meta: dict[str, Any]) -> int | None:
    text = str((meta.get("labels") or {}).get(ATTEMPT) or "")
    return int(text) if _ATTEMPT.fullmatch(text) else None


def read_adoption(meta: dict[str, Any], namespace: str) -> tuple[Adopted | None, str | None]:
    """Which queue entry a task was made of, by its annotations; or why they are not believed.

    Anybody who may create a task may annotate it so. A name that is the entry's hash, where adopted
    tasks are, is what the operator gives; that the entry is nobody else's, Redis is asked.

    Args:
        meta: The task's metadata.
        namespace: Where entries from outside become tasks; empty when nowhere.
    """
    annotations = meta.get("annotations") or {}
    if ENTRY not in annotations:
        return None, None
    entry, request = str(annotations[ENTRY]), str(annotations.get(REQUEST) or "")
    ours = meta["namespace"] == namespace and meta["name"] == task_name(entry)
    if ours and request and _is_entry_id(entry):
        return Adopted(entry=entry, request_id=request), None
    return None, (
        f"annotation {ENTRY}: {one_line(entry, _SHOWN)!r} is ignored, the task runs its own "
        "prompt: the operator alone makes tasks of queue entries; leave the annotation out"
    )


def _is_entry_id(text: str) -> bool:
    """Whether it is the id of a stream entry as Redis writes it."""
    found = _ENTRY_ID.fullmatch(text)
    return found is not None and all(int(part) < 2**64 for part in found.groups())


def read_spec(raw: dict[str, Any], defaults: WorkerDefaults) -> tuple[TaskSpec, str | None]:
    """Read an AgentTask's spec; an empty one and why, when it cannot be read or run."""
    try:
        spec = TaskSpec.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return TaskSpec(), f"spec.{where}: {first['msg']}"
    why = size_error(raw) or task_spec_error(spec, defaults.images)
    return spec, why or pod_error(spec.agent, spec.workspace, spec.pod_template or {}, defaults)
