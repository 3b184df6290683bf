"""How a PO session stands: what the wrapper leaves in Redis for whoever looks, at whatever moment.

`POState` is the hash `worker:po:{id}:state`, `POTurn` one of the list `worker:po:{id}:turns`.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, Self

from pydantic import Field, ValidationError

from orbiter_contracts.bounds import Cost, Count, Id, Int64, Moment, Name, Text
from orbiter_contracts.envelope import InvalidMessageError, decode_json, text_fields
from orbiter_contracts.messages import Message, OutputStatus, Usage

POWorkerState = Literal["starting", "ready", "busy", "stopped"]
RotationReason = Literal["Command", "Requested", "Idle", "Tokens", "Topic", "Record"]
"""Why a new session began: a word of SESSION_COMMANDS, `session_continue=false`, too long without a
message, too large a context, another topic, or a session record that names another session."""


class PORotation(Message):
    """The last change of session. `from_session` is called `from` in JSON."""

    reason: RotationReason | Name
    from_session: Id | None = Field(default=None, alias="from")
    to: Id
    at: Moment


class SnapshotReport(Message):
    """What became of the last snapshot.

    Attributes:
        stored: Whether what Redis has is the agent's memory after its last turn.
        bytes: Size of the compressed snapshot; when it was too large, what was reached.
        reason: Why it was not stored: `TooLarge`, `NoMemory` (Redis had none left), `Failed` (the
            agent's files could not be read), `Unreadable` (what was stored could not be restored,
            so that the agent began without a memory) or `Incomplete` (some of it could not be).
        limit: The largest size that is stored, in bytes.
    """

    stored: bool
    bytes: Count = 0
    reason: Name | None = None
    limit: Count | None = None


class POState(Message):
    """A PO session, as its worker last said. Counts are of the whole session, all users together.

    Attributes:
        state: What the worker does.
        request_id: The message it works on.
        user_id: Whose message was the last.
        session_id: Session of the last message.
        turns: How often the agent answered.
        input_tokens: Tokens of all turns; so with the three below.
        output_tokens: See above.
        cache_read_tokens: See above.
        cache_write_tokens: See above.
        cost_usd: What all turns cost, in US dollars, as far as their agent told.
        asked: How many turns were begun. One that a worker died of, and that nobody can go on with,
            is over; its message is another turn.
        settled: How many of these are over: equal to `asked`, or one less during a turn.
        unpriced: How many of those that are over have a cost that nobody knows.
        turns_allowed: How many may be begun; None for any number. The operator writes it, before
            the session wakes and each time that it has put a turn's cost aside.
        context_tokens: How large the conversation was when the model was last asked.
        last_activity: When a message was last taken or answered.
        rotations: How often a new session began.
        rotation: The last time it did.
        snapshot: What became of the last snapshot; None where none are kept.
        started_at: When the worker's process started.
        ready_at: When that process could first take a message.
        busy_at: When that process took its first message.
        first_output_at: When that process first sent something, a piece or a whole answer.
    """

    state: POWorkerState | Name = "starting"
    request_id: Id | None = None
    user_id: Int64 | None = None
    session_id: Id | None = None
    turns: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    cost_usd: Cost = 0.0
    asked: Count = 0
    settled: Count = 0
    unpriced: Count = 0
    turns_allowed: Count | None = None
    context_tokens: Count | None = None
    last_activity: Moment | None = None
    rotations: Count = 0
    rotation: PORotation | None = None
    snapshot: SnapshotReport | None = None
    started_at: Moment | None = None
    ready_at: Moment | None = None
    busy_at: Moment | None = None
    first_output_at: Moment | None = None

    @classmethod
    def of(cls, fields: Mapping[bytes, bytes] | Mapping[str, str]) -> Self | None:
        """Read the hash; None when there is none. A field that cannot be read counts as absent."""
        known: dict[str, Any] = {
            name: text for name, text in text_fields(fields).items() if name in cls.model_fields
        }
        for name, kind in (("rotation", PORotation), ("snapshot", SnapshotReport)):
            if text := known.pop(name, None):
                with suppress(InvalidMessageError):
                    known[name] = decode_json(kind, text)
        if not fields:
            return None
        try:
            return cls.model_validate(known)
        except ValidationError as error:
            wrong = {str(detail["loc"][0]) for detail in error.errors(include_url=False)}
            return cls.model_validate({k: v for k, v in known.items() if k not in wrong})


class POTurn(Message):
    """One turn of a PO conversation, its texts cut to a bound.

    `thread` is the id of the conversation's first session: one that grew too large for its session
    goes on in another one.
    """

    request_id: Id
    user_id: Int64
    session_id: Id
    thread: Id | None = None
    at: Moment
    prompt: Text
    text: Text
    status: OutputStatus
    usage: Usage | None = None
