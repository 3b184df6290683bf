"""The Anthropic Messages API: requests into conversations, replies into JSON or events.

Shapes as in the public API reference; checked against the real Claude Code CLI.
"""

import json
import uuid
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from .conversation import Conversation, History, text_of
from .pacing import pings, wait_out
from .script import Pause, Reply, Text, ToolCall
from .tokens import tokens

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def read(data: Mapping[str, Any], headers: Mapping[str, str], size: int) -> Conversation:
    """Read the body of POST /v1/messages.

    The CLI asks for titles and the like without offering a tool: those requests are auxiliary.
    """
    history = History()
    for message in data.get("messages", ()):
        if message.get("role") != "user":
            continue
        content = message.get("content", "")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block.get("type") == "text":
                history.user(block["text"])
            elif block.get("type") == "tool_result":
                history.tool_output(text_of(block.get("content", "")))
    tools = tuple(str(tool.get("name")) for tool in data.get("tools") or ())
    from_cli = headers.get("user-agent", "").startswith("claude-cli")
    return Conversation(
        model=str(data.get("model", "")),
        turns=tuple(history.turns),
        tools=tools,
        session=headers.get("x-claude-code-session-id", ""),
        auxiliary=from_cli and not tools,
        size=size,
    )


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error answer."""
    kind = ERROR_TYPES.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def usage(conversation: Conversation, reply: Reply) -> dict[str, int]:
    """Return the token counts in the API's words."""
    sent, answered = tokens(conversation, reply)
    return {
        "input_tokens": sent,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": answered,
    }


def blocks_of(reply: Reply) -> list[dict[str, Any]]:
    """Return the content blocks of a whole answer."""
    blocks: list[dict[str, Any]] = []
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    calls = (part for part in reply.parts if isinstance(part, ToolCall))
    return blocks + [tool_use(call) | {"input": call.arguments} for call in calls]


def tool_use(call: ToolCall) -> dict[str, Any]:
    """Return the opening of a tool call block."""
    identity = f"toolu_{uuid.uuid4().hex[:24]}"
    return {"type": "tool_use", "id": identity, "name": call.name, "input": {}}


def envelope(conversation: Conversation) -> dict[str, Any]:
    """Return a message without content."""
    return {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": conversation.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def stop_reason(reply: Reply) -> str:
    """Return why the message ends."""
    return "tool_use" if reply.calls else "end_turn"


async def whole(conversation: Conversation, reply: Reply) -> dict[str, Any]:
    """Return the answer in one piece, after its pauses."""
    await wait_out(reply)
    return envelope(conversation) | {
        "content": blocks_of(reply),
        "stop_reason": stop_reason(reply),
        "usage": usage(conversation, reply),
    }


def event(kind: str, **data: object) -> str:
    """Return one server-sent event."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"


async def stream(conversation: Conversation, reply: Reply) -> AsyncGenerator[str, None]:
    """Yield the answer as events; contiguous text is one block, whatever its pieces."""
    counts = usage(conversation, reply)
    start = envelope(conversation) | {"usage": counts | {"output_tokens": 1}}
    yield event("message_start", message=start)
    index = -1
    in_text = False
    for part in reply.parts:
        if isinstance(part, Pause):
            async for _ in pings(part.seconds):
                yield event("ping")
            continue
        if isinstance(part, ToolCall) or not in_text:
            if in_text:
                yield event("content_block_stop", index=index)
            index += 1
            in_text = isinstance(part, Text)
            block = {"type": "text", "text": ""} if isinstance(part, Text) else tool_use(part)
            yield event("content_block_start", index=index, content_block=block)
        if isinstance(part, Text):
            delta = {"type": "text_delta", "text": part.text}
        else:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(part.arguments)}
        yield event("content_block_delta", index=index, delta=delta)
        if isinstance(part, ToolCall):
            yield event("content_block_stop", index=index)
    if in_text:
        yield event("content_block_stop", index=index)
    stop = {"stop_reason": stop_reason(reply), "stop_sequence": None}
    yield event("message_delta", delta=stop, usage=counts)
    yield event("message_stop")
