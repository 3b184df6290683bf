"""Messages as chat completions take them."""

from typing import Any

from orbiter.models._internal.files import PDF, media_type, parts_of, text_of
from orbiter.models._internal.server import THOUGHTS, ModelServer, call_id
from orbiter.models._internal.settings import Refuse
from orbiter.parts import (
    DocumentPart,
    Part,
    ReplyPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from orbiter.types import AssistantMessage, Message, ToolResult, UserMessage

_VENDOR = "openai:"

Wire = dict[str, Any]


def to_wire(messages: list[Message], refuse: Refuse, server: ModelServer) -> list[Wire]:
    """Write a conversation.

    Args:
        messages: The conversation.
        refuse: Builds the error that names the model.
        server: Who is asked. It may want the thoughts of the turn that goes on, by the name they
            were told with.

    Raises:
        ModelError: A part of a message is of a kind that the API does not take.
    """
    users = (n for n, m in enumerate(messages) if isinstance(m, UserMessage))
    turn = max(users, default=-1)
    wire: list[Wire] = []
    shown: list[Wire] = []
    for number, message in enumerate(messages):
        if shown and not isinstance(message, ToolResult):
            wire.append({"role": "user", "content": shown})
            shown = []
        one = _message(message, refuse, server)
        if isinstance(message, AssistantMessage) and number > turn:
            thoughts = _thoughts(message)
            one |= {field: thoughts[field] for field in server.thoughts if field in thoughts}
        wire.append(one)
        if isinstance(message, ToolResult) and message.parts:
            # a tool's message is text alone: the rest comes behind the results, as the user's
            note = f"Of the result of {message.tool_name} ({message.tool_call_id}):"
            shown += [_text(note), *(_part(part, refuse) for part in message.parts)]
    return [*wire, {"role": "user", "content": shown}] if shown else wire


def _message(message: Message, refuse: Refuse, server: ModelServer) -> Wire:
    if isinstance(message, ToolResult):
        return {
            "role": "tool",
            "tool_call_id": call_id(server, message.tool_call_id),
            "content": message.content if message.error is None else f"Error: {message.error}",
        }
    wire: Wire = {"role": message.role, "content": message.content}
    if isinstance(message, UserMessage) and message.parts:
        wire["content"] = [_part(part, refuse) for part in parts_of(message)]
    if isinstance(message, AssistantMessage) and message.tool_calls:
        wire["content"] = message.content or None
        wire["tool_calls"] = [
            {
                "id": call_id(server, call.id),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments or "{}"},
            }
            for call in message.tool_calls
        ]
    return wire


def _text(text: str) -> Wire:
    return {"type": "text", "text": text}


def _part(part: Part, refuse: Refuse) -> Wire:
    if isinstance(part, TextPart):
        return _text(part.text)
    if isinstance(part, DocumentPart):
        return _document(part, refuse)
    url = part.url or f"data:{media_type(part, 'OpenAI', refuse)};base64,{part.base64}"
    return {"type": "image_url", "image_url": {"url": url}}


def _document(part: DocumentPart, refuse: Refuse) -> Wire:
    if part.url is not None:
        raise refuse(
            f"chat completions take no document by its URL ({part.url}): give its bytes as data="
        )
    if media_type(part, "OpenAI", refuse) != PDF:
        heading = f"{part.name}:\n" if part.name else ""
        return _text(heading + text_of(part, refuse))
    data = f"data:{PDF};base64,{part.base64}"
    return {"type": "file", "file": {"filename": part.name or "document.pdf", "file_data": data}}


def _thoughts(message: AssistantMessage) -> Wire:
    found: Wire = {}
    for part in message.parts:
        if isinstance(part, ThinkingPart) and part.vendor.startswith(_VENDOR):
            field = part.vendor.removeprefix(_VENDOR)
            found[field] = found.get(field, "") + part.text
    return found


class Thoughts:
    """What a compatible server tells of a model's thoughts."""

    def __init__(self) -> None:
        self.text = ""
        self._field = ""

    def add(self, told: Any) -> str:
        """Take a message or a piece of one; returns what it has of thoughts."""
        for field in THOUGHTS:
            piece = getattr(told, field, None)
            if isinstance(piece, str) and piece:
                self._field = field
                self.text += piece
                return piece
        pieces = getattr(told, "content", None)
        if not isinstance(pieces, list):
            return ""
        # Mistral's thoughts are pieces of the content
        found = [text for p in pieces if p.get("type") == "thinking" for text in p["thinking"]]
        piece = "".join(text.get("text", "") for text in found)
        self._field = "thinking" if piece else self._field
        self.text += piece
        return piece

    def parts(self, content: str, calls: int) -> tuple[ReplyPart, ...]:
        """Return all that was said, if there were thoughts."""
        if not self.text:
            return ()
        thought = ThinkingPart(text=self.text, vendor=_VENDOR + self._field)
        words = (TextPart(text=content),) if content else ()
        return (thought, *words, *(ToolCallPart(index=n) for n in range(calls)))
