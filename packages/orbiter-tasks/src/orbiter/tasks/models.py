"""What is known about a task: the Task and the events of its life."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self
from uuid import uuid4

from pydantic import BaseModel, Field, field_validator, model_validator

from orbiter.approval import InputRequest
from orbiter.tasks._keepable import moment, plain, text
from orbiter.tasks.state import TERMINAL_STATES, TaskState


def utc_now() -> datetime:
    """Return the time, with its zone."""
    return datetime.now(UTC)


def new_id() -> str:
    """Return an id nobody else has."""
    return str(uuid4())


class EventType(StrEnum):
    """What kind of news an event is."""

    STATE_CHANGE = "state_change"
    PROGRESS = "progress"
    LOG = "log"


class TaskEvent(BaseModel):
    """Something that happened to a task.

    Attributes:
        task_id: The task.
        event_type: STATE_CHANGE has the payload `{"state": value}`.
        payload: JSON values; what JSON cannot hold is replaced.
        timestamp: When it happened, UTC.
        seq: Its place among the events of the task, from 1; the store gives it.
    """

    model_config = {"frozen": True}

    task_id: str
    event_type: EventType
    payload: dict[str, Any] = Field(default_factory=dict)
    timestamp: datetime = Field(default_factory=utc_now)
    seq: int = Field(default=0, ge=0, lt=2**62)

    # what every store can keep: see docs/tasks.md
    _text = field_validator("task_id", mode="before")(text)
    _values = field_validator("payload", mode="before")(plain)
    _moment = field_validator("timestamp")(moment)

    @model_validator(mode="after")
    def _names_a_state(self) -> Self:
        if self.event_type is EventType.STATE_CHANGE:
            TaskState(str(self.payload.get("state")))
        return self

    @property
    def new_state(self) -> TaskState | None:
        """The state the task came into; None when the event is no change of state."""
        if self.event_type is not EventType.STATE_CHANGE:
            return None
        return TaskState(self.payload["state"])


class Task(BaseModel):
    """A task as it was when the store was asked; changing it changes nothing in the store.

    Attributes:
        id: Unique in its store.
        state: Where it is in its life.
        input: What the agent is asked.
        result: What the agent answered, as text.
        error: Why it failed.
        events: All that happened to it, in order.
        metadata: `system_prompt` and `config_name` configure the agent, `messages` (JSON) is the
            conversation before; the rest is yours.
        created_at: When it was made, UTC; older tasks run first.
        updated_at: When it last changed, UTC.
        owner: Who runs it now.
        lease_until: Until when the owner has it, unless the lease is renewed.
        version: Counts its changes; stores compare it before they set.
    """

    id: str = Field(default_factory=new_id)
    state: TaskState = TaskState.PENDING
    input: str
    result: str | None = None
    error: str | None = None
    events: list[TaskEvent] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    created_at: datetime = Field(default_factory=utc_now)
    updated_at: datetime = Field(default_factory=utc_now)
    owner: str | None = None
    lease_until: datetime | None = None
    version: int = Field(default=0, ge=0, lt=2**62)

    _text = field_validator("id", "input", "result", "error", "owner", mode="before")(text)
    _values = field_validator("metadata", mode="before")(plain)
    _moment = field_validator("created_at", "updated_at", "lease_until")(moment)

    @property
    def is_terminal(self) -> bool:
        """True when nothing will happen to it any more."""
        return self.state in TERMINAL_STATES

    @property
    def question(self) -> str | None:
        """What the agent wants to know, while the task is INPUT_REQUIRED."""
        if self.state is not TaskState.INPUT_REQUIRED:
            return None
        asked = [event.payload["question"] for event in self.events if "question" in event.payload]
        return asked[-1] if asked else None

    @property
    def input_request(self) -> InputRequest | None:
        """What a tool of its agent waits for, while the task is INPUT_REQUIRED."""
        if self.state is not TaskState.INPUT_REQUIRED:
            return None
        asked = [event.payload for event in self.events if "question" in event.payload]
        try:
            return InputRequest.model_validate(asked[-1]["request"])
        except (IndexError, KeyError, ValueError):
            # it only has a question; or the store's word is no request, and answering says so
            return None

    @property
    def answers(self) -> list[str]:
        """What was answered so far, in order."""
        return [event.payload["answer"] for event in self.events if "answer" in event.payload]
