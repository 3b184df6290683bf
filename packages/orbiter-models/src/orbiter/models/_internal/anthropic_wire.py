"""Anthropic's messages, as the API writes them."""

from typing import Any

from orbiter.config import ModelSettings
from orbiter.models._internal.anthropic_blocks import Block, blocks_of, text_block
from orbiter.models._internal.settings import Refuse
from orbiter.models.types import FinishReason
from orbiter.types import AssistantMessage, Message, SystemMessage

# the API takes no less
_LEAST_BUDGET = 1024

# a turn in which the vendor's own tools took long, to be sent back as it is
PAUSE = "pause_turn"
MOST_PAUSES = 8
FINISH: dict[str | None, FinishReason] = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    PAUSE: "incomplete",
}


def add_settings(
    request: dict[str, Any], settings: ModelSettings, max_tokens: int | None, refuse: Refuse
) -> None:
    """Write settings into a request; those of tools mean nothing without tools.

    Raises:
        ModelError: The API cannot do what they say together.
    """
    # fields that not every SDK knows go into the body directly
    more: dict[str, Any] = {}
    if settings.top_p is not None:
        more["top_p"] = settings.top_p
    if settings.stop:
        request["stop_sequences"] = list(settings.stop)
    budget, effort = settings.thinking_budget, settings.reasoning_effort
    if effort == "minimal":
        raise refuse("the setting 'reasoning_effort' is 'minimal': Claude's least is 'low'")
    if budget is not None:
        if budget < _LEAST_BUDGET or (max_tokens is not None and budget >= max_tokens):
            above = f" and less than max_tokens ({max_tokens})" if max_tokens else ""
            raise refuse(
                f"the setting 'thinking_budget' is {budget}: give {_LEAST_BUDGET} or more{above}"
            )
        request["thinking"] = {"type": "enabled", "budget_tokens": budget}
        if max_tokens is None:
            request["max_tokens"] += budget
    elif effort == "none":
        request["thinking"] = {"type": "disabled"}
    elif effort is not None:
        request["thinking"] = {"type": "adaptive"}
        more["output_config"] = {"effort": effort}
    thinks = budget is not None or effort not in (None, "none")
    if settings.forces_a_call and thinks:
        raise refuse(
            f"the setting 'tool_choice' is '{settings.tool_choice}': Claude does not think when "
            "a call is forced; leave out thinking_budget and reasoning_effort"
        )
    if "tools" in request:
        choice = _tool_choice(settings)
        if choice is not None:
            request["tool_choice"] = choice
    if more:
        request["extra_body"] = {**request.get("extra_body", {}), **more}


def going_on(request: dict[str, Any], said: list[Block]) -> dict[str, Any]:
    """Return the request by which the API goes on with a turn that it has paused.

    Args:
        request: What was asked.
        said: The blocks of the answer.
    """
    blocks = [block for block in said if block.get("text", "x")]
    *before, last = request["messages"]
    if last["role"] == "assistant":
        messages = [*before, {**last, "content": [*last["content"], *blocks]}]
    else:
        messages = [*before, last, {"role": "assistant", "content": blocks}]
    return {**request, "messages": messages} if blocks else request


def drop_thinking(request: dict[str, Any]) -> None:
    """Do without thinking as long as calls are answered whose thoughts nobody has any more.

    The API refuses it behind calls that another vendor's model has made, or one that was heard in
    pieces by a server that died.
    """
    if request.get("thinking", {}).get("type") != "enabled":
        return
    wire, at, first = request["messages"], len(request["messages"]) - 1, None
    while at > 0 and any(block["type"] == "tool_result" for block in wire[at]["content"]):
        first, at = wire[at - 1], at - 2
    if first is not None and not any(b["type"].endswith("thinking") for b in first["content"]):
        del request["thinking"]


def add_format(request: dict[str, Any], schema: dict[str, Any]) -> None:
    """Ask for an answer that fits a schema, which the API can express."""
    # the client is ready
    from anthropic import transform_schema

    wanted = {"type": "json_schema", "schema": transform_schema(schema)}
    body = request.setdefault("extra_body", {})
    body["output_config"] = {**body.get("output_config", {}), "format": wanted}


def _tool_choice(settings: ModelSettings) -> dict[str, Any] | None:
    one_at_a_time = settings.parallel_tool_calls is False
    if settings.tool_choice is None and not one_at_a_time:
        return None
    if settings.tool_choice == "none":
        return {"type": "none"}
    choice: dict[str, Any] = {"type": "auto"}
    if settings.tool_choice == "required":
        choice = {"type": "any"}
    elif settings.forces_a_call:
        choice = {"type": "tool", "name": settings.tool_choice}
    return {**choice, "disable_parallel_tool_use": True} if one_at_a_time else choice


def to_wire(messages: list[Message], refuse: Refuse) -> tuple[str, list[dict[str, Any]]]:
    """Write a conversation as the API takes it.

    Returns:
        The system prompt, and messages whose roles alternate, beginning with the user's.

    Raises:
        ModelError: A part of a message is of a kind that the API does not take.
    """
    system: list[str] = []
    wire: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            system.append(message.content)
            continue
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = blocks_of(message, refuse)
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"].extend(blocks)
        elif blocks:
            wire.append({"role": role, "content": blocks})
    if wire and wire[0]["role"] == "assistant":
        wire.insert(0, {"role": "user", "content": [text_block("(The conversation goes on.)")]})
    return "\n\n".join(system), wire
