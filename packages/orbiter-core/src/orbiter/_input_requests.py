"""What a run asks a person, and the answer: `orbiter.approval` has these among its words.

`orbiter_contracts.input_requests` has the same for programs without the framework; a test holds
the two together.
"""

import hashlib
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, model_validator

from orbiter._json_bounds import INT64, canonical, problem_of

MAX_TEXT = 65_536
MAX_CALLS = 128

Decision = Literal["approve", "deny"]
Kind = Literal["question", "approval"]


def digest(tool: str, arguments: dict[str, Any]) -> str:
    """Return what stands for a call and for no other: SHA-256 of its canonical JSON, in hex.

    A number counts, not how it is written: 25.0 is 25.

    Args:
        tool: Its name.
        arguments: A JSON object.
    """
    text = canonical({"arguments": _numbers(arguments), "tool": tool})
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


def _whole(text: str) -> str:
    if problem := problem_of(text):
        raise ValueError(problem)
    return text


def _sane(value: dict[str, Any]) -> dict[str, Any]:
    if problem := problem_of(value):
        raise ValueError(problem)
    return value


Id = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00]*$")]
Name = Annotated[str, Field(max_length=253, pattern=r"^[^\x00]*$"), AfterValidator(_whole)]
Text = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_whole)]
Arguments = Annotated[dict[str, Any], AfterValidator(_sane)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Message(BaseModel):
    # few runs ask anybody, so the others do not wait for these validators
    model_config = {"frozen": True, "extra": "ignore", "defer_build": True}


class InputCall(_Message):
    """A call that waits for a person.

    Attributes:
        tool: What is to be called.
        arguments: With what, as JSON.
        digest: See `digest`; another one than that of tool and arguments is refused.
    """

    tool: Annotated[str, Field(min_length=1, max_length=512), AfterValidator(_whole)]
    arguments: Arguments
    digest: Digest

    @model_validator(mode="after")
    def _of_this_call(self) -> Self:
        if self.digest != digest(self.tool, self.arguments):
            raise ValueError("the digest is not that of tool and arguments")
        return self

    @classmethod
    def of(cls, tool: str, arguments: dict[str, Any]) -> Self:
        """Make one with its digest.

        Raises:
            ValueError: The arguments cannot travel as JSON.
        """
        _sane(arguments)
        return cls(tool=tool, arguments=arguments, digest=digest(tool, arguments))


class InputAnswer(_Message):
    """What a person said to a request.

    Attributes:
        id: Of the request.
        digest: Of the call that was seen; where it is given it has to be that of the request.
        text: The answer to a question; beside a decision its reason, which the model is told.
        decision: On an approval; a question may be denied, too.
        arguments: Call the tool with these instead; they are validated like the model's own.
        by: Who said it.
    """

    id: Id
    digest: Digest | None = None
    text: Text | None = None
    decision: Decision | None = None
    arguments: Arguments | None = None
    by: Name = ""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.text is None and self.decision is None:
            raise ValueError("give a text or a decision")
        if self.arguments is not None and self.decision != "approve":
            raise ValueError("arguments go with the decision 'approve' only")
        return self


class InputRequest(_Message):
    """What a run waits for: `approve`, `deny` and `answer` make the answers to it.

    Attributes:
        id: What an answer names.
        kind: `approval` of its calls, or `question`.
        text: The question.
        calls: What is to be approved; of a question the call that asks, if it is one.
        expires: From then on no answer is taken; None: it waits for ever.
    """

    id: Id
    kind: Kind
    text: Text = ""
    calls: Annotated[tuple[InputCall, ...], Field(max_length=MAX_CALLS)] = ()
    expires: AwareDatetime | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.kind == "approval" and not self.calls:
            raise ValueError("an approval is of a call at least")
        return self

    def approve(self, *, arguments: dict[str, Any] | None = None, by: str = "") -> InputAnswer:
        """Say yes; with `arguments` to other ones than the model's."""
        seen = self._seen
        return InputAnswer(id=self.id, digest=seen, decision="approve", arguments=arguments, by=by)

    def deny(self, reason: str | None = None, *, by: str = "") -> InputAnswer:
        """Say no; the model is told the reason."""
        return InputAnswer(id=self.id, digest=self._seen, decision="deny", text=reason, by=by)

    def answer(self, text: str, *, by: str = "") -> InputAnswer:
        """Answer the question."""
        return InputAnswer(id=self.id, digest=self._seen, text=text, by=by)

    def refusal(self, answer: InputAnswer, *, now: datetime | None = None) -> str | None:
        """Say why something is no answer to this; None when it is one.

        Args:
            answer: What somebody said.
            now: When, where it matters that the request expires.
        """
        if answer.id != self.id:
            return f"the answer is to '{answer.id}', and what waits is '{self.id}'"
        if answer.digest is not None and answer.digest not in [c.digest for c in self.calls]:
            return "the answer is to another call: its digest is not that of what waits"
        if now is not None and self.expires is not None and now >= self.expires:
            return f"the request has expired at {self.expires.isoformat()}"
        if self.kind == "approval" and answer.decision is None:
            return "the request wants a decision: approve or deny"
        if self.kind == "question" and answer.decision == "approve":
            return "the request is a question and wants a text"
        if answer.arguments is not None and len(self.calls) != 1:
            return f"arguments are for one call, and the request has {len(self.calls)}"
        return None

    @property
    def _seen(self) -> str | None:
        return self.calls[0].digest if len(self.calls) == 1 else None
