"""The one JSON object that Claude Code ends with in print mode; droid prints the same kind."""

import math
from typing import Any

from orbiter_contracts import Usage
from worker_wrapper.agents.base import AgentResult
from worker_wrapper.printed import last_object
from worker_wrapper.spill import Spill


def find_result(stdout: Spill) -> dict[str, Any] | None:
    """The object, or None when none was printed."""
    return last_object(stdout, _is_result)


def _is_result(said: dict[str, Any]) -> bool:
    return said.get("type") == "result" or ("type" not in said and "result" in said)


def read_result(said: dict[str, Any]) -> AgentResult:
    """What the object says, but for what only one CLI knows of."""
    text, session_id = said.get("result"), said.get("session_id")
    text = text if isinstance(text, str) else ""
    is_error = said.get("is_error") is True or said.get("subtype", "success") != "success"
    return AgentResult(
        text=text,
        agent_session_id=session_id if isinstance(session_id, str) else None,
        usage=_usage(said.get("usage")),
        is_error=is_error,
        error=_error(said, text) if is_error else None,
        turns=number(said.get("num_turns", 1)),
    )


def number(value: object) -> int:
    """A count, whatever was printed in its place."""
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else 0


def _usage(usage: object) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    return Usage(
        input_tokens=number(usage.get("input_tokens")),
        output_tokens=number(usage.get("output_tokens")),
        cache_read_tokens=number(usage.get("cache_read_input_tokens")),
        cache_write_tokens=number(usage.get("cache_creation_input_tokens")),
    )


def _error(said: dict[str, Any], text: str) -> str:
    errors = said.get("errors")
    if isinstance(errors, list) and errors:
        return "; ".join(str(error) for error in errors)
    return text or f"the agent ended with {said.get('subtype', 'an error')}"
