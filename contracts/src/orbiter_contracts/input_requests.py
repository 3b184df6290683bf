"""What an agent asks a person and what the person says: for every program a question goes through.

The first answer to a request wins; who takes answers sees to that. A request shows the calls that
are to be approved, each with the digest of its tool and arguments, so that no answer is taken for
another call than the one that was seen. Nobody sends a conversation: the program that paused has
kept it. `orbiter.approval` has the same words, without this package; a test compares the two.
"""

import hashlib
import json
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import FailFast, Field, StringConstraints, model_validator

from orbiter_contracts.bounds import INT64, Data, Id, Moment, Name
from orbiter_contracts.message_base import Message

MAX_CALLS: Final = 128
MAX_ANSWER_CHARACTERS: Final = 65_536
MAX_TOOL_CHARACTERS: Final = 512

InputKind = Literal["question", "approval"]
Decision = Literal["approve", "deny"]
_Text = Annotated[str, StringConstraints(max_length=MAX_ANSWER_CHARACTERS)]
_Tool = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TOOL_CHARACTERS)]
_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Id = Annotated[Id, Field(min_length=1)]


def digest(tool: str, arguments: dict[str, Any]) -> str:
    """What stands for a call and for no other: SHA-256 of its canonical JSON, in hex.

    A number counts, not how it is written: 25.0 is 25.

    Args:
        tool: Its name.
        arguments: A JSON object without NaN, infinity and halves of characters.
    """
    text = json.dumps(
        {"arguments": _numbers(arguments), "tool": tool},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _numbers(value: Any) -> Any:
    """JSON has one kind of number: 25.0 comes back as 25 from an API server, and from a browser."""
    if isinstance(value, dict):
        return {key: _numbers(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_numbers(one) for one in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < INT64:
        return int(value)
    return value


class InputCall(Message):
    """A call that waits for a person; its digest has to be that of tool and arguments."""

    tool: _Tool
    arguments: Data
    digest: _Digest

    @model_validator(mode="after")
    def _of_this_call(self) -> Self:
        if self.digest != digest(self.tool, self.arguments):
            raise ValueError("the digest is not that of tool and arguments")
        return self


class InputAnswer(Message):
    """What a person said to a request.

    Attributes:
        id: Of the request.
        digest: Of the call that was seen; where it is given it has to be that of the request.
        text: The answer to a question; beside a decision its reason, which the agent is told.
        decision: On an approval; a question may be denied, too.
        arguments: Call the tool with these instead; the agent's program validates them.
        by: Who said it.
    """

    id: _Id
    digest: _Digest | None = None
    text: _Text | None = None
    decision: Decision | None = None
    arguments: Data | None = None
    by: Name = ""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.text is None and self.decision is None:
            raise ValueError("give a text or a decision")
        if self.arguments is not None and self.decision != "approve":
            raise ValueError("arguments go with the decision 'approve' only")
        return self


class InputRequest(Message):
    """What an agent waits for.

    Attributes:
        id: What an answer names.
        kind: `approval` of its calls, or `question`.
        text: The question.
        calls: What is to be approved; of a question the call that asks, if it is one.
        expires: From then on no answer is taken; None: it waits for ever.
    """

    id: _Id
    kind: InputKind
    text: _Text = ""
    # Each wrong one is an error of some KiB, and nobody reads but the first.
    calls: Annotated[tuple[InputCall, ...], Field(max_length=MAX_CALLS), FailFast()] = ()
    expires: Moment | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.kind == "approval" and not self.calls:
            raise ValueError("an approval is of a call at least")
        return self

    def refusal(self, answer: InputAnswer, now: datetime) -> str | None:
        """Why something is no answer to this; None when it is one.

        Args:
            answer: What somebody said.
            now: When.
        """
        if answer.id != self.id:
            return f"the answer is to '{answer.id}', and what waits is '{self.id}'"
        if answer.digest is not None and answer.digest not in [c.digest for c in self.calls]:
            return "the answer is to another call: its digest is not that of what waits"
        if self.expires is not None and now >= self.expires:
            return f"the request has expired at {self.expires.isoformat()}"
        if self.kind == "approval" and answer.decision is None:
            return "the request wants a decision: approve or deny"
        if self.kind == "question" and answer.decision == "approve":
            return "the request is a question and wants a text"
        if answer.arguments is not None and len(self.calls) != 1:
            return f"arguments are for one call, and the request has {len(self.calls)}"
        return None
