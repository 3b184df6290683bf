"""Transcripts: what an agent says and does, in one vocabulary for all agents.

Events are named after those of `orbiter.run.stream`. A worker appends them to a stream beside the
attempt's record, or beside a session's streams (`Keys.task_transcript`, `Keys.po_transcript`); it
is a tail, cut from the front (`transcript_scripts`), and readers are told of what is missing by a
`cut` event (`transcript_reading`). It is the agent's word and no audit: whoever runs as the agent
could have said it.
"""

from operator import not_
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from orbiter_contracts.bounds import Cost, Count, Id, Moment, Name, Text
from orbiter_contracts.message_base import Message
from orbiter_contracts.messages import OutputStatus, Usage

MAX_EVENT_BYTES: Final = 8 * 1024
"""The largest event, as JSON; of a longer one the longest texts are shortened, with a mark."""
MAX_ENTRY_BYTES: Final = 64 * 1024
"""The largest entry that a worker appends: some dozen events."""
TRANSCRIPT_BYTES: Final = 256 * 1024
"""What is kept of an attempt, or of a session: the end of it."""
TRANSCRIPT_SECONDS: Final = 7 * 24 * 60 * 60
"""How long it is kept after its last event."""
WRITES_A_SECOND: Final = 2
"""How often a worker appends at most."""
SHARE_OF_MEMORY: Final = 0.1
"""Which part of Redis' `maxmemory` all transcripts together may have."""
MAX_NAME_CHARACTERS: Final = 200
MAX_ATTEMPT: Final = 999_999
SESSION_ATTEMPT: Final = 0
"""The `attempt` of a session's events: it has none."""

ToolName = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARACTERS)]


class Event(Message):
    """What all events have.

    Attributes:
        sequence: Counts the events of an attempt (of a session: all of them) from 0, over all its
            pods; strictly increasing.
        at: When the worker heard of it.
        attempt: Which attempt of the task, from 1; `SESSION_ATTEMPT` in a session.
        cost_usd: What the attempt (in a session: the turn) had cost by then, as far as is known.
        request_id: In a session, of the message that is being answered.
        agent_name: Who, when it was not the agent itself but one that it had asked.
    """

    sequence: Count = 0
    at: Moment
    attempt: Annotated[int, Field(ge=0, le=MAX_ATTEMPT)]
    cost_usd: Cost | None = None
    request_id: Id = Field(default="", exclude_if=not_)
    agent_name: ToolName = Field(default="", exclude_if=not_)


class MessageEvent(Event):
    """In a session, what the user has written: the turn that follows answers it."""

    type: Literal["message"] = "message"
    text: Text


class TextEvent(Event):
    """A piece of the agent's text; the next goes on where it ends, if there is only usage between.

    Attributes:
        opens: It begins a text of its own, although nothing else was said between.
    """

    type: Literal["text"] = "text"
    text: Text
    opens: bool = Field(default=False, exclude_if=not_)


class ThinkingEvent(Event):
    """A piece of what the agent thinks, if its program shows it; `opens` as of a text."""

    type: Literal["thinking"] = "thinking"
    text: Text
    opens: bool = Field(default=False, exclude_if=not_)


class ToolCallEvent(Event):
    """The agent uses a tool.

    Attributes:
        tool_name: As its program calls it.
        tool_call_id: What its result names; "" when the program gives none.
        arguments: A JSON object as text; what was shortened is none any more.
    """

    type: Literal["tool_call"] = "tool_call"
    tool_name: ToolName
    tool_call_id: ToolName = ""
    arguments: Text = ""


class ToolResultEvent(Event):
    """A tool has answered, or failed.

    Attributes:
        tool_name: Of the call; "" when the program does not repeat it.
        tool_call_id: Of the call.
        content: What it answered.
        error: Why it failed; None when it did not.
        seconds: How long it took, if that is known.
    """

    type: Literal["tool_result"] = "tool_result"
    tool_name: ToolName = ""
    tool_call_id: ToolName = ""
    content: Text = ""
    error: Text | None = None
    seconds: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None


class InputRequestEvent(Event):
    """The agent asks a person something; it ends with that, and goes on with the answer."""

    type: Literal["input_request"] = "input_request"
    question: Text


class UsageEvent(Event):
    """What the attempt (in a session: the turn) has used by now.

    Attributes:
        usage: All of it so far.
        model: The model that answered last; workers leave it empty, and it is the stream's field.
    """

    type: Literal["usage"] = "usage"
    usage: Usage
    model: ToolName = ""


class VerdictEvent(Event):
    """What it came to: the last event of a turn.

    Attributes:
        status: As the output has it.
        reason: One CamelCase word, when it is no success.
        text: The agent's summary, or the error in words.
    """

    type: Literal["verdict"] = "verdict"
    status: OutputStatus
    reason: Name = ""
    text: Text = ""


class ErrorEvent(Event):
    """The agent's program says that something failed; it may go on all the same."""

    type: Literal["error"] = "error"
    error: Text


class CutEvent(Event):
    """Here something is missing: the worker could not write it, or it was dropped since.

    Attributes:
        events: How many events; 0 when nobody knows.
        bytes: How many bytes of them, as far as is known.
    """

    type: Literal["cut"] = "cut"
    events: Count = 0
    bytes: Count = 0


AnyEvent = (
    MessageEvent
    | TextEvent
    | ThinkingEvent
    | ToolCallEvent
    | ToolResultEvent
    | InputRequestEvent
    | UsageEvent
    | VerdictEvent
    | ErrorEvent
    | CutEvent
)
TranscriptEvent = Annotated[AnyEvent, Field(discriminator="type")]
"""One of the events, told apart by `type`."""
