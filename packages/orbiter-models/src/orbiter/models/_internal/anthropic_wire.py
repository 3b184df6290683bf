"""Anthropic's messages, as the API writes them."""

import json
from typing import Any

from orbiter.models.types import FinishReason, StreamChunk, ToolCallDelta
from orbiter.types import AssistantMessage, Message, SystemMessage, ToolResult

FINISH: dict[str | None, FinishReason] = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "incomplete",
}


def to_wire(messages: list[Message]) -> tuple[str, list[dict[str, Any]]]:
    """Write a conversation as the API takes it.

    Returns:
        The system prompt, and messages whose roles alternate, beginning with the user's.
    """
    system: list[str] = []
    wire: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            system.append(message.content)
            continue
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message)
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"].extend(blocks)
        elif blocks:
            wire.append({"role": role, "content": blocks})
    if wire and wire[0]["role"] == "assistant":
        wire.insert(0, {"role": "user", "content": [_text("(The conversation goes on.)")]})
    return "\n\n".join(system), wire


def _blocks(message: Message) -> list[dict[str, Any]]:
    if isinstance(message, ToolResult):
        block: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id,
            "content": message.content if message.error is None else message.error,
        }
        return [block if message.error is None else block | {"is_error": True}]
    # the API refuses empty text
    blocks = [_text(message.content)] if message.content else []
    if isinstance(message, AssistantMessage):
        blocks += [
            {
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": _object(call.arguments),
            }
            for call in message.tool_calls
        ]
    return blocks


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _object(arguments: str) -> dict[str, Any]:
    """Read arguments for the API, which takes nothing but objects; others are shown as text."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"invalid": arguments}


def chunk_of(event: Any) -> StreamChunk | None:
    if event.type == "content_block_start" and event.content_block.type == "tool_use":
        block = event.content_block
        piece = ToolCallDelta(index=event.index, id=block.id, name=block.name)
        return StreamChunk(tool_call_deltas=[piece])
    if event.type != "content_block_delta":
        return None
    if event.delta.type == "text_delta":
        return StreamChunk(delta=event.delta.text)
    if event.delta.type == "input_json_delta":
        piece = ToolCallDelta(index=event.index, arguments=event.delta.partial_json)
        return StreamChunk(tool_call_deltas=[piece])
    return None
