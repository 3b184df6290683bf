"""The states of a task and which of them may follow which; everything else builds on this."""

from enum import StrEnum

from orbiter.errors import InputAnswerError
from orbiter.types import OrbiterError


class TaskState(StrEnum):
    """Where a task is in its life."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    INPUT_REQUIRED = "input_required"
    CANCELLED = "cancelled"


TERMINAL_STATES = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELLED})

# RUNNING and INPUT_REQUIRED go back to PENDING when a run is given up or an answer has come.
_NEXT: dict[TaskState, frozenset[TaskState]] = {
    TaskState.PENDING: TERMINAL_STATES | {TaskState.RUNNING},
    TaskState.RUNNING: TERMINAL_STATES | {TaskState.INPUT_REQUIRED, TaskState.PENDING},
    TaskState.INPUT_REQUIRED: frozenset(
        {TaskState.RUNNING, TaskState.PENDING, TaskState.FAILED, TaskState.CANCELLED}
    ),
}


class TaskError(OrbiterError):
    """The base of what this package raises."""


class TaskNotFoundError(TaskError):
    """No task of the store has this id."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(f"task {task_id} not found in the store; was it created there?")


class TransitionError(TaskError):
    """A change was refused; the task is as it was. The text says why."""

    def __init__(self, task_id: str, reason: str) -> None:
        self.task_id = task_id
        self.reason = reason
        super().__init__(f"task {task_id}: {reason}")


class OtherRequestError(InputAnswerError):
    """An answer is, or may be, to another request than the one that waits.

    Attributes:
        task_id: The task.
        request_id: What waits; empty for a question without an id.
    """

    def __init__(self, task_id: str, request_id: str, what: str) -> None:
        self.task_id = task_id
        self.request_id = request_id
        waits = f"'{request_id}'" if request_id else "a question without an id"
        super().__init__(f"task {task_id} waits for an answer to {waits}, and {what}")


class RefusedError(TaskError):
    """A cluster's API server refused a request; `words` are its own."""

    def __init__(self, status: int, words: str) -> None:
        self.status = status
        self.words = words
        super().__init__(f"the API server refused it ({status}): {words}")


class ConflictError(TaskError):
    """The object is there already, or has changed since it was read."""


class GoneError(TaskError):
    """A watch cannot go on: list anew."""


def refusal(now: TaskState, then: TaskState) -> str | None:
    """Say why a task may not go from one state to another; None when it may."""
    if now in TERMINAL_STATES:
        return f"it is {now} and stays so; it cannot become {then}"
    allowed = _NEXT[now]
    if then not in allowed:
        return f"it is {now} and may become {', '.join(sorted(allowed))}, but not {then}"
    return None
