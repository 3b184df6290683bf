"""Reduce what the API server and Redis have of a session to facts. Pure."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from orbiter_contracts import POState
from orbiter_operator.kube.cache import label_of, owner_of, parse_time
from orbiter_operator.kube.models import Workspace
from orbiter_operator.kube.names import SESSION, SESSION_UID, TEMPLATE, WORKER
from orbiter_operator.pods.reasons import one_line
from orbiter_operator.pods.rules import pod_error
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.sessions.models import SessionSpec
from orbiter_operator.sessions.observed import DeploymentFacts, QueueFacts, SessionPodFacts

Object = dict[str, Any]
_WORKER_ID = re.compile(r"[A-Za-z0-9._-]+")
_LONGEST_WORKER_ID = 128
_SHOWN = 80
_LONGEST_TIME = 14
"""Digits of a time in milliseconds until the year 5138; a date can have few more."""
_ORDINARY = ("PodInitializing", "ContainerCreating", None)


def deployment_facts(obj: Object) -> DeploymentFacts | None:
    """Read a Deployment; None when it is no session's, whatever its labels say."""
    meta = obj["metadata"]
    owner = owner_of(obj, "POSession")
    if owner is None or not meta["name"] == owner[0] == label_of(obj, SESSION):
        return None
    return DeploymentFacts(
        name=meta["name"],
        uid=meta["uid"],
        owner=owner[1],
        replicas=int((obj.get("spec") or {}).get("replicas", 1)),
        template=(meta.get("annotations") or {}).get(TEMPLATE, ""),
    )


def session_pod_facts(obj: Object) -> SessionPodFacts | None:
    """Read a Pod; None when it is no session's worker, whatever its labels say.

    A worker's pod is a ReplicaSet's of the session's Deployment, which has the session's name.
    """
    meta, status = obj["metadata"], obj.get("status") or {}
    owner, uid = owner_of(obj, "ReplicaSet"), label_of(obj, SESSION_UID)
    if owner is None or not uid or owner[0].rpartition("-")[0] != label_of(obj, SESSION):
        return None
    facts: Object = {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            facts["unschedulable"] = condition.get("message", "")
    for item in status.get("initContainerStatuses") or ():
        state = item.get("state") or {}
        if "running" not in state and (state.get("terminated") or {}).get("exitCode") != 0:
            facts |= _container(item)
    for item in status.get("containerStatuses") or ():
        if item["name"] == WORKER or "waiting" in (item.get("state") or {}):
            facts |= _container(item)
    return SessionPodFacts(
        name=meta["name"],
        owner=uid,
        created=datetime.fromisoformat(meta["creationTimestamp"]),
        phase=status.get("phase", "Pending"),
        node=(obj.get("spec") or {}).get("nodeName", ""),
        deleted_at=parse_time(meta.get("deletionTimestamp")),
        **facts,
    )


def _container(item: Object) -> Object:
    state = item.get("state") or {}
    facts: Object = {"image": item.get("image", ""), "restarts": item.get("restartCount", 0)}
    waiting, running = state.get("waiting") or {}, state.get("running")
    if waiting.get("reason") not in _ORDINARY:
        facts["waiting_reason"] = waiting["reason"]
        facts["waiting_message"] = waiting.get("message", "")
    if running is not None:
        facts["running_since"] = parse_time(running.get("startedAt"))
    ended = state.get("terminated") or (item.get("lastState") or {}).get("terminated") or {}
    if ended:
        facts["exit_reason"] = ended.get("reason", "")
        facts["exit_code"] = ended.get("exitCode")
        facts["exit_message"] = ended.get("message", "")
    return facts


def default_worker_id(namespace: str, name: str) -> str:
    """The worker id of a session that does not ask for another."""
    return f"{namespace}.{name}"


def worker_id_error(namespace: str, name: str, worker_id: str) -> str | None:
    """Why a session may not have this worker id; None when it may.

    Streams, memory and the worker's word go by it. It begins with the session's own namespace, and
    a namespace has no dot in its name, so no session has what belongs to another namespace.
    """
    own, dot, rest = worker_id.partition(".")
    usable = _WORKER_ID.fullmatch(rest) and len(worker_id) <= _LONGEST_WORKER_ID
    if own == namespace and dot and usable:
        return None
    return (
        f"spec.workerId is {one_line(worker_id, _SHOWN)!r}: it must begin with the session's own "
        f"namespace and a dot, have letters, digits, '.', '_' and '-' only, and at most "
        f"{_LONGEST_WORKER_ID} of them; write {default_worker_id(namespace, name)} or leave it out"
    )


def read_session_spec(
    meta: Object, raw: Object, defaults: WorkerDefaults
) -> tuple[SessionSpec, str | None]:
    """Read a POSession's spec; an empty one and why, when it cannot be read or run.

    Args:
        meta: The session's metadata.
        raw: Its spec.
        defaults: What the installation says about every worker.
    """
    try:
        spec = SessionSpec.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return SessionSpec(), f"spec.{where}: {first['msg']}"
    if spec.agent.type not in defaults.images:
        known = ", ".join(sorted(defaults.images))
        return spec, (
            f"no worker image for agent type {spec.agent.type!r}; this operator has: {known} "
            "(ORBITER_WORKER_IMAGES)"
        )
    if spec.worker_id is not None:
        why = worker_id_error(meta["namespace"], meta["name"], spec.worker_id)
        if why:
            return spec, why
    return spec, pod_error(spec.agent, Workspace(), spec.pod_template or {}, defaults)


def queue_facts(reply: Sequence[Any]) -> QueueFacts:
    """Read the answer of the script that looks at a session's streams."""
    last_message, undelivered, pending, last_answer, dead_letters, flat = reply
    return QueueFacts(
        undelivered=int(undelivered),
        pending=int(pending),
        last_message=last_message,
        message_at=entry_time(last_message),
        answered_at=entry_time(last_answer),
        dead_letters=int(dead_letters),
        state=POState.of(dict(zip(flat[::2], flat[1::2], strict=True))),
    )


def entry_time(entry: str) -> datetime | None:
    """When a stream entry was added, by its id; None for the id before the first.

    Who adds an entry may choose its id, so the time may be one that is still to come, and None also
    when the number is no time at all.
    """
    milliseconds = entry.partition("-")[0]
    if not milliseconds.isdecimal() or len(milliseconds) > _LONGEST_TIME or not int(milliseconds):
        return None
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
