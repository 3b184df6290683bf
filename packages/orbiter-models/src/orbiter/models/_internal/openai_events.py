"""Streams of the Responses API, and what its answers say beside their items."""

from typing import Any

from orbiter.models._internal.arguments import counted
from orbiter.models._internal.openai_items import Said, call_of
from orbiter.models._words import words
from orbiter.models.types import FinishReason, StreamChunk, ToolCallDelta
from orbiter.types import Usage

_INCOMPLETE: dict[str, FinishReason] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}

# the kind of item that an event has a piece of
_DELTAS = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
}


def finish_of(answer: Any, said: Said) -> FinishReason:
    """Say how an answer ended."""
    if getattr(answer, "status", None) == "completed":
        if said.refused:
            return "refusal"
        return "tool_calls" if said.calls else "stop"
    details = getattr(answer, "incomplete_details", None)
    return _INCOMPLETE.get(str(getattr(details, "reason", None)), "incomplete")


def usage_of(usage: Any) -> Usage:
    """Return the tokens that a call took."""
    sent = getattr(usage, "input_tokens_details", None)
    received = getattr(usage, "output_tokens_details", None)
    return Usage(
        input_tokens=counted(getattr(usage, "input_tokens", None)),
        output_tokens=counted(getattr(usage, "output_tokens", None)),
        total_tokens=counted(getattr(usage, "total_tokens", None)),
        cached_tokens=counted(getattr(sent, "cached_tokens", None)),
        cache_write_tokens=counted(getattr(sent, "cache_write_tokens", None)),
        reasoning_tokens=counted(getattr(received, "reasoning_tokens", None)),
    )


class Pieces:
    """A streamed answer: its pieces as they come, and its items when they are whole."""

    def __init__(self, vendor: str) -> None:
        self.said = Said(vendor)
        self.id = self.model = ""
        self.ended = False
        self._told: dict[int, list[str]] = {}
        self._begun: set[int] = set()

    def add(self, event: Any) -> StreamChunk | None:
        """Take an event; returns what it tells a reader, if anything."""
        kind = getattr(event, "type", None)
        index = counted(getattr(event, "output_index", None))
        if kind in ("response.completed", "response.incomplete"):
            response = getattr(event, "response", None)
            self.ended = True
            self.id = words(getattr(response, "id", None))
            self.model = words(getattr(response, "model", None))
            usage = usage_of(getattr(response, "usage", None))
            return StreamChunk(usage=usage, finish_reason=finish_of(response, self.said))
        if kind == "response.output_item.added":
            return self._begin(index, getattr(event, "item", None))
        if kind == "response.output_item.done":
            return self._end(index, getattr(event, "item", None))
        if kind == "response.reasoning_summary_part.added":
            later = counted(getattr(event, "summary_index", None)) > 0
            return self._piece(index, "reasoning", "\n\n") if later else None
        delta = words(getattr(event, "delta", None))
        return self._piece(index, _DELTAS[kind], delta) if kind in _DELTAS else None

    def _piece(self, index: int, kind: str, text: str) -> StreamChunk:
        self._told.setdefault(index, []).append(text)
        if kind == "function_call":
            return StreamChunk(tool_call_deltas=[ToolCallDelta(index=index, arguments=text)])
        return StreamChunk(thinking=text) if kind == "reasoning" else StreamChunk(delta=text)

    def _begin(self, index: int, item: Any, arguments: str = "") -> StreamChunk | None:
        if getattr(item, "type", None) != "function_call":
            return None
        self._begun.add(index)
        call = call_of(item)
        piece = ToolCallDelta(index=index, id=call.id, name=call.name, arguments=arguments)
        return StreamChunk(tool_call_deltas=[piece])

    def _end(self, index: int, item: Any) -> StreamChunk | None:
        whole, told = self.said.take(item), "".join(self._told.get(index, ()))
        # a server may tell an item, or its end, at once
        rest = whole[len(told) :] if whole.startswith(told) else ""
        if index not in self._begun and (chunk := self._begin(index, item, rest)) is not None:
            return chunk
        return self._piece(index, item.type, rest) if rest else None
