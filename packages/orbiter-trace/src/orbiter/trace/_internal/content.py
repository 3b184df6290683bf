"""What was said, as attributes: only for those who asked for it, and never with a key in it."""

import json
import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from orbiter.outputs import as_json
from orbiter.types import AssistantMessage, Message, SystemMessage, ToolCall, ToolResult

BLANK = "[redacted]"
# keys of providers, forges and clouds, bearer tokens, tokens of three base64 parts, private keys,
# passwords in URLs, and values of fields that are named as secrets
_SECRETS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:sk|pk|rk)-[\w-]{12,}"
    r"|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bxox[a-z]-[\w-]{10,}"
    r"|\bA(?:KIA|SIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"
    r"|(?i:(?<=bearer )[\w.~+/=-]{8,})"
    r"|(?i:(?P<name>\b[\w-]*(?:api[_-]?key|password|passwd|secret|access[_-]?token)\\?[\"']?"
    r"\s*[:=]\s*\\?[\"']?)[^\s\"'\\,;}]+)",
    re.DOTALL,
)


def redacted(value: Any) -> str:
    """Return a value as text, without what looks like a key or a password."""
    if isinstance(value, BaseModel):
        value = value.model_dump_json()
    text = (
        value if isinstance(value, str) else json.dumps(value, default=as_json, ensure_ascii=False)
    )
    return _SECRETS.sub(lambda match: (match["name"] or "") + BLANK, text)


def input_attributes(messages: Sequence[Message]) -> dict[str, Any]:
    """Return what a model was shown, in the form of the GenAI conventions."""
    system = [m.content for m in messages if isinstance(m, SystemMessage)]
    rest = [_message(m) for m in messages if not isinstance(m, SystemMessage)]
    parts = [{"type": "text", "content": redacted(text)} for text in system]
    return {
        "gen_ai.system_instructions": _json(parts) if parts else None,
        "gen_ai.input.messages": _json(rest),
    }


def output_attributes(reply: Any) -> dict[str, Any]:
    """Return what a model replied."""
    message: dict[str, Any] = {
        "role": "assistant",
        "parts": _spoken(reply.content, reply.tool_calls),
    }
    reason = getattr(reply, "finish_reason", None)
    if reason:
        message["finish_reason"] = reason
    return {"gen_ai.output.messages": _json([message])}


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, ToolResult):
        response = redacted(message.error or message.content)
        part = {"type": "tool_call_response", "id": message.tool_call_id, "response": response}
        return {"role": "tool", "parts": [part]}
    calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
    return {"role": message.role, "parts": _spoken(message.content, calls)}


def _spoken(text: str, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"type": "text", "content": redacted(text)}] if text else []
    for call in calls:
        part = {"type": "tool_call", "id": call.id, "name": call.name}
        parts.append({**part, "arguments": redacted(call.arguments)})
    return parts


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
