"""What a model that stands before others hands on to them."""

from collections.abc import AsyncIterator
from typing import Any

from orbiter.config import ModelSettings
from orbiter.models.types import StreamChunk


def options_of(
    tools: list[dict[str, Any]] | None,
    temperature: float | None,
    max_tokens: int | None,
    output_schema: dict[str, Any] | None,
    settings: ModelSettings | None,
) -> dict[str, Any]:
    """Return the options of a call as the model takes them that is asked."""
    options: dict[str, Any] = {
        "tools": tools, "temperature": temperature, "max_tokens": max_tokens
    }  # fmt: skip
    # a model that does not know these has no parameter for them
    if output_schema is not None:
        options["output_schema"] = output_schema
    if settings is not None:
        options["settings"] = settings
    return options


def generator(chunks: Any) -> Any:
    """Return what `aclosing` can close, whatever kind of iterator a provider has."""
    if hasattr(chunks, "aclose"):
        return chunks

    async def read() -> AsyncIterator[StreamChunk]:
        async for chunk in chunks:
            yield chunk

    return read()
