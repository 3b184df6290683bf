"""What is said in a conversation; `orbiter.types` has these among its words."""

from collections.abc import Iterable
from operator import not_
from typing import Any, Literal

from pydantic import BaseModel, Field

from orbiter.parts import Parts, ReplyParts, ResultParts


class _Message(BaseModel):
    model_config = {"frozen": True}

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(k, v) for k, v in super().__repr_args__() if v or k != "parts"]


class ToolCall(BaseModel):
    """The model's wish to call a tool; `arguments` is the JSON text as it wrote it."""

    model_config = {"frozen": True}

    id: str
    name: str
    arguments: str = ""


class UserMessage(_Message):
    """What the user said; with images or documents `parts` are all of it, `content` its text."""

    role: Literal["user"] = "user"
    content: str
    parts: Parts = Field(default=(), exclude_if=not_)


class SystemMessage(BaseModel):
    """Instructions to the model."""

    model_config = {"frozen": True}

    role: Literal["system"] = "system"
    content: str


class AssistantMessage(_Message):
    """What the model said, and the tools it wants called.

    If there is more, such as thoughts, `parts` have all of it in its order for the model's vendor.
    """

    role: Literal["assistant"] = "assistant"
    content: str = ""
    tool_calls: list[ToolCall] = []
    parts: ReplyParts = Field(default=(), exclude_if=not_)


class ToolResult(_Message):
    """The answer to one ToolCall: `content`, or `error` when the call failed.

    `parts` are the images and documents that belong to it besides its text.
    """

    role: Literal["tool"] = "tool"
    tool_call_id: str
    tool_name: str
    content: str = ""
    error: str | None = None
    parts: ResultParts = Field(default=(), exclude_if=not_)


Message = UserMessage | AssistantMessage | SystemMessage | ToolResult
