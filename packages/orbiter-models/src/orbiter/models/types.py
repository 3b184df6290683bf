"""What models answer with, and how they fail. All classes are frozen."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel

from orbiter.models._words import worded, words
from orbiter.parts import OpaquePart, ReplyPart, ReplyParts, TextPart, ThinkingPart
from orbiter.types import OrbiterError, ToolCall, Usage

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "refusal", "incomplete"]
"""How an answer ended: by itself, with calls, cut off at the limit of tokens or by the provider's
filter, refused by the model, or without its end (a stream that was closed early, a turn that the
provider has paused or given up)."""

# of the statuses below 500, those after which the same request may succeed
_AGAIN = frozenset({408, 409, 429})


def _call(call: ToolCall) -> ToolCall:
    told = {"id": call.id, "name": call.name, "arguments": call.arguments}
    clean: dict[str, str] = worded(told)
    return call if clean == told else ToolCall(**clean)


def _parts(parts: tuple[ReplyPart, ...]) -> tuple[ReplyPart, ...]:
    return tuple(map(_part, parts))


def _part(part: ReplyPart) -> ReplyPart:
    if isinstance(part, TextPart | ThinkingPart):
        return part.model_copy(update={"text": words(part.text)})
    if isinstance(part, OpaquePart):
        return part.model_copy(update={"data": worded(part.data)})
    return part


# Whatever a vendor says passes one of the three classes below, whole or in pieces: halves of
# characters end here, and what runs keep, stream and print is UTF-8.
_Words = Annotated[str, AfterValidator(words)]
_Call = Annotated[ToolCall, AfterValidator(_call)]
_Parts = Annotated[ReplyParts, AfterValidator(_parts)]


class ModelError(OrbiterError):
    """A model could not answer.

    Attributes:
        model: The model's name.
        provider: For example "openai"; empty when the error comes from elsewhere.
        status: HTTP status of the answer, None when there was no answer.
        request_id: What the provider calls the request, for its support.
        retryable: Whether the same request may succeed later, or with another model: a rate limit,
            a busy or broken server, a lost connection, a timeout.
        retry_after: Seconds that the provider asks to be left alone for.
        paid: What the call had used before it failed: a turn in parts, whose first were answered.
    """

    paid: Usage = Usage()

    def __init__(
        self,
        message: str,
        *,
        model: str = "",
        provider: str = "",
        status: int | None = None,
        request_id: str | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Describe the failure.

        Args:
            message: What happened and what to do.
            model: The model's name.
            provider: Who was asked.
            status: HTTP status of the answer.
            request_id: The provider's name of the request.
            retryable: None says it by the status; without one it is not.
            retry_after: What the provider asked for.
        """
        if retryable is None:
            retryable = status is not None and (status in _AGAIN or status >= 500)
        self.retryable = retryable
        self.retry_after = retry_after
        self.model = model
        self.provider = provider
        self.status = status
        self.request_id = request_id
        super().__init__(f"[{model}] {message}" if model else message)


class ModelResponse(BaseModel):
    """A model's whole answer; `reasoning_content` is what it thought aloud, where it says so.

    With thoughts, or what only the vendor understands, `parts` are all of it in its order. `model`
    and `provider` say who answered. Half a character (a lone surrogate) becomes U+FFFD.
    """

    model_config = {"frozen": True}

    id: _Words = ""
    model: _Words = ""
    provider: _Words = ""
    content: _Words = ""
    tool_calls: list[_Call] = []
    usage: Usage = Usage()
    finish_reason: FinishReason = "stop"
    reasoning_content: _Words = ""
    parts: _Parts = ()


class ToolCallDelta(BaseModel):
    """A piece of a tool call; pieces with the same `index` belong together."""

    model_config = {"frozen": True}

    index: int = 0
    id: _Words | None = None
    name: _Words | None = None
    arguments: _Words = ""


class StreamChunk(BaseModel):
    """A piece of an answer. The usages of all chunks add up to that of the call.

    `thinking` is a piece of thoughts to be shown; `parts` come last, as those of a ModelResponse.
    `id`, `model` and `provider` are those of a ModelResponse, in one of the chunks.
    """

    model_config = {"frozen": True}

    delta: _Words = ""
    tool_call_deltas: list[ToolCallDelta] = []
    finish_reason: FinishReason | None = None
    usage: Usage = Usage()
    thinking: _Words = ""
    parts: _Parts = ()
    id: _Words = ""
    model: _Words = ""
    provider: _Words = ""
