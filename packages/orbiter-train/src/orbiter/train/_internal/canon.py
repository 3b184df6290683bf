"""The same conversation has the same key, whatever ids its calls have and what was added to it."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from orbiter.additions import without_added
from orbiter.types import AssistantMessage, Message, ToolResult


def key_of(messages: Sequence[Message]) -> str:
    """Return the key of a conversation."""
    key = ""
    for key in keys_of(messages):  # noqa: B007 (the last one is wanted)
        pass
    return key


def keys_of(messages: Sequence[Message]) -> Iterator[str]:
    """Return the key of the conversation up to each message."""
    digest = hashlib.sha256()
    for message in messages:
        digest.update(json.dumps(_plain(without_added(message))).encode() + b"\n")
        yield digest.hexdigest()


def _plain(message: Message) -> list[Any]:
    if isinstance(message, AssistantMessage):
        calls = [[call.name, call.arguments] for call in message.tool_calls]
        return [message.role, message.content, calls]
    if isinstance(message, ToolResult):
        return [message.role, message.tool_name, message.content, message.error]
    return [message.role, message.content]
