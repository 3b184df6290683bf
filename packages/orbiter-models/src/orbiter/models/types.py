"""What models answer with, and how they fail. All classes are frozen."""

from typing import Literal

from pydantic import BaseModel

from orbiter.parts import ReplyParts
from orbiter.types import OrbiterError, ToolCall, Usage

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "refusal", "incomplete"]
"""How an answer ended: by itself, with calls, cut off at the limit of tokens or by the provider's
filter, refused by the model, or without its end (a stream that was closed early, a turn that the
provider has paused or given up)."""

# of the statuses below 500, those after which the same request may succeed
_AGAIN = frozenset({408, 409, 429})


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
    """

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
    and `provider` say who answered.
    """

    model_config = {"frozen": True}

    id: str = ""
    model: str = ""
    provider: str = ""
    content: str = ""
    tool_calls: list[ToolCall] = []
    usage: Usage = Usage()
    finish_reason: FinishReason = "stop"
    reasoning_content: str = ""
    parts: ReplyParts = ()


class ToolCallDelta(BaseModel):
    """A piece of a tool call; pieces with the same `index` belong together."""

    model_config = {"frozen": True}

    index: int = 0
    id: str | None = None
    name: str | None = None
    arguments: str = ""


class StreamChunk(BaseModel):
    """A piece of an answer. The usages of all chunks add up to that of the call.

    `thinking` is a piece of thoughts to be shown; `parts` come last, as those of a ModelResponse.
    `id`, `model` and `provider` are those of a ModelResponse, in one of the chunks.
    """

    model_config = {"frozen": True}

    delta: str = ""
    tool_call_deltas: list[ToolCallDelta] = []
    finish_reason: FinishReason | None = None
    usage: Usage = Usage()
    thinking: str = ""
    parts: ReplyParts = ()
    id: str = ""
    model: str = ""
    provider: str = ""
