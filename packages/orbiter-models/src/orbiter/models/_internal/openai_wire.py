"""Chat completions, as OpenAI's API writes them and servers that speak it."""

import re
from typing import Any

from orbiter.config import ModelSettings
from orbiter.models._internal.server import ModelServer
from orbiter.models._internal.strict import is_closed, strict
from orbiter.models.types import FinishReason, StreamChunk, ToolCallDelta
from orbiter.types import Usage

_FINISH: dict[str | None, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    # words of compatible servers: Mistral, vLLM, DeepSeek, OpenRouter
    "model_length": "length",
    "abort": "incomplete",
    "insufficient_system_resource": "incomplete",
    "error": "incomplete",
}


def add_settings(request: dict[str, Any], settings: ModelSettings, server: ModelServer) -> None:
    """Write settings into a request; those of tools mean nothing without tools."""
    for name in ("top_p", "reasoning_effort"):
        value = getattr(settings, name)
        if value is not None:
            request[name] = value
    if settings.seed is not None and server.seed_field == "seed":
        request["seed"] = settings.seed
    elif settings.seed is not None:
        # the SDK's arguments are OpenAI's: what it does not know goes into the body directly
        request["extra_body"] = {server.seed_field: settings.seed}
    if settings.stop:
        request["stop"] = list(settings.stop)
    if "tools" not in request:
        return
    if settings.forces_a_call and settings.tool_choice != "required":
        request["tool_choice"] = {"type": "function", "function": {"name": settings.tool_choice}}
    elif settings.tool_choice is not None:
        request["tool_choice"] = settings.tool_choice
    if settings.parallel_tool_calls is not None:
        request["parallel_tool_calls"] = settings.parallel_tool_calls


def json_schema(schema: dict[str, Any], *, strictly: bool) -> dict[str, Any]:
    """Name and describe a schema that an answer is to fit.

    Args:
        schema: What core wants.
        strictly: Whether OpenAI itself is asked, in its strict mode where that can express the
            schema; servers that speak its words often have no such mode.
    """
    # the API takes no other names, and those of generics have brackets
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", str(schema.get("title", "output")))[:64]
    wanted: dict[str, Any] = {"name": name, "schema": schema}
    if strictly and is_closed(schema):
        wanted |= {"schema": strict(schema), "strict": True}
    return wanted


def finish_of(word: str | None, refusal: str | None) -> FinishReason:
    reason = _FINISH.get(word, "stop")
    # the API itself calls a refusal a stop, and tells it by a field of its own
    return "refusal" if refusal and reason == "stop" else reason


def text_in(content: Any) -> str:
    """Return the text of a reply's content: a string, or pieces of which thoughts are some."""
    if isinstance(content, list):
        return "".join(p["text"] for p in content if p.get("type") == "text")
    return content or ""


def chunk_of(event: Any, refusal: str, thinking: str = "") -> StreamChunk:
    usage = usage_of(event.usage)
    if not event.choices:
        return StreamChunk(usage=usage)
    choice = event.choices[0]
    return StreamChunk(
        delta=text_in(choice.delta.content) or choice.delta.refusal or "",
        tool_call_deltas=[
            ToolCallDelta(
                index=piece.index,
                id=piece.id,
                name=piece.function.name if piece.function else None,
                arguments=(piece.function.arguments if piece.function else None) or "",
            )
            for piece in choice.delta.tool_calls or ()
        ],
        finish_reason=finish_of(choice.finish_reason, refusal) if choice.finish_reason else None,
        usage=usage,
        thinking=thinking,
    )


def usage_of(usage: Any) -> Usage:
    if usage is None:
        return Usage()
    details = usage.prompt_tokens_details
    thought = getattr(usage, "completion_tokens_details", None)
    return Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        cached_tokens=(details.cached_tokens if details else None) or 0,
        cache_write_tokens=getattr(details, "cache_write_tokens", None) or 0,
        reasoning_tokens=getattr(thought, "reasoning_tokens", None) or 0,
    )
