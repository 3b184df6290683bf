"""What an AgentTask says as a Task, and the other way round. Pure: dicts in and out.

A task that the operator runs has no history of its own: it follows from attempts, answers and
phase, always as the same list, which only grows while the object changes. A task that a broker runs
keeps its record in `status.managed`.
"""

import json
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from pydantic import ValidationError

from orbiter.tasks._internal.changes import numbered, state_change
from orbiter.tasks._internal.raised import reason, why
from orbiter.tasks.models import EventType, Task, TaskEvent
from orbiter.tasks.state import TERMINAL_STATES, TaskState
from orbiter_contracts.references import escaped, unescaped

logger = logging.getLogger("orbiter.tasks")
Object = dict[str, Any]
API_VERSION = "orbiter.dev/v1alpha1"
MANAGER = "orbiter.dev/task-broker"
"""The value of `spec.managedBy` of tasks that brokers run; the operator leaves them alone."""
RECORD = "orbiter.dev/task"
"""Annotation with what of a Task has no field of its own in an AgentTask, as JSON."""
_REQUEST = "orbiter.dev/request-id"
_PHASES = {
    TaskState.PENDING: "Pending",
    TaskState.RUNNING: "Running",
    TaskState.INPUT_REQUIRED: "InputRequired",
    TaskState.COMPLETED: "Completed",
    TaskState.FAILED: "Failed",
    TaskState.CANCELLED: "Cancelled",
}
_STATES = {phase: state for state, phase in _PHASES.items()}
_LINE = 140
_HEADLINE = 35
"""What `kubectl get` has room for."""
MOST_ATTEMPTS = 1000
"""More than retries and answers of one task can make; each takes room in its history."""
_KEPT = {"state", "result", "error", "events", "updated_at", "owner", "lease_until"}


def manifest(task: Task, spec: Mapping[str, Any], *, managed: bool) -> Object:
    """The object to create for a task.

    Args:
        task: The task; `system_prompt` of its metadata becomes `spec.agent.systemPrompt`.
        spec: Everything of `spec` that is not the task's own.
        managed: Whether a broker will run it and not the operator.
    """
    prompt = task.metadata.get("system_prompt")
    agent = {**spec.get("agent", {})} | ({} if prompt is None else {"systemPrompt": str(prompt)})
    given = {**spec, "prompt": escaped(task.input)} | ({"agent": agent} if agent else {})
    record = {"metadata": task.metadata, "created_at": task.created_at.isoformat()}
    return {
        "apiVersion": API_VERSION,
        "kind": "AgentTask",
        "metadata": {"name": task.id, "annotations": {RECORD: json.dumps(record)}},
        "spec": given | ({"managedBy": MANAGER} if managed else {}),
    }


def managed_status(task: Task) -> Object:
    """The status of a task that a broker runs: one line for people, the record for brokers."""
    said = task.error if task.state is TaskState.FAILED else task.question or task.result
    line = " ".join((said or "").split())
    few = "".join(character if character.isprintable() else " " for character in line)
    return {
        "phase": _PHASES[task.state],
        "message": line if len(line) <= _LINE else line[: _LINE - 1] + "…",
        "headline": few if len(few) <= _HEADLINE else few[: _HEADLINE - 1] + "…",
        "managed": task.model_dump_json(include=_KEPT),
    }


def is_managed(obj: Object) -> bool:
    """Whether a broker runs the task."""
    return bool(obj["spec"].get("managedBy") == MANAGER)


def read(obj: Object) -> Task:
    """The task that an AgentTask is. `version` is the object's resourceVersion.

    One that cannot be read is a task that has FAILED and says why; so it is nobody else's trouble.
    """
    try:
        return _read(obj)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        meta = obj["metadata"]
        said = why(error) if isinstance(error, ValidationError) else reason(error)
        logger.warning("AgentTask %s cannot be read: %s", meta["name"], said)
        created = datetime.fromisoformat(meta["creationTimestamp"])
        return Task(
            id=meta["name"],
            state=TaskState.FAILED,
            input="",
            error=f"the AgentTask cannot be read: {type(error).__name__}: {said}",
            events=numbered([state_change(meta["name"], TaskState.FAILED, created)], 0),
            created_at=created,
            updated_at=created,
            version=int(meta["resourceVersion"]),
        )


def _record(obj: Object) -> Object:
    """What the annotation keeps; nothing when somebody has written something else there."""
    try:
        found = json.loads((obj["metadata"].get("annotations") or {}).get(RECORD, "{}"))
        kept = Task(input="", **{key: found[key] for key in ("metadata", "created_at")})
    except (ValueError, TypeError, LookupError, RecursionError):
        return {}
    return {"metadata": kept.metadata, "created_at": kept.created_at}


