"""The one JSON object that Claude Code ends with in print mode; droid prints the same kind."""

from typing import Any

from orbiter_contracts import Usage, clamped_count
from worker_wrapper.agents.base import AgentResult
from worker_wrapper.printed import last_object
from worker_wrapper.spill import Spill
from worker_wrapper.spoken import name, words

_ERRORS = 10


def find_result(stdout: Spill) -> dict[str, Any] | None:
    """The object, or None when none was printed."""
    return last_object(stdout, _is_result)


def _is_result(said: dict[str, Any]) -> bool:
    return said.get("type") == "result" or ("type" not in said and "result" in said)


def read_result(said: dict[str, Any]) -> AgentResult:
    """What the object says, but for what only one CLI knows of."""
    text = words(said.get("result"))
    is_error = said.get("is_error") is True or said.get("subtype", "success") != "success"
    return AgentResult(
        text=text,
        agent_session_id=name(said.get("session_id")),
        usage=_usage(said.get("usage")),
        is_error=is_error,
        error=_error(said, text) if is_error else None,
        # A figure that is none is a slip of the CLI; the model was asked once at least.
        turns=clamped_count(said.get("num_turns"), default=1),
    )


def _usage(usage: object) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    return Usage(
        input_tokens=clamped_count(usage.get("input_tokens")),
        output_tokens=clamped_count(usage.get("output_tokens")),
        cache_read_tokens=clamped_count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=clamped_count(usage.get("cache_creation_input_tokens")),
    )


def _error(said: dict[str, Any], text: str) -> str:
    errors = said.get("errors")
    told = [words(error) for error in errors[:_ERRORS]] if isinstance(errors, list) else []
    subtype = words(said.get("subtype")) or "an error"
    return "; ".join(filter(None, told)) or text or f"the agent ended with {subtype}"
