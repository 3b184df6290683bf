"""What a stream of a run tells before its result; `orbiter.types` has these among its words."""

from operator import not_
from typing import Literal

from pydantic import BaseModel, Field

from orbiter._input_requests import InputRequest
from orbiter._usage import Usage
from orbiter.parts import ResultParts


class _Event(BaseModel):
    # a run that nobody listens to makes none, so it does not wait for their validators either
    model_config = {"frozen": True, "defer_build": True}


class TextEvent(_Event):
    """A piece of the model's text."""

    type: Literal["text"] = "text"
    text: str
    agent_name: str = ""


class ThinkingEvent(_Event):
    """A piece of what the model thinks, if its vendor shows it; it is no part of the answer."""

    type: Literal["thinking"] = "thinking"
    text: str
    agent_name: str = ""


class ToolCallEvent(_Event):
    """The model asked for a tool; it starts after the reader has seen this event."""

    type: Literal["tool_call"] = "tool_call"
    tool_name: str
    tool_call_id: str = ""
    arguments: str = ""
    agent_name: str = ""


class ToolResultEvent(_Event):
    """A tool answered, with images and documents in `parts` if there are any, or failed."""

    type: Literal["tool_result"] = "tool_result"
    tool_name: str
    tool_call_id: str = ""
    content: str = ""
    error: str | None = None
    agent_name: str = ""
    parts: ResultParts = Field(default=(), exclude_if=not_)


class StepEvent(_Event):
    """A model call begins; `step` counts from 1 over the whole run."""

    type: Literal["step"] = "step"
    step: int
    agent_name: str = ""


class UsageEvent(_Event):
    """Tokens one model call took, and the model that answered, "provider:name", if it is known."""

    type: Literal["usage"] = "usage"
    usage: Usage
    model: str = ""
    agent_name: str = ""


class HandoffEvent(_Event):
    """The conversation moved from `agent_name` to the agent `target`."""

    type: Literal["handoff"] = "handoff"
    target: str
    agent_name: str = ""


class InputRequestEvent(_Event):
    """A call waits for a person; when all of its step that do not wait have run, the run ends."""

    type: Literal["input_request"] = "input_request"
    request: InputRequest
    agent_name: str = ""


class ErrorEvent(_Event):
    """The run failed; the stream raises the error itself right after this event."""

    type: Literal["error"] = "error"
    error: str
    agent_name: str = ""
