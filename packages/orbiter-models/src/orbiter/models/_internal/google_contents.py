"""Messages as Gemini's contents."""

from typing import Any

from orbiter.additions import parted
from orbiter.models._internal.arguments import arguments_object
from orbiter.models._internal.files import media_type, parts_of
from orbiter.models._internal.replies import said
from orbiter.models._internal.settings import Refuse
from orbiter.parts import DocumentPart, ImagePart, Part, TextPart, ThinkingPart
from orbiter.types import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)

VENDOR = "google"

Wire = dict[str, Any]


def to_wire(messages: list[Message], refuse: Refuse) -> tuple[str, list[Wire]]:
    """Write a conversation as the API takes it.

    Returns:
        The system instruction, and contents whose roles alternate.

    Raises:
        ModelError: A part of a message is of a kind that the API does not take.
    """
    system: list[str] = []
    wire: list[Wire] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            system.append(message.content)
            continue
        role = "model" if isinstance(message, AssistantMessage) else "user"
        parts = _parts(message, refuse)
        if wire and wire[-1]["role"] == role:
            wire[-1]["parts"].extend(parts)
        elif parts:
            wire.append({"role": role, "parts": parts})
    return "\n\n".join(system), wire


def _parts(message: Message, refuse: Refuse) -> list[Wire]:
    if isinstance(message, ToolResult):
        word, text = "output", message.content
        if message.error is not None:
            word, text = "error", message.error
        said, added = parted(text)
        result = {"name": message.tool_name, "response": {word: said}}
        files = [_part(part, refuse) for part in message.parts]
        return [{"function_response": result}, *files, *([{"text": added}] if added else [])]
    if isinstance(message, AssistantMessage):
        return _reply(message)
    if isinstance(message, UserMessage) and message.parts:
        return [_part(part, refuse) for part in parts_of(message)]
    return [{"text": message.content}] if message.content else []


def _part(part: Part, refuse: Refuse) -> Wire:
    if isinstance(part, TextPart):
        return {"text": part.text}
    if part.url is not None:
        return _linked(part, refuse)
    kind = media_type(part, "Google", refuse)
    kind = "text/plain" if kind.startswith("text/") else kind
    return {"inline_data": {"mime_type": kind, "data": part.base64}}


def _linked(part: ImagePart | DocumentPart, refuse: Refuse) -> Wire:
    if part.media_type is None:
        raise refuse(f"Google takes no file without its type ({part.url}): give media_type=, too")
    return {"file_data": {"file_uri": part.url, "mime_type": part.media_type}}


def _reply(message: AssistantMessage) -> list[Wire]:
    wire: list[Wire] = []
    signature: str | None = None
    for part in said(message):
        if isinstance(part, ThinkingPart):
            # a signature belongs to the part behind it; thoughts themselves are not asked back
            signature = part.signature if part.vendor == VENDOR else None
            continue
        one: Wire | None = None
        if isinstance(part, ToolCall):
            one = _call(part)
        elif isinstance(part, TextPart):
            one = {"text": part.text} if part.text or signature else None
        elif part is not None and part.vendor == VENDOR:
            one = part.data
        if one is not None:
            wire.append(one | ({"thought_signature": signature} if signature else {}))
        signature = None
    return wire


def _call(call: ToolCall) -> Wire:
    return {"function_call": {"name": call.name, "args": arguments_object(call.arguments)}}
