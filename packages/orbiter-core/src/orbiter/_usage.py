"""What model calls take, in tokens; `orbiter.types` has it among its words."""

from collections.abc import Iterable
from operator import not_
from typing import Any

from pydantic import BaseModel, Field


class Usage(BaseModel):
    """Tokens spent, as far as the provider tells.

    Attributes:
        input_tokens: All that was sent.
        output_tokens: All that was received.
        total_tokens: Both.
        cached_tokens: The part of the input that was read from the provider's cache.
        cache_write_tokens: The part of the input that was written to it.
        reasoning_tokens: The part of the output that the model thought.
    """

    model_config = {"frozen": True}

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = Field(default=0, exclude_if=not_)
    reasoning_tokens: int = Field(default=0, exclude_if=not_)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        late = ("cache_write_tokens", "reasoning_tokens")
        return [(k, v) for k, v in super().__repr_args__() if v or k not in late]

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )
