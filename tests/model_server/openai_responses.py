"""OpenAI's Responses API, as far as the real codex CLI needs it.

codex offers its tools in `tools` or, with newer models, in an `additional_tools` item, grouped in
namespaces; its shell is a function (`exec_command`) or a free-form tool that runs a program
(`exec`).
"""

import json
import uuid
from collections.abc import AsyncGenerator, Iterable, Mapping
from itertools import count
from typing import Any

from .conversation import Conversation, History, text_of
from .pacing import pings, wait_out
from .script import Pause, Reply, Text, ToolCall
from .tokens import tokens

OUTPUT_MARK = "\nOutput:\n"


def read(data: Mapping[str, Any], headers: Mapping[str, str], size: int) -> Conversation:
    """Read the body of POST /v1/responses."""
    history = History()
    items: Any = data.get("input", ())
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    tools = list(tool_names(data.get("tools") or ()))
    for item in items:
        kind = item.get("type", "message")
        if kind == "message" and item.get("role") == "user":
            history.user(text_of(item.get("content", "")))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            history.tool_output(tool_output(text_of(item.get("output", ""))))
        elif kind == "additional_tools":
            tools += tool_names(item.get("tools") or ())
    return Conversation(
        model=str(data.get("model", "")),
        turns=tuple(history.turns),
        tools=tuple(tools),
        session=headers.get("session-id", ""),
        size=size,
    )


def tool_names(tools: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Yield the names of the offered tools, those in namespaces too."""
    for tool in tools:
        yield from tool_names(tool.get("tools") or ())
        yield str(tool.get("name", tool.get("type")))


def tool_output(text: str) -> str:
    """Return what a command printed, without codex's account of how it ran."""
    return text.partition(OUTPUT_MARK)[2] if OUTPUT_MARK in text else text


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error answer."""
    return {"error": {"message": message, "type": "scripted_error", "code": str(status)}}


def items_of(reply: Reply) -> list[dict[str, Any]]:
    """Return the output items of a whole answer."""
    items: list[dict[str, Any]] = []
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        items.append(item("message", "msg", role="assistant", content=content))
    return items + [call_of(part) for part in reply.parts if isinstance(part, ToolCall)]


def item(kind: str, prefix: str, **data: object) -> dict[str, Any]:
    """Return one complete output item."""
    return {"type": kind, "id": f"{prefix}_{uuid.uuid4().hex}", "status": "completed", **data}


def call_of(call: ToolCall) -> dict[str, Any]:
    """Return the item of a tool call."""
    identity = f"call_{uuid.uuid4().hex[:24]}"
    # A tool of a namespace has a name of two parts: those of an MCP server, say.
    namespace, _, name = call.name.rpartition(".")
    common = {"call_id": identity, "name": name} | ({"namespace": namespace} if namespace else {})
    if isinstance(call.arguments, str):
        return item("custom_tool_call", "ctc", **common, input=call.arguments)
    return item("function_call", "fc", **common, arguments=json.dumps(call.arguments))


def envelope(
    conversation: Conversation, reply: Reply, status: str, output: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the response object; usage once it is complete."""
    sent, answered = tokens(conversation, reply)
    usage = {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sent + answered,
    }
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "status": status,
        "model": conversation.model,
        "output": output,
        "usage": usage if status == "completed" else None,
    }


async def whole(conversation: Conversation, reply: Reply) -> dict[str, Any]:
    """Return the answer in one piece, after its pauses."""
    await wait_out(reply)
    return envelope(conversation, reply, "completed", items_of(reply))


async def stream(conversation: Conversation, reply: Reply) -> AsyncGenerator[str, None]:
    """Yield the answer as events: the text as it comes, then every item once complete."""
    numbers = count()

    def event(kind: str, **data: object) -> str:
        body = {"type": kind, "sequence_number": next(numbers), **data}
        return f"event: {kind}\ndata: {json.dumps(body)}\n\n"

    started = envelope(conversation, reply, "in_progress", [])
    yield event("response.created", response=started)
    items = items_of(reply)
    for index, output in enumerate(items):
        opening = output | {"status": "in_progress"}
        if output["type"] == "message":
            opening["content"] = []
        yield event("response.output_item.added", output_index=index, item=opening)
        for part in reply.parts if output["type"] == "message" else ():
            if isinstance(part, Pause):
                async for _ in pings(part.seconds):
                    yield ": ping\n\n"
            elif isinstance(part, Text):
                yield event(
                    "response.output_text.delta",
                    item_id=output["id"],
                    output_index=index,
                    content_index=0,
                    delta=part.text,
                )
        yield event("response.output_item.done", output_index=index, item=output)
    if not reply.text:
        await wait_out(reply)
    done = envelope(conversation, reply, "completed", items) | {"id": started["id"]}
    yield event("response.completed", response=done)
