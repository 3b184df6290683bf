"""Messages as Anthropic's content blocks, and its blocks as what a model said."""

from typing import Any

from orbiter.additions import parted
from orbiter.models._internal.arguments import arguments_object
from orbiter.models._internal.files import PDF, media_type, parts_of, text_of
from orbiter.models._internal.replies import said
from orbiter.models._internal.settings import Refuse
from orbiter.models.types import StreamChunk, ToolCallDelta
from orbiter.parts import (
    DocumentPart,
    ImagePart,
    OpaquePart,
    Part,
    ReplyPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from orbiter.types import AssistantMessage, Message, ToolCall, ToolResult, UserMessage

VENDOR = "anthropic"
_PLAIN = frozenset({"text", "tool_use"})

Block = dict[str, Any]


def blocks_of(message: Message, refuse: Refuse) -> list[Block]:
    """Write a message, which is no system message, as blocks; the API refuses empty text.

    Raises:
        ModelError: A part is of a kind that the API does not take.
    """
    if isinstance(message, ToolResult):
        said, added = parted(message.content if message.error is None else message.error)
        return [_result(message, said, refuse), *([text_block(added)] if added else [])]
    if isinstance(message, UserMessage) and message.parts:
        return [_part(part, refuse) for part in parts_of(message) if not _is_empty(part)]
    if isinstance(message, AssistantMessage):
        return _reply(message)
    return [text_block(text) for text in parted(message.content) if text]


def _result(message: ToolResult, content: Any, refuse: Refuse) -> Block:
    if message.parts:
        words = [text_block(content)] if content else []
        content = [*words, *(_part(part, refuse) for part in message.parts)]
    block: Block = {
        "type": "tool_result",
        "tool_use_id": message.tool_call_id,
        "content": content,
    }
    return block if message.error is None else block | {"is_error": True}


def _is_empty(part: Part) -> bool:
    return isinstance(part, TextPart) and not part.text


def _part(part: Part, refuse: Refuse) -> Block:
    if isinstance(part, TextPart):
        return text_block(part.text)
    block: Block = {"type": part.type}
    if part.url is not None:
        block["source"] = {"type": "url", "url": part.url}
    else:
        kind = media_type(part, "Anthropic", refuse)
        block["source"] = {"type": "base64", "media_type": kind, "data": part.base64}
        if isinstance(part, DocumentPart) and kind != PDF:
            words = text_of(part, refuse)
            block["source"] = {"type": "text", "media_type": "text/plain", "data": words}
    if not isinstance(part, ImagePart) and part.name:
        block["title"] = part.name
    return block


def _reply(message: AssistantMessage) -> list[Block]:
    blocks: list[Block] = []
    for one in said(message):
        if isinstance(one, ToolCall):
            blocks.append(_call(one))
        elif isinstance(one, TextPart):
            blocks += [text_block(one.text)] if one.text else []
        elif one is None or one.vendor != VENDOR:
            continue
        elif isinstance(one, OpaquePart):
            blocks.append(one.data)
        elif one.signature:
            # what another vendor thought has no signature that this one knows
            blocks.append({"type": "thinking", "thinking": one.text, "signature": one.signature})
    return blocks


def _call(call: ToolCall) -> Block:
    return {
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
        "input": arguments_object(call.arguments),
    }


def text_block(text: str) -> Block:
    """Write text."""
    return {"type": "text", "text": text}


def reply_parts(blocks: list[Block]) -> tuple[ReplyPart, ...]:
    """Return what a model said in its order; nothing when it is text and calls."""
    if all(block["type"] in _PLAIN for block in blocks):
        return ()
    parts: list[ReplyPart] = []
    calls = 0
    for block in blocks:
        match block["type"]:
            case "text":
                parts.append(TextPart(text=block["text"]))
            case "tool_use":
                parts.append(ToolCallPart(index=calls))
                calls += 1
            case "thinking":
                thought, signature = block.get("thinking", ""), block.get("signature")
                parts.append(ThinkingPart(text=thought, signature=signature, vendor=VENDOR))
            case _:
                # thoughts that only the vendor can read, tools that it runs
                parts.append(OpaquePart(vendor=VENDOR, data=block))
    return tuple(parts)


class Blocks:
    """The blocks of a streamed reply, put together."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._inputs: dict[int, str] = {}
        self._first = 0

    def go_on(self) -> list[Block]:
        """Return the blocks of a reply that pauses; what comes next stands behind them."""
        said = self._said()[self._first :]
        self._first = len(self._blocks)
        return said

    def add(self, event: Any) -> StreamChunk | None:
        """Take an event of a block; returns what it tells a reader, if anything."""
        if event.type == "content_block_start":
            block, index = event.content_block, self._first + event.index
            self._blocks[index] = block.to_dict()
            if block.type == "tool_use":
                piece = ToolCallDelta(index=index, id=block.id, name=block.name)
                return StreamChunk(tool_call_deltas=[piece])
        elif event.type == "content_block_delta":
            return self._delta(self._first + event.index, event.delta)
        return None

    def _delta(self, index: int, delta: Any) -> StreamChunk | None:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        if delta.type == "text_delta":
            block["text"] = block.get("text", "") + delta.text
            return StreamChunk(delta=delta.text)
        if delta.type == "input_json_delta":
            self._inputs[index] = self._inputs.get(index, "") + delta.partial_json
            if block["type"] == "tool_use":
                piece = ToolCallDelta(index=index, arguments=delta.partial_json)
                return StreamChunk(tool_call_deltas=[piece])
        elif delta.type == "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta.thinking
            return StreamChunk(thinking=delta.thinking)
        elif delta.type == "signature_delta":
            block["signature"] = delta.signature
        return None

    @property
    def parts(self) -> tuple[ReplyPart, ...]:
        """All that was said, if it is more than text and calls."""
        return reply_parts(self._said())

    def _said(self) -> list[Block]:
        for index, text in self._inputs.items():
            self._blocks[index]["input"] = arguments_object(text)
        return [block for _, block in sorted(self._blocks.items())]
