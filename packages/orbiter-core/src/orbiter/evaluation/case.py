"""A case: one thing to ask an agent, and what is known about a good answer."""

from typing import Annotated, Any

from pydantic import BaseModel, Field, field_validator

from orbiter.types import Message


class ExpectedCall(BaseModel):
    """A tool call that a good run makes.

    Attributes:
        name: The tool.
        arguments: Those that matter, with their values; others may be there too.
    """

    model_config = {"frozen": True, "extra": "forbid"}

    name: str
    arguments: dict[str, Any] = {}


class Case(BaseModel):
    """One case of a dataset.

    Attributes:
        id: Unique in its dataset.
        input: What the agent is asked.
        expected: The right answer, text or any JSON, for the scorers that compare.
        tools: The tool calls to expect, for ToolUse; in files a name alone will do.
        rubric: What a judge should mind in this case.
        tags: To look at some of the cases alone.
        messages: The conversation before `input`.
    """

    model_config = {"frozen": True, "extra": "forbid"}

    id: str = Field(min_length=1)
    input: str
    expected: Any = None
    tools: list[ExpectedCall] | None = None
    rubric: str = ""
    tags: list[str] = []
    messages: list[Annotated[Message, Field(discriminator="role")]] = []

    @field_validator("id", mode="before")
    @classmethod
    def _number_is_a_name(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("tools", mode="before")
    @classmethod
    def _names_are_calls(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [{"name": call} if isinstance(call, str) else call for call in value]
