"""OpenAI's Responses API for the local server: answers held against the SDK's own models."""

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from typing import Any


def sealed(thinking: str) -> str:
    """Encrypt thoughts: whoever sends back others is found out."""
    return hashlib.sha256(b"sealed:" + thinking.encode()).hexdigest()


def check_responses(body: dict[str, Any]) -> None:
    """Refuse what the API refuses."""
    assert body["store"] is False, "nothing is stored: an item can be named by no id"
    waiting: list[str] = []
    before = None
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "function_call_output":
            assert item["call_id"] in waiting, f"no call {item['call_id']} for this output"
            waiting.remove(item["call_id"])
        elif kind == "function_call":
            waiting.append(item["call_id"])
        elif kind == "reasoning":
            told = "\n\n".join(part["text"] for part in item["summary"])
            assert item["encrypted_content"] == sealed(told), "the encrypted content is another's"
        user = kind == "message" and item["role"] == "user"
        assert not (before == "reasoning" and user), "reasoning without its following item"
        before = kind
    assert before != "reasoning", "reasoning without its following item"
    assert not waiting, f"No tool output found for function call {waiting}"
    for tool in body.get("tools", ()):
        if tool["type"] == "function":
            assert tool["parameters"]["type"] == "object"


def items_of(answer: Any) -> list[dict[str, Any]]:
    """Write what the model says as items."""
    items: list[dict[str, Any]] = []
    if answer.thinking:
        told = answer.thinking.split("\n\n")
        items.append(
            {
                "id": "rs_1",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": text} for text in told],
                "encrypted_content": sealed(answer.thinking),
            }
        )
    items += answer.blocks
    content: list[dict[str, Any]] = []
    if answer.text:
        content.append({"type": "output_text", "text": answer.text, "annotations": []})
    if answer.refusal:
        content.append({"type": "refusal", "refusal": answer.refusal})
    if content:
        message = {"id": "msg_1", "type": "message", "role": "assistant", "content": content}
        message["status"] = "completed"
        if answer.phase:
            message["phase"] = answer.phase
        items.append(message)
    for number, (identity, name, arguments) in enumerate(answer.calls):
        call = {"id": f"fc_{number}", "type": "function_call", "call_id": identity, "name": name}
        items.append({**call, "arguments": json.dumps(arguments), "status": "completed"})
    return items


def _usage(answer: Any) -> dict[str, Any]:
    return {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {
            "cached_tokens": answer.cached_tokens,
            "cache_write_tokens": answer.written_tokens,
        },
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.thinking_tokens},
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }


def responses_whole(answer: Any, body: dict[str, Any]) -> dict[str, Any]:
    """Write the answer in one piece."""
    found: dict[str, Any] = {
        "id": "answer_1",
        "object": "response",
        "created_at": 0,
        "model": body["model"],
        "status": "completed",
        "output": items_of(answer),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _usage(answer),
    }
    if answer.finish:
        found |= {"status": "incomplete", "incomplete_details": {"reason": answer.finish}}
    if answer.error:
        failure = {"code": answer.error, "message": "not now"}
        found |= {"status": "failed", "error": failure, "output": []}
    _models()[0].validate_python(found)
    return found


def responses_events(answer: Any, body: dict[str, Any]) -> Iterator[str]:
    """Write the answer as events."""
    number = 0

    def event(kind: str, **data: Any) -> str:
        nonlocal number
        number += 1
        found = {"type": kind, "sequence_number": number, **data}
        _models()[1].validate_python(found)
        return f"event: {kind}\ndata: {json.dumps(found)}\n\n"

    whole = responses_whole(answer, body)
    start = {**whole, "status": "in_progress", "output": [], "usage": None, "error": None}
    yield event("response.created", response=start)
    if answer.error == "error":
        yield event("error", code="server_error", message="not now", param=None)
        return
    if answer.error:
        yield event("response.failed", response=whole)
        return
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        begun = {**item, "status": "in_progress"}
        for name, empty in (("content", []), ("summary", []), ("arguments", "")):
            begun |= {name: empty} if name in item else {}
        if not answer.silent:
            yield event("response.output_item.added", output_index=index, item=begun)
            yield from (event(kind, **at, **data) for kind, data in _deltas(item))
        if (answer.breaks_off or answer.ends_early == "after text") and item["type"] == "message":
            return
        yield event("response.output_item.done", output_index=index, item=item)
    if answer.ends_early:
        return
    yield event(f"response.{whole['status']}", response=whole)


def _deltas(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, part in enumerate(item.get("summary", ())):
        place = {"summary_index": number}
        empty = {"type": "summary_text", "text": ""}
        yield "response.reasoning_summary_part.added", {**place, "part": empty}
        for piece in _pieces(part["text"]):
            yield "response.reasoning_summary_text.delta", {**place, "delta": piece}
    for number, part in enumerate(item.get("content", ())):
        place = {"content_index": number}
        for piece in _pieces(part.get("text", "")):
            yield "response.output_text.delta", {**place, "delta": piece, "logprobs": []}
        for piece in _pieces(part.get("refusal", "")):
            yield "response.refusal.delta", {**place, "delta": piece}
    if item["type"] == "function_call":
        for piece in _pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {"delta": piece}


def _pieces(text: str) -> list[str]:
    return [text[i : i + 4] for i in range(0, len(text), 4)]


@cache
def _models() -> tuple[Any, Any]:
    from openai.types.responses import Response, ResponseStreamEvent
    from pydantic import TypeAdapter

    return TypeAdapter(Response), TypeAdapter(ResponseStreamEvent)
