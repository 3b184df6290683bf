"""What a stream of a run tells before its result; `orbiter.types` has these among its words."""

from operator import not_
from typing import Literal

from pydantic import BaseModel, Field

from orbiter._input_requests import InputRequest
from orbiter._usage import Usage
from orbiter.parts import ResultParts


class TextEvent(BaseModel):
    """A piece of the model's text."""

    model_config = {"frozen": True}

    type: Literal["text"] = "text"
    text: str
    agent_name: str = ""


class ThinkingEvent(BaseModel):
    """A piece of what the model thinks, if its vendor shows it; it is no part of the answer."""

    model_config = {"frozen": True}

    type: Literal["thinking"] = "thinking"
    text: str
    agent_name: str = ""


class ToolCallEvent(BaseModel):
    """The model asked for a tool; it starts after the reader has seen this event."""

    model_config = {"frozen": True}

    type: Literal["tool_call"] = "tool_call"
    tool_name: str
    tool_call_id: str = ""
    arguments: str = ""
    agent_name: str = ""


class ToolResultEvent(BaseModel):
    """A tool answered, with images and documents in `parts` if there are any, or failed."""

    model_config = {"frozen": True}

    type: Literal["tool_result"] = "tool_result"
    tool_name: str
    tool_call_id: str = ""
    content: str = ""
    error: str | None = None
    agent_name: str = ""
    parts: ResultParts = Field(default=(), exclude_if=not_)


class StepEvent(BaseModel):
    """A model call begins; `step` counts from 1 over the whole run."""

    model_config = {"frozen": True}

    type: Literal["step"] = "step"
    step: int
    agent_name: str = ""


class UsageEvent(BaseModel):
    """Tokens one model call took, and the model that answered, "provider:name", if it is known."""

    model_config = {"frozen": True}

    type: Literal["usage"] = "usage"
    usage: Usage
    model: str = ""
    agent_name: str = ""


class HandoffEvent(BaseModel):
    """The conversation moved from `agent_name` to the agent `target`."""

    model_config = {"frozen": True}

    type: Literal["handoff"] = "handoff"
    target: str
    agent_name: str = ""


class InputRequestEvent(BaseModel):
    """A call waits for a person; when all of its step that do not wait have run, the run ends."""

    model_config = {"frozen": True}

    type: Literal["input_request"] = "input_request"
    request: InputRequest
    agent_name: str = ""


class ErrorEvent(BaseModel):
    """The run failed; the stream raises the error itself right after this event."""

    model_config = {"frozen": True}

    type: Literal["error"] = "error"
    error: str
    agent_name: str = ""
