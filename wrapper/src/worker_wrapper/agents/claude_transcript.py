"""What Claude Code's stream tells for a transcript. Pure and total."""

from collections.abc import Iterator, Mapping
from typing import Any

from worker_wrapper.agents.base import Heard
from worker_wrapper.agents.decoding import words


def heard(event: Mapping[str, Any]) -> tuple[Heard, ...]:
    """Text and thoughts as deltas; calls and results, which come whole, as blocks of messages.

    A whole message repeats the deltas, so its texts are left out.
    """
    agent = words(event.get("parent_tool_use_id"))
    inner = event.get("event")
    if isinstance(inner, dict):
        return _delta(inner, agent)
    blocks = _blocks(event.get("message"))
    if event.get("type") == "assistant":
        return tuple(
            Heard(
                "tool_call",
                tool=words(block.get("name")),
                call=words(block.get("id")),
                arguments=block.get("input"),
                agent=agent,
            )
            for block in blocks
            if block.get("type") == "tool_use"
        )
    if event.get("type") == "user":
        return tuple(
            Heard(
                "tool_result",
                text=_content(block.get("content")),
                call=words(block.get("tool_use_id")),
                failed=block.get("is_error") is True,
                agent=agent,
            )
            for block in blocks
            if block.get("type") == "tool_result"
        )
    return ()


def _delta(inner: Mapping[str, Any], agent: str) -> tuple[Heard, ...]:
    block, delta = inner.get("content_block"), inner.get("delta")
    if isinstance(block, dict):
        match block.get("type"):
            case "text" | "thinking" as kind:
                return (Heard(kind, words(block.get(kind)), opens=True, agent=agent),)
    if isinstance(delta, dict):
        if delta.get("type") == "text_delta":
            return (Heard("text", words(delta.get("text")), agent=agent),)
        if delta.get("type") == "thinking_delta":
            return (Heard("thinking", words(delta.get("thinking")), agent=agent),)
    return ()


def _blocks(message: object) -> Iterator[Mapping[str, Any]]:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))


def _content(content: object) -> str:
    """A result is a text, or a list of blocks of which the texts count."""
    if isinstance(content, list):
        blocks = (block for block in content if isinstance(block, dict))
        return "\n".join(words(block.get("text")) or _other(block) for block in blocks)
    return words(content)


def _other(block: Mapping[str, Any]) -> str:
    return f"[{words(block.get('type')) or 'something'}]"
