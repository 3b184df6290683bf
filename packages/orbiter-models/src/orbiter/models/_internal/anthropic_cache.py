"""Where Anthropic is to keep the beginning of a request, because the next one begins with it.

The API reads what an earlier request has written up to a breakpoint, looking back from each of
this request's for some twenty blocks. Four breakpoints are allowed: tools, system, and the ends of
this and of the previous call, which are farther apart when many tools were called at once. What is
added to the newest message for one call alone stands behind its breakpoint.
"""

from typing import Any

from orbiter.additions import Added

_MARK = {"type": "ephemeral"}


def add_breakpoints(request: dict[str, Any]) -> None:
    """Mark what is worth keeping; nothing for a single call without tools, which nobody follows."""
    messages = request["messages"]
    goes_on = any(message["role"] == "assistant" for message in messages)
    if not goes_on and "tools" not in request:
        return
    if "tools" in request:
        _mark(request["tools"])
    if "system" in request:
        request["system"] = [{"type": "text", "text": request["system"]}]
        _mark(request["system"])
    for message in [m for m in messages if m["role"] == "user"][-2:]:
        _mark(message["content"])


def _mark(blocks: list[dict[str, Any]]) -> None:
    at = len(blocks) - 1
    if at > 0 and isinstance(blocks[at].get("text"), Added):
        at -= 1
    blocks[at] = {**blocks[at], "cache_control": _MARK}