def _read(obj: Object) -> Task:
    meta, status = obj["metadata"], obj.get("status") or {}
    record = _record(obj)
    created = record.get("created_at") or meta["creationTimestamp"]
    facts: Object = {
        "id": meta["name"],
        "input": unescaped(obj["spec"].get("prompt", "")),
        "metadata": record.get("metadata", {}),
        "created_at": created,
        "updated_at": created,
        "version": int(meta["resourceVersion"]),
    }
    if is_managed(obj):
        kept = dict(json.loads(status.get("managed") or "{}"))
        task = Task.model_validate(facts | {key: kept[key] for key in _KEPT if key in kept})
        task.events = numbered(task.events, 0)
        return task
    events = _history(obj, datetime.fromisoformat(meta["creationTimestamp"]))
    state = next((e.new_state for e in reversed(events) if e.new_state), TaskState.PENDING)
    times = [item["lastTransitionTime"] for item in status.get("conditions") or ()]
    over = {"updated_at": max(times)} if times else {}
    if state is TaskState.COMPLETED:
        over["result"] = (status.get("result") or {}).get("summary") or ""
    elif state is TaskState.FAILED:
        over["error"] = f"{status.get('reason', 'Failed')}: {status.get('message', '')}"
    return Task.model_validate(facts | {"state": state, "events": events} | over)


def request_id(obj: Object, attempt: int) -> str:
    """Id of an attempt's message, and of the question it asks; the operator makes it so."""
    meta = obj["metadata"]
    own = (meta.get("annotations") or {}).get(_REQUEST)
    if own and attempt == 1:
        return str(own)
    return str(uuid5(NAMESPACE_URL, f"orbiter:{meta['uid']}:{attempt}"))


def open_question(obj: Object) -> str | None:
    """Id of the question that waits for an answer."""
    status = obj.get("status") or {}
    asked = (status.get("inputRequest") or {}).get("id")
    given = {item["id"] for item in obj["spec"].get("input") or ()}
    return asked if status.get("phase") == "InputRequired" and asked not in given else None


def _history(obj: Object, created: datetime) -> list[TaskEvent]:
    """The events of a task that the operator runs."""
    status = obj.get("status") or {}
    answers = {item["id"]: item["text"] for item in obj["spec"].get("input") or ()}
    state = _STATES[status.get("phase") or "Pending"]
    story = _Story(obj["metadata"]["name"], _time(status.get("startTime"), created))
    latest = status.get("attempts", 0)
    if latest > MOST_ATTEMPTS:
        raise ValueError(f"status.attempts is {latest}, and no task has more than {MOST_ATTEMPTS}")
    for attempt in range(1, latest):
        asked = request_id(obj, attempt)
        story.over(asked in answers, "", answers.get(asked))
    request = status.get("inputRequest") or {}
    if latest and _is_over(status):
        asks = (status.get("result") or {}).get("status") == "input_required"
        asked = request.get("id", request_id(obj, latest))
        story.at = _time(request.get("askedAt"), story.at)
        story.over(asks, request.get("question", ""), answers.get(asked))
    elif _true(status, "Started"):
        story.change(TaskState.RUNNING)
    if state in TERMINAL_STATES:
        story.at = _time(status.get("completionTime"), story.at)
        story.change(state)
    return numbered(story.events, 0)


class _Story:
    """Writes down what happened, in order; `at` is the time of what comes next."""

    def __init__(self, task_id: str, at: datetime) -> None:
        self.events: list[TaskEvent] = []
        self.at = at
        self._task_id = task_id

    def change(self, state: TaskState) -> None:
        """It came into another state."""
        self.events.append(state_change(self._task_id, state, self.at))

    def over(self, asked: bool, question: str, answer: str | None) -> None:
        """An attempt ended, with a question or in failure, and another one follows."""
        self.change(TaskState.RUNNING)
        if asked:
            self._log({"question": question})
            self.change(TaskState.INPUT_REQUIRED)
        if answer is not None:
            self._log({"answer": answer})
        if answer is not None or not asked:
            self.change(TaskState.PENDING)

    def _log(self, payload: Object) -> None:
        self.events.append(
            TaskEvent(
                task_id=self._task_id,
                event_type=EventType.LOG,
                payload=payload,
                timestamp=self.at,
            )
        )


def _is_over(status: Object) -> bool:
    """Whether the latest attempt ended and was not the task's end: it waits for the next one.

    A final phase without an admitted attempt was decided between two attempts.
    """
    phase = status.get("phase")
    if phase == "InputRequired":
        return True
    decided = phase != "Running" and (phase == "Pending" or not _true(status, "Admitted"))
    return decided and bool(status.get("result"))


def _true(status: Object, kind: str) -> bool:
    conditions = status.get("conditions") or ()
    return any(item["type"] == kind and item["status"] == "True" for item in conditions)


def _time(text: str | None, otherwise: datetime) -> datetime:
    return datetime.fromisoformat(text) if text else otherwise
