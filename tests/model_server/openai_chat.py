"""OpenAI's Chat Completions API: what agents other than codex speak to a model of one's own."""

import json
import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from .conversation import Conversation, History, text_of
from .openai_responses import error
from .pacing import pings, wait_out
from .script import Pause, Reply, Text, ToolCall
from .tokens import tokens

__all__ = ["error", "read", "stream", "whole"]


def read(data: Mapping[str, Any], headers: Mapping[str, str], size: int) -> Conversation:
    """Read the body of POST /v1/chat/completions."""
    history = History()
    for message in data.get("messages", ()):
        if message.get("role") == "user":
            history.user(text_of(message.get("content", "")))
        elif message.get("role") == "tool":
            history.tool_output(text_of(message.get("content", "")))
    functions = (tool.get("function", {}) for tool in data.get("tools") or ())
    return Conversation(
        model=str(data.get("model", "")),
        turns=tuple(history.turns),
        tools=tuple(str(function.get("name")) for function in functions),
        session=headers.get("session-id", ""),
        size=size,
    )


def calls_of(reply: Reply) -> list[dict[str, Any]]:
    """Return the tool calls of an answer."""
    return [
        {
            "index": index,
            "id": f"call_{uuid.uuid4().hex[:24]}",
            "type": "function",
            "function": {"name": part.name, "arguments": json.dumps(part.arguments)},
        }
        for index, part in enumerate(p for p in reply.parts if isinstance(p, ToolCall))
    ]


def envelope(conversation: Conversation, kind: str, choice: Mapping[str, object]) -> dict[str, Any]:
    """Return a completion or one chunk of it."""
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": conversation.model,
        "choices": [{"index": 0, **choice}],
    }


def finish_reason(reply: Reply) -> str:
    """Return why the answer ends."""
    return "tool_calls" if reply.calls else "stop"


def usage(conversation: Conversation, reply: Reply) -> dict[str, int]:
    """Return the token counts in the API's words."""
    sent, answered = tokens(conversation, reply)
    return {
        "prompt_tokens": sent,
        "completion_tokens": answered,
        "total_tokens": sent + answered,
    }


async def whole(conversation: Conversation, reply: Reply) -> dict[str, Any]:
    """Return the answer in one piece, after its pauses."""
    await wait_out(reply)
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = calls_of(reply)
    choice = {"message": message, "finish_reason": finish_reason(reply)}
    return envelope(conversation, "chat.completion", choice) | {"usage": usage(conversation, reply)}


async def stream(conversation: Conversation, reply: Reply) -> AsyncGenerator[str, None]:
    """Yield the answer as chunks, the usage with the last one."""
    identity = f"chatcmpl-{uuid.uuid4().hex}"

    def chunk(delta: Mapping[str, object], reason: str | None = None, **more: object) -> str:
        choice = {"delta": delta, "finish_reason": reason}
        body = envelope(conversation, "chat.completion.chunk", choice) | {"id": identity} | more
        return f"data: {json.dumps(body)}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    for part in reply.parts:
        if isinstance(part, Text):
            yield chunk({"content": part.text})
        elif isinstance(part, Pause):
            async for _ in pings(part.seconds):
                yield ": ping\n\n"
    if reply.calls:
        yield chunk({"tool_calls": calls_of(reply)})
    yield chunk({}, finish_reason(reply), usage=usage(conversation, reply))
    yield "data: [DONE]\n\n"
