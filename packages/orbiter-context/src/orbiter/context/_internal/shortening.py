"""What a model sees of a message that has become too large: its beginning, and where the rest is.

Whatever is taken out is put in a safe place first, and a message stays of its kind: a result
answers its call, arguments stay an object of JSON.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from orbiter.parts import Part, TextPart
from orbiter.types import AssistantMessage, Message, ToolCall, ToolResult, UserMessage

LARGE_CHARS = 2_000
ARGUMENT_CHARS = 200
# Six times as many in JSON at worst, and still not large.
NOTE_CHARS = 300

Store = Callable[[str], Awaitable[str]]


async def shortened(message: Message, store: Store) -> Message:
    """Return what stands for a result, or for a message whose calls have large arguments.

    Args:
        message: Any message; one without anything large comes back as it is.
        store: Puts a text in a safe place and returns what stands for it.
    """
    if isinstance(message, ToolResult):
        return await _short_result(message, store)
    if isinstance(message, AssistantMessage):
        calls = [await _short_call(call, store) for call in message.tool_calls]
        if any(new is not old for new, old in zip(calls, message.tool_calls, strict=True)):
            return message.model_copy(update={"tool_calls": calls})
    return message


async def shortened_words(message: Message, store: Store) -> Message:
    """Return what stands for a large message of the user's or the model's own; no files are left.

    Args:
        message: Any message; one without anything large comes back as it is.
        store: Puts a text in a safe place and returns what stands for it.
    """
    if not isinstance(message, (UserMessage, AssistantMessage)):
        return message
    update: dict[str, Any] = {}
    if len(message.content) > LARGE_CHARS:
        update["content"] = await store(message.content)
    if isinstance(message, UserMessage) and message.parts:
        words = update.get("content", message.content)
        update |= {"content": words + _left_out(message.parts), "parts": ()}
    return message.model_copy(update=update) if update else message


async def _short_result(result: ToolResult, store: Store) -> ToolResult:
    update: dict[str, Any] = {}
    if len(result.content) > LARGE_CHARS:
        update["content"] = await store(result.content)
    if result.error is not None and len(result.error) > LARGE_CHARS:
        update["error"] = await store(result.error)
    if result.parts:
        words = update.get("content", result.content)
        update |= {"content": words + _left_out(result.parts), "parts": ()}
    return result.model_copy(update=update) if update else result


async def _short_call(call: ToolCall, store: Store) -> ToolCall:
    if len(call.arguments) <= LARGE_CHARS:
        return call
    note = await store(call.arguments)
    try:
        given = json.loads(call.arguments)
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, dict):
        kept = {name: _beginning(value) for name, value in given.items()}
        text = _json(kept | {"_shortened": note[:NOTE_CHARS]})
        if len(text) <= LARGE_CHARS:
            return call.model_copy(update={"arguments": text})
    return call.model_copy(update={"arguments": _json({"_shortened": note[:NOTE_CHARS]})})


def _beginning(value: Any) -> Any:
    if isinstance(value, (int, float)) or value is None:
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= ARGUMENT_CHARS:
        return value
    return f"{text[:ARGUMENT_CHARS]}… [{len(text)} characters]"


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _left_out(parts: tuple[Part, ...]) -> str:
    files = sum(not isinstance(part, TextPart) for part in parts)
    return f"\n[Files that were here and are not shown any more: {files}]" if files else ""
