"""Turns a model's reply into an assistant message, and its text into the agent's output."""

import json
from typing import Any

from orbiter.protocols import ModelReply
from orbiter.types import AssistantMessage, OrbiterError, StopReason, ToolCall

# finish reasons of a reply that is not whole, and what they are called of the run
CUT: dict[str | None, StopReason] = {
    "length": "length",
    "content_filter": "content_filter",
    "refusal": "refusal",
    "incomplete": "incomplete",
}


class OutputValidationError(OrbiterError):
    """The model's final answer never fitted the agent's `output_type`.

    Attributes:
        agent_name: Whose answer it was.
        stop_reason: Why the answer is not whole, such as `length`; None when it is.
    """

    def __init__(
        self,
        agent_name: str,
        output_type: str,
        problem: str,
        *,
        advice: str = "",
        stop_reason: StopReason | None = None,
    ) -> None:
        self.agent_name = agent_name
        self.stop_reason = stop_reason
        advice = advice or f"Simplify {output_type} or say in the instructions what it should hold"
        super().__init__(f"Agent '{agent_name}' gave no valid {output_type}: {problem}. {advice}.")


def assistant_message(reply: ModelReply, serial: int) -> AssistantMessage:
    """Take over a reply; every tool call in it has an id of its own afterwards.

    Args:
        reply: What the model said.
        serial: A number no other reply of the conversation has, for ids the model left out.
    """
    calls = list(reply.tool_calls)
    if calls and ("" in (ids := {call.id for call in calls}) or len(ids) < len(calls)):
        calls = _with_ids(calls, serial)
    parts = getattr(reply, "parts", ())
    if parts:
        return AssistantMessage(content=reply.content or "", tool_calls=calls, parts=parts)
    return AssistantMessage(content=reply.content or "", tool_calls=calls)


def _with_ids(calls: list[ToolCall], serial: int) -> list[ToolCall]:
    # some OpenAI-compatible servers leave ids empty or repeat them
    taken = {""}
    distinct: list[ToolCall] = []
    for index, call in enumerate(calls):
        identity = f"call_{serial}_{index}" if call.id in taken else call.id
        taken.add(identity)
        distinct.append(ToolCall(id=identity, name=call.name, arguments=call.arguments))
    return distinct


def correction(problem: str) -> str:
    """Word the request for a better answer."""
    return f"Your answer does not fit the required JSON schema: {problem}. Answer with JSON only."


def tries_left(tries: int) -> str:
    """Word how often the model may try again."""
    return f"Try again; {tries} more {'try is' if tries == 1 else 'tries are'} left after that."


def explain_cut(cut: StopReason, said: str, max_tokens: int | None) -> tuple[str, str]:
    """Say why an answer is not whole, and what to do about it."""
    if cut == "length":
        limit = f"{max_tokens} output tokens" if max_tokens else "the provider's limit of tokens"
        return f"the answer was cut off at {limit}", "To have all of it, raise max_tokens"
    if cut == "refusal":
        return f"the model refused: {said[:200]!r}", "Ask for something else, or another model"
    if cut == "content_filter":
        return "the provider's content filter stopped the answer", "Ask for something else"
    return "the stream ended before the answer did", "Run it again"


def schema_request(schema: dict[str, Any]) -> str:
    """Word the request for structured output, for models that take no schema of their own."""
    return (
        f"Answer with JSON only, no other text, that fits this JSON schema:\n{json.dumps(schema)}"
    )
