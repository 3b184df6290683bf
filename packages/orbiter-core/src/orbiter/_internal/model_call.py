"""Calls the model once: in one piece, or piece by piece when somebody listens to the run."""

import inspect
from collections.abc import AsyncIterator
from contextlib import aclosing, nullcontext
from typing import Any

from orbiter._internal.call_settings import apply, choose_own, shown
from orbiter._internal.state import RunState
from orbiter._internal.turn import Turn
from orbiter.config import DEFAULT_TEMPERATURE
from orbiter.observer import Scope
from orbiter.parts import ReplyPart, ThinkingPart
from orbiter.protocols import ModelReply, Provider, ReplyChunk, ToolCallPiece
from orbiter.types import (
    AssistantMessage,
    Message,
    TextEvent,
    ThinkingEvent,
    ToolCall,
    Usage,
)


class _Collected:
    """A streamed reply put together."""

    def __init__(self) -> None:
        self.content = ""
        self.usage = Usage()
        self.finish_reason: str | None = None
        self.parts: tuple[ReplyPart, ...] = ()
        self.id = self.model = self.provider = ""
        self._pieces: dict[int, dict[str, str]] = {}

    @property
    def tool_calls(self) -> list[ToolCall]:
        return [ToolCall(**call) for _, call in sorted(self._pieces.items())]

    def add(self, chunk: ReplyChunk) -> None:
        self.content += chunk.delta
        self.usage += chunk.usage
        self.finish_reason = getattr(chunk, "finish_reason", None) or self.finish_reason
        self.parts += getattr(chunk, "parts", ())
        self.id = getattr(chunk, "id", "") or self.id
        self.model = getattr(chunk, "model", "") or self.model
        self.provider = getattr(chunk, "provider", "") or self.provider
        for piece in chunk.tool_call_deltas:
            self._add_piece(piece)

    def _add_piece(self, piece: ToolCallPiece) -> None:
        call = self._pieces.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
        call["id"] = call["id"] or piece.id or ""
        call["name"] = call["name"] or piece.name or ""
        call["arguments"] += piece.arguments


async def completed(
    provider: Provider, messages: list[Message], options: dict[str, Any], state: RunState
) -> ModelReply:
    """Let the model answer in one piece; what a failed call had used counts in the run."""
    try:
        return await provider.complete(messages, **options)
    except Exception as error:
        if isinstance(paid := getattr(error, "paid", None), Usage):
            state.count(paid)
        raise


async def call_model(turn: Turn, messages: list[Message], scope: Scope | None = None) -> ModelReply:
    """Send `messages` to the turn's model and return its reply; text goes to the listener."""
    agent, provider = turn.agent, turn.provider
    temperature = agent.temperature
    options: dict[str, Any] = {
        "tools": turn.plan.schemas,
        "temperature": None if temperature is DEFAULT_TEMPERATURE else temperature,
        "max_tokens": agent.max_tokens,
    }
    settings = turn.settings
    if turn.once is not None:
        settings = turn.once if settings is None else settings.merged(turn.once)
    if settings is not None:
        apply(settings, options, provider, agent.name)
    if turn.answer_tool is not None:
        choose_own(options, turn.answer_tool)
    if agent.output_schema is not None and turn.held_to_schema:
        options["output_schema"] = agent.output_schema
    if scope is not None:
        scope.asked_with(shown(options))
    emit = turn.state.emit
    if emit is None:
        return await completed(provider, messages, options, turn.state)
    if not hasattr(provider, "stream"):
        reply = await completed(provider, messages, options, turn.state)
        for part in getattr(reply, "parts", ()):
            if isinstance(part, ThinkingPart) and part.text:
                await emit(ThinkingEvent(text=part.text, agent_name=agent.name))
        if reply.content:
            await emit(TextEvent(text=reply.content, agent_name=agent.name))
        return reply
    collected = _Collected()
    chunks: Any = provider.stream(messages, **options)
    if inspect.isawaitable(chunks):
        chunks = await chunks
    stream: AsyncIterator[ReplyChunk] = chunks
    try:
        async with aclosing(chunks) if hasattr(chunks, "aclose") else nullcontext():
            async for chunk in stream:
                collected.add(chunk)
                thought = getattr(chunk, "thinking", "")
                if thought:
                    await emit(ThinkingEvent(text=thought, agent_name=agent.name))
                if chunk.delta:
                    await emit(TextEvent(text=chunk.delta, agent_name=agent.name))
    except Exception:
        # what was said was seen, and what it took is paid for
        turn.state.count(collected.usage)
        if collected.content:
            turn.add(AssistantMessage(content=collected.content))
        raise
    return collected
