"""What a model that stands before others hands on to them."""

import inspect
from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext
from typing import Any, get_args

from pydantic import BaseModel

from orbiter.config import ModelSettings
from orbiter.models.types import FinishReason, ModelResponse, StreamChunk, ToolCallDelta
from orbiter.types import Message


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


def response_of(reply: Any) -> ModelResponse:
    """A whole answer as a ModelResponse, whatever class a provider of one's own has for it."""
    if isinstance(reply, ModelResponse):
        return reply
    given = _known(reply, ModelResponse)
    return ModelResponse(**given | {"tool_calls": list(reply.tool_calls)})


def chunk_of(response: ModelResponse) -> StreamChunk:
    """A whole answer as the one chunk of a stream."""
    return StreamChunk(
        delta=response.content,
        tool_call_deltas=[
            ToolCallDelta(index=i, id=call.id, name=call.name, arguments=call.arguments)
            for i, call in enumerate(response.tool_calls)
        ],
        finish_reason=response.finish_reason,
        usage=response.usage,
        thinking=response.reasoning_content,
        parts=response.parts,
        id=response.id,
        model=response.model,
        provider=response.provider,
    )


async def chunks_of(
    model: Any, messages: list[Message], options: dict[str, Any]
) -> AsyncGenerator[StreamChunk, None]:
    """Stream an answer of whatever provider: as a run does, which asks for `complete` alone."""
    if not hasattr(model, "stream"):
        yield chunk_of(response_of(await model.complete(messages, **options)))
        return
    chunks = model.stream(messages, **options)
    if inspect.isawaitable(chunks):
        chunks = await chunks
    async with aclosing(chunks) if hasattr(chunks, "aclose") else nullcontext():
        async for chunk in chunks:
            yield chunk if isinstance(chunk, StreamChunk) else _chunk(chunk)


async def close(model: Any) -> None:
    """Close a provider that has something to close."""
    if hasattr(model, "aclose"):
        await model.aclose()


def _chunk(piece: Any) -> StreamChunk:
    given = _known(piece, StreamChunk)
    calls = [
        ToolCallDelta(index=one.index, id=one.id, name=one.name, arguments=one.arguments)
        for one in piece.tool_call_deltas
    ]
    return StreamChunk(**given | {"tool_call_deltas": calls})


def _known(said: Any, kind: type[BaseModel]) -> dict[str, Any]:
    """What a reply or a piece has of a class's fields, but for an end that ours do not know."""
    given = {name: getattr(said, name, None) for name in kind.model_fields}
    if given["finish_reason"] not in get_args(FinishReason):
        del given["finish_reason"]
    return {name: value for name, value in given.items() if value is not None}
