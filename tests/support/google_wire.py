"""Google's API for the local server: requests and answers, both held against the SDK's types."""

import base64
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

_PARTS = {
    "contents": "Content",
    "systemInstruction": "Content",
    "tools": "Tool",
    "toolConfig": "ToolConfig",
    "generationConfig": "GenerationConfig",
}


def check_types(body: dict[str, Any]) -> None:
    """Compare a request with the SDK's types, which know no other fields.

    Raises:
        AssertionError: A field is not known or of another type.
    """
    from google.genai import types

    unknown = body.keys() - _PARTS.keys()
    assert not unknown, f"fields {sorted(unknown)} are not known"
    for name, value in body.items():
        kind = getattr(types, _PARTS[name])
        for one in value if isinstance(value, list) else [value]:
            kind.model_validate(one)


# all that the API says it reads of a JSON schema
_OF_SCHEMAS = frozenset({
    "$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items",
    "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties",
    "additionalProperties", "required", "propertyOrdering",
})  # fmt: skip


def _check_schema(schema: Any) -> None:
    assert not (unknown := schema.keys() - _OF_SCHEMAS), f"schema: {sorted(unknown)} not supported"
    assert "$ref" not in schema or all(name[0] == "$" for name in schema), "$ref stands alone"
    assert all(isinstance(value, str | int | float) for value in schema.get("enum", ()))
    for name, value in schema.items():
        if name in ("properties", "$defs"):
            parts = list(value.values())
        elif name in ("anyOf", "oneOf", "prefixItems"):
            parts = value
        else:
            parts = [value] if name in ("items", "additionalProperties") else []
        for part in parts:
            if not isinstance(part, bool):
                _check_schema(part)


def check_google(body: dict[str, Any]) -> None:
    """Refuse what the API refuses."""
    generation = body.get("generationConfig", {})
    if generation.get("responseMimeType") == "application/json":
        assert not body.get("tools"), "Function calling with application/json is unsupported"
    if "responseJsonSchema" in generation:
        assert generation.get("responseMimeType") == "application/json"
        _check_schema(generation["responseJsonSchema"])
    roles = [content["role"] for content in body["contents"]]
    assert roles[0] == "user", "first content must be the user's"
    assert all(a != b for a, b in pairwise(roles)), "roles must alternate"
    asked: list[str] = []
    for content in body["contents"]:
        parts = content["parts"]
        assert all(parts), "a part must have data"
        answered = [
            part["functionResponse"]["name"] for part in parts if "functionResponse" in part
        ]
        assert answered == asked, f"calls {asked} have the responses {answered}"
        calls = [part for part in parts if "functionCall" in part]
        for part in calls:
            said = part.get("thoughtSignature")
            assert said in (None, _signature(part["functionCall"]["name"])), "invalid signature"
        asked = [part["functionCall"]["name"] for part in calls]
    assert not asked, f"calls without responses: {asked}"


def _signature(name: str) -> str:
    return base64.b64encode(f"thought of {name}".encode()).decode()


def _usage(answer: Any) -> dict[str, int]:
    told = {
        "promptTokenCount": answer.input_tokens,
        "candidatesTokenCount": answer.output_tokens - answer.thinking_tokens,
        "thoughtsTokenCount": answer.thinking_tokens,
        "cachedContentTokenCount": answer.cached_tokens,
    }
    told["totalTokenCount"] = answer.input_tokens + answer.output_tokens
    return {name: value for name, value in told.items() if value}


def _calls(answer: Any) -> list[dict[str, Any]]:
    parts = []
    for _, name, arguments in answer.calls:
        part: dict[str, Any] = {"functionCall": {"name": name, "args": arguments}}
        if answer.thinking:
            part["thoughtSignature"] = _signature(name)
        parts.append(part)
    return parts


def _response(
    answer: Any, body: dict[str, Any], parts: list[dict[str, Any]], finish: str = ""
) -> dict[str, Any]:
    from google.genai import types

    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    found = {
        "candidates": [candidate],
        "modelVersion": body["model"],
        "responseId": "answer_1",
    }
    if finish:
        found["usageMetadata"] = _usage(answer)
    types.GenerateContentResponse.model_validate(found)
    return found


def google_whole(answer: Any, body: dict[str, Any]) -> dict[str, Any]:
    """Write the answer in one piece."""
    thoughts = [{"text": answer.thinking, "thought": True}] if answer.thinking else []
    words = [{"text": answer.text}] if answer.text else []
    parts = [*thoughts, *words, *_calls(answer)]
    if answer.finish == "blocked":
        return {"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": body["model"]}
    return _response(answer, body, parts, answer.finish or "STOP")


def google_events(answer: Any, body: dict[str, Any]) -> Iterator[str]:
    """Write the answer as a stream."""

    def event(found: dict[str, Any]) -> str:
        return f"data: {json.dumps(found)}\r\n\r\n"

    if answer.finish == "blocked":
        yield event(google_whole(answer, body))
        return
    if answer.error:
        failure = {"code": 503, "message": "not now", "status": answer.error}
        yield event({"error": failure})
        return
    for text, more in ((answer.thinking, {"thought": True}), (answer.text, {})):
        for start in range(0, len(text), 4):
            yield event(_response(answer, body, [{"text": text[start : start + 4], **more}]))
    if answer.breaks_off or answer.ends_early:
        return
    yield event(_response(answer, body, [*_calls(answer)], answer.finish or "STOP"))


def camel(value: Any) -> Any:
    """Write fields as the API does: the SDK leaves some in Python's form, which it takes too."""
    if isinstance(value, list):
        return [camel(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {re.sub("_([a-z])", lambda m: m[1].upper(), k): camel(v) for k, v in value.items()}
