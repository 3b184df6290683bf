"""A run that waits for people, as JSON: `result.paused`. Whoever kept it may have changed it.

So it is read by one total function, which refuses what is too large, of another version, or not of
one piece: each call that waits is one of the last message, with these very arguments.
"""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self
from uuid import uuid4

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import PydanticSerializationError, from_json

from orbiter._asking import Asked
from orbiter._input_requests import MAX_CALLS, MAX_TEXT, InputRequest, digest
from orbiter._json_bounds import canonical, problem_of
from orbiter.types import AssistantMessage, Message, OrbiterError, ToolCall, ToolResult, Usage

MAX_PAUSED_BYTES = 64 * 1024 * 1024
"""A conversation with a hundred images fits; what is larger cannot be paused."""
WAITS = "not called yet: a person has to answer first"
ASIDE = "()"
"""No agent is called that way: who works for a tool makes none of its caller's steps."""
_VERSION = 1
_MOST = 2**53 - 1
_Count = Annotated[int, Field(ge=0, le=_MOST)]


class Paused(BaseModel):
    """All that another process needs to go on.

    Attributes:
        version: Of this form.
        id: Of this pause; the requests' ids are made of it.
        agent: Who waits.
        input: What that one was started with.
        open: The request of each call that waits, by the call's id.
        messages: The conversation up to and with the message that calls, and the results of those
            calls that do not wait.
        start: Where in it the turn of the agent begins.
        usage: Tokens so far.
        began: Where in it begins what the run has added.
        steps: Model calls so far, by agent; under ASIDE those of runs inside of it.
        misfits: Answers so far that were sent back.
        retried: How often each tool has asked for another call.
        asked: What calls have asked a person while they ran, by the call's id.
    """

    model_config = {"frozen": True, "extra": "forbid", "defer_build": True}

    version: Literal[1] = 1
    id: str = Field(pattern="^[0-9a-f]{32}$")
    agent: str
    input: str = ""
    open: Annotated[dict[str, InputRequest], Field(min_length=1, max_length=MAX_CALLS)]
    messages: Annotated[list[Annotated[Message, Field(discriminator="role")]], Field(min_length=1)]
    start: _Count = 0
    began: _Count = 0
    usage: Usage = Usage()
    steps: dict[str, _Count] = {}
    misfits: _Count = 0
    retried: dict[str, _Count] = {}
    asked: dict[str, Asked] = {}

    @property
    def asking(self) -> int:
        """Where the message with the calls is."""
        return len(self.messages) - 1 - len(self.results)

    @property
    def calls(self) -> Sequence[ToolCall]:
        """All calls of the message, those that have run too."""
        message = self.messages[self.asking]
        return message.tool_calls if isinstance(message, AssistantMessage) else ()

    @property
    def results(self) -> dict[str, ToolResult]:
        """What the calls that have run gave, by the call's id."""
        found: dict[str, ToolResult] = {}
        for message in reversed(self.messages):
            if not isinstance(message, ToolResult):
                break
            if message.tool_call_id in found:
                raise ValueError("messages: a call has two results")
            found[message.tool_call_id] = message
        return found

    @model_validator(mode="after")
    def _of_one_piece(self) -> Self:
        results, calls = self.results, {call.id: call for call in self.calls}
        waiting = self.open.keys()
        if {*results, *waiting} != calls.keys() or not results.keys().isdisjoint(waiting):
            raise ValueError("messages: its last calls are not those that wait or have results")
        if len(calls) != len(self.calls):
            raise ValueError("messages: two calls have one id")
        if self.start > self.asking:
            raise ValueError("start: is behind the message that calls")
        if self.began > self.start:
            raise ValueError("began: is behind the start of the turn")
        if not self.asked.keys() <= waiting:
            raise ValueError("asked: of a call that does not wait")
        for identity, request in self.open.items():
            arguments, question = arguments_of(calls[identity]), ""
            if asked := self.asked.get(identity):
                arguments, question = asked.edited or arguments, asked.question
            called = digest(calls[identity].name, arguments)
            if [call.digest for call in request.calls] != [called]:
                raise ValueError("open: what was shown is not what the model called")
            if asked and not (question and request.kind == "question"):
                raise ValueError("asked: of a call that asks nothing")
            if request.text != (question or asked_text(request.kind, arguments)):
                raise ValueError("open: the question is not that of model or tool")
            if request.id != request_id(self.id, identity, called):
                raise ValueError("open: an id is not that of its call")
        return self

    def renewed(self) -> Self:
        """Return another pause, for the same calls."""
        pause = uuid4().hex
        again = {
            call: request.model_copy(
                update={"id": request_id(pause, call, request.calls[0].digest)}
            )
            for call, request in self.open.items()
        }
        return self.model_copy(update={"id": pause, "open": again})

    def to_json(self) -> str:
        """Write it.

        Raises:
            OrbiterError: It is too large to be read again, or holds what JSON cannot say.
        """
        try:
            text = self.model_dump_json()
        except (PydanticSerializationError, UnicodeError, RecursionError) as error:
            raise OrbiterError(
                f"Agent '{self.agent}' cannot wait for a person: its conversation cannot be kept: "
                f"{ascii(str(error))[1:-1][:200]}"
            ) from error
        if len(text.encode()) > MAX_PAUSED_BYTES:
            raise OrbiterError(
                f"Agent '{self.agent}' cannot wait for a person: its conversation is "
                f"{len(text.encode())} bytes, and at most {MAX_PAUSED_BYTES} can be kept"
            )
        return text


