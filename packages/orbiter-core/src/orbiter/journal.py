"""The entries of a run's journal, and the two functions between them and JSON.

`run(journal=...)` writes entries of this module, which keep replies whole. A server keeps the
stream's events, which say the same in pieces; `orbiter.replay` reads both.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from orbiter._asking import Asked
from orbiter._input_requests import InputRequest
from orbiter.config import Spent
from orbiter.errors import JournalError
from orbiter.types import (
    AssistantMessage,
    ErrorEvent,
    HandoffEvent,
    InputRequestEvent,
    Message,
    StepEvent,
    StopReason,
    TextEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResult,
    ToolResultEvent,
    Usage,
    UsageEvent,
    UserMessage,
)

__all__ = [
    "LARGEST_RUN", "LONGEST_ENTRY", "MOST_ENTRIES", "VERSION", "Entry", "read_entry", "write_entry",
]  # fmt: skip

VERSION = 1
MOST_ENTRIES = 100_000
LONGEST_ENTRY = 64 * 2**20
LARGEST_RUN = 4 * LONGEST_ENTRY


class _Entry(BaseModel):
    """What `run(journal=...)` writes; `scope` is the agent's place in a flow, empty outside."""

    model_config = {"frozen": True}

    scope: str = ""


class Begun(_Entry):
    """The first entry: what was asked of whom, behind which conversation."""

    type: Literal["begun"] = "begun"
    version: Literal[1] = 1
    target: str
    input: UserMessage
    history: list[Annotated[Message, Field(discriminator="role")]]


class ModelCalled(_Entry):
    """A step begins."""

    type: Literal["model_called"] = "model_called"
    agent_name: str


class Replied(_Entry):
    """The model's reply is whole; its tools begin behind this entry."""

    type: Literal["replied"] = "replied"
    message: AssistantMessage
    usage: Usage
    cut: StopReason | None = None


class ToolDone(_Entry):
    """A call has its result; a later one of the same call takes its place."""

    type: Literal["tool_done"] = "tool_done"
    result: ToolResult


class Waiting(_Entry):
    """Calls of the reply wait for a person; those that wait for nobody begin behind this entry.

    Attributes:
        id: Of the pause.
        requests: What is asked, by the call's id.
        results: Of calls that need no tool.
        asked: What calls have asked while they ran, by the call's id.
    """

    type: Literal["waiting"] = "waiting"
    id: str
    requests: dict[str, InputRequest]
    results: list[ToolResult] = []
    asked: dict[str, Asked] = {}


class Decided(_Entry):
    """People have answered; the calls that were approved begin behind this entry.

    Attributes:
        id: Of the pause.
        results: Of calls that were denied or answered.
        edited: Arguments of people in the place of the model's, by the call's id.
    """

    type: Literal["decided"] = "decided"
    id: str
    results: list[ToolResult] = []
    edited: dict[str, dict[str, Any]] = {}


class Said(_Entry):
    """The model was told what to correct."""

    type: Literal["said"] = "said"
    message: UserMessage


class HandedOff(_Entry):
    """Another agent has the conversation."""

    type: Literal["handed_off"] = "handed_off"
    target: str


class Took(_Entry):
    """What was spent besides the steps of the scope."""

    type: Literal["took"] = "took"
    spent: Spent


class Answered(_Entry):
    """The scope is done; `answer` is the text its output is read from."""

    type: Literal["answered"] = "answered"
    answer: str


class Resumed(BaseModel):
    """A server went on; what was open stays incomplete."""

    model_config = {"frozen": True}

    type: Literal["resumed"] = "resumed"


Entry = (
    Begun | ModelCalled | Replied | ToolDone | Waiting | Decided | Said | HandedOff | Took
    | Answered | Resumed | StepEvent | TextEvent | ThinkingEvent | ToolCallEvent | ToolResultEvent
    | UsageEvent | HandoffEvent | InputRequestEvent | ErrorEvent
)  # fmt: skip
_entries: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="type")])


def write_entry(entry: Entry) -> str:
    """Write an entry as JSON.

    Raises:
        JournalError: It holds what JSON cannot say, or is too long to be read again.
    """
    try:
        text = entry.model_dump_json()
        if isinstance(entry, Replied) and entry.message.parts:
            # a vendor's own parts may be nested deeper than a reader goes
            _entries.validate_json(text)
    except (PydanticSerializationError, ValidationError, UnicodeError, RecursionError) as error:
        raise JournalError(f"'{entry.type}' of the run cannot be kept: {error}") from error
    if len(text) > LONGEST_ENTRY:
        raise JournalError(
            f"'{entry.type}' of the run has {len(text):,} characters, and a journal keeps "
            f"{LONGEST_ENTRY:,}: have tools return less, such as the name of a file"
        )
    return text


def read_entry(text: object) -> Entry:
    """Read an entry, whatever it is.

    Raises:
        JournalError: It is none of this version.
    """
    if not isinstance(text, str) or len(text) > LONGEST_ENTRY:
        raise JournalError(f"this is no entry of a run: {type(text).__name__}, not a text of JSON")
    try:
        return _entries.validate_json(text)
    except (ValidationError, UnicodeError) as error:
        why = str(error)
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            why = f"{'.'.join(map(str, first['loc'])) or 'the text'}: {first['msg']}"
        raise JournalError(
            f"this is no entry of a run, of version {VERSION}: {why[:500]}; a newer Orbiter may "
            "have written it"
        ) from error
