"""What the real APIs of OpenAI and Anthropic refuse, for the server that stands in for them."""

import hashlib
from itertools import pairwise
from typing import Any


def signature(thinking: str) -> str:
    """Sign thoughts: whoever sends them back changed, or not at all, is found out."""
    return hashlib.sha256(b"thoughts:" + thinking.encode()).hexdigest()


def check_openai(body: dict[str, Any]) -> None:
    """Refuse what chat completions refuse."""
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting, "tool message without a call before it"
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, f"tool calls without results: {waiting}"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert not waiting, f"tool calls without results: {waiting}"
    for tool in body.get("tools", ()):
        assert tool["type"] == "function"
        assert tool["function"]["parameters"]["type"] == "object"


def check_anthropic(body: dict[str, Any]) -> None:
    """Refuse what the messages API refuses."""
    assert isinstance(body["max_tokens"], int), "max_tokens: Field required"
    roles = [message["role"] for message in body["messages"]]
    assert roles[0] == "user", "first message must be the user's"
    assert all(a != b for a, b in pairwise(roles)), "roles must alternate"
    asked: list[str] = []
    for message in body["messages"]:
        blocks = message["content"]
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(answered) == sorted(asked), f"tool_use without tool_result: {asked}"
        first = [block["type"] for block in blocks[: len(answered)]]
        assert first == ["tool_result"] * len(answered), "tool results must come first"
        assert all(block.get("text", "x") for block in blocks), "text must be non-empty"
        assert all(isinstance(block.get("input", {}), dict) for block in blocks), "input: object"
        for block in blocks:
            if block["type"] == "thinking":
                assert block["signature"] == signature(block["thinking"]), "invalid signature"
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert not asked, f"tool_use without tool_result: {asked}"
    if body.get("thinking", {}).get("type") == "enabled":
        # of calls that are still being answered; of those before the API asks nothing
        said, began = body["messages"], None
        for asking, told in zip(said[-2::-2], said[::-2], strict=False):
            if not any(block["type"] == "tool_result" for block in told["content"]):
                break
            began = asking["content"][0]["type"]
        assert began is None or began.endswith("thinking"), "thinking must come first"
    for tool in body.get("tools", ()):
        assert tool["input_schema"]["type"] == "object"
