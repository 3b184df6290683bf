"""Google's Gemini API: `generateContent` and `streamGenerateContent`, as the real gemini CLI asks.

The model's name is in the path there, and so is whether the answer is streamed: `of_path` reads
both. Answers are held against google-genai's types in test_model_server_google.py.
"""

import json
import re
import uuid
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from .conversation import Conversation, History
from .pacing import pings, wait_out
from .script import Pause, Reply, Text, ToolCall
from .tokens import tokens

PATH = re.compile(
    r"/v1(?:beta|alpha)?/models/(?P<model>[^/:]+)"
    r":(?P<verb>generateContent|streamGenerateContent|countTokens)"
)
PRINTED = re.compile(
    r"(?:\A|\n)Output: (?P<printed>.*?)"
    r"(?=\n(?:Error|Exit Code|Signal|Background PIDs|Process Group PGID): |\n</untrusted|\Z)",
    re.DOTALL,
)
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def of_path(path: str) -> tuple[str, str] | None:
    """Return the model and the verb that a path names; None when it is none of this API."""
    found = PATH.fullmatch(path)
    return (found["model"], found["verb"]) if found else None


def read(data: Mapping[str, Any], headers: Mapping[str, str], size: int) -> Conversation:
    """Read a body of this API, to which the server has added the model's name.

    What is asked without a tool, or for JSON, is asked beside the conversation: which model suits
    the prompt, and the like.
    """
    history = History()
    for content in data.get("contents", ()):
        if content.get("role", "user") != "user":
            continue
        for part in content.get("parts", ()):
            if "functionResponse" in part:
                history.tool_output(output_of(part["functionResponse"].get("response")))
            elif isinstance(part.get("text"), str):
                history.user(part["text"])
    declared = [
        function
        for tool in data.get("tools") or ()
        for function in tool.get("functionDeclarations") or ()
    ]
    wants_json = (data.get("generationConfig") or {}).get("responseMimeType") == "application/json"
    from_cli = headers.get("user-agent", "").startswith("GeminiCLI")
    return Conversation(
        model=str(data.get("model", "")),
        turns=tuple(history.turns),
        tools=tuple(str(function.get("name")) for function in declared),
        auxiliary=from_cli and (wants_json or not declared),
        size=size,
    )


def output_of(response: object) -> str:
    """Return what a tool printed; the CLI's shell tool puts lines of its own around it."""
    if not isinstance(response, dict):
        return ""
    said = str(response.get("output", response.get("error", "")))
    found = PRINTED.search(said)
    return found["printed"] if found else said


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error answer."""
    kind = STATUSES.get(status, "UNKNOWN")
    return {"error": {"code": status, "message": message, "status": kind}}


def usage(conversation: Conversation, reply: Reply) -> dict[str, int]:
    """Return the token counts in the API's words."""
    sent, answered = tokens(conversation, reply)
    return {
        "promptTokenCount": sent,
        "candidatesTokenCount": answered,
        "totalTokenCount": sent + answered,
    }


def call(part: ToolCall) -> dict[str, Any]:
    """Return a part that calls a tool."""
    arguments = part.arguments if isinstance(part.arguments, dict) else {"input": part.arguments}
    return {"functionCall": {"name": part.name, "args": arguments}}


def response(
    conversation: Conversation, parts: list[dict[str, Any]], reply: Reply | None = None
) -> dict[str, Any]:
    """Return an answer or a piece of one; with a `reply` it is the whole or the last."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    body: dict[str, Any] = {"candidates": [candidate], "modelVersion": conversation.model}
    body["responseId"] = uuid.uuid4().hex[:22]
    if reply is not None:
        candidate["finishReason"] = "STOP"
        body["usageMetadata"] = usage(conversation, reply)
    return body


async def whole(conversation: Conversation, reply: Reply) -> dict[str, Any]:
    """Return the answer in one piece, after its pauses."""
    await wait_out(reply)
    words = [{"text": reply.text}] if reply.text else []
    calls = [call(part) for part in reply.parts if isinstance(part, ToolCall)]
    return response(conversation, [*words, *calls], reply)


async def stream(conversation: Conversation, reply: Reply) -> AsyncGenerator[str, None]:
    """Yield the answer as server-sent events, the usage with the last one."""

    def event(body: dict[str, Any]) -> str:
        return f"data: {json.dumps(body)}\r\n\r\n"

    for part in reply.parts:
        if isinstance(part, Pause):
            async for _ in pings(part.seconds):
                yield ": ping\r\n\r\n"
        elif isinstance(part, Text):
            yield event(response(conversation, [{"text": part.text}]))
    calls = [call(part) for part in reply.parts if isinstance(part, ToolCall)]
    yield event(response(conversation, calls or [{"text": ""}], reply))