def request_id(pause: str, call: str, digest: str) -> str:
    """Return the id of the request for a call, which no other pause, call or arguments have."""
    return hashlib.sha256(
        canonical([pause, call, digest]).encode("utf-8", "surrogatepass")
    ).hexdigest()[:32]


def asked_text(kind: str, arguments: dict[str, Any]) -> str:
    """Return the question that a call asks a person; nothing for what is to be approved."""
    return str(arguments.get("question", ""))[:MAX_TEXT] if kind == "question" else ""


def noted(result: ToolResult, arguments: dict[str, Any]) -> ToolResult:
    """Tell the model, in a call's result, of arguments that are not its own."""
    note = f"(A person changed the arguments to {canonical(arguments)}.)\n"
    field = "content" if result.error is None else "error"
    return result.model_copy(update={field: note + (getattr(result, field) or "")})


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Read what a model calls a tool with, as it can be shown to a person.

    Raises:
        ValueError: It is no JSON object, or none that everybody reads alike.
    """
    try:
        value = from_json(call.arguments or "{}", allow_inf_nan=False)
    except (ValueError, TypeError) as error:
        # TypeError: a text with half a character
        raise ValueError(f"not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    if problem := problem_of(value):
        raise ValueError(f"the object {problem}")
    return value


def read_paused(text: str | bytes) -> Paused:
    """Read what `result.paused` was; total: whatever comes in, there is no other exception.

    Raises:
        OrbiterError: It is something else, was changed, is too large or of a newer version.
    """
    where = "run(resume=...)"
    if not isinstance(text, str | bytes):
        raise OrbiterError(f"{where} got a {type(text).__name__}: give result.paused")
    if len(text) > MAX_PAUSED_BYTES:
        raise OrbiterError(
            f"{where}: {len(text)} bytes; a paused run has at most so many: {MAX_PAUSED_BYTES}"
        )
    try:
        return Paused.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        at = ".".join(map(str, first["loc"])) or "the text"
        what = f"{ascii(at)[1:-1][:200]}: {ascii(first['msg'])[1:-1][:200]}"
    except ValueError as error:
        what = ascii(str(error))[1:-1][:200]
    raise OrbiterError(
        f"{where} got no paused run of version {_VERSION}: {what}; give result.paused as it was"
    )
