"""The formats trainers take: OpenAI's fine-tuning files and TRL's conversational datasets.

One example is one JSON object. Both write a conversation as chat messages; they differ in how tool
calls and preferences are told.
"""

import json
from collections.abc import Sequence
from typing import Any, Literal

from orbiter.train._internal.canon import key_of
from orbiter.train.preference import PreferencePair
from orbiter.train.trajectory import TrainingError, Trajectory
from orbiter.types import AssistantMessage, Message, ToolCall, ToolResult

TrainOn = Literal["all", "last"]
Example = dict[str, Any]


def openai_sft(trajectory: Trajectory, *, train_on: TrainOn = "all") -> Example:
    """Return a trajectory as OpenAI's supervised fine-tuning takes it.

    Args:
        trajectory: A complete one.
        train_on: "all" of what the model said, or only the "last" answer: the rest has weight 0.

    Raises:
        TrainingError: It is not complete, or calls a tool that was not offered.
    """
    check(trajectory)
    messages = [_openai(message) for message in trajectory.messages]
    if train_on == "last":
        for message in messages[:-1]:
            if message["role"] == "assistant":
                message["weight"] = 0
    return _with_tools({"messages": messages}, trajectory.tools)


def openai_preference(pair: PreferencePair) -> Example | None:
    """Return a pair as OpenAI's preference fine-tuning takes it: one answer against another.

    Returns:
        None where the first answers are the same: OpenAI takes one message each, and these two
        became different only later.
    """
    if key_of(pair.chosen[:1]) == key_of(pair.rejected[:1]):
        return None
    asked = _with_tools({"messages": [_openai(m) for m in pair.prompt]}, pair.tools)
    return {
        "input": asked,
        "preferred_output": [_openai(pair.chosen[0])],
        "non_preferred_output": [_openai(pair.rejected[0])],
    }


def trl_sft(trajectory: Trajectory, *, train_on: TrainOn = "all") -> Example:
    """Return a trajectory as TRL's SFTTrainer takes it, in the conversational format.

    Args:
        trajectory: A complete one.
        train_on: "all": `messages`, for TRL's `assistant_only_loss`. "last": `prompt` and
            `completion`, of which TRL learns the completion.

    Raises:
        TrainingError: It is not complete, or calls a tool that was not offered.
    """
    check(trajectory)
    messages = [_trl(message) for message in trajectory.messages]
    if train_on == "last":
        example: Example = {"prompt": messages[:-1], "completion": messages[-1:]}
    else:
        example = {"messages": messages}
    return _with_tools_text(example, trajectory.tools)


def trl_preference(pair: PreferencePair) -> Example:
    """Return a pair as TRL's DPOTrainer takes it: prompt, chosen, rejected."""
    example: Example = {
        "prompt": [_trl(message) for message in pair.prompt],
        "chosen": [_trl(message) for message in pair.chosen],
        "rejected": [_trl(message) for message in pair.rejected],
    }
    return _with_tools_text(example, pair.tools)


def check(trajectory: Trajectory) -> None:
    """Check that a trainer can take a trajectory.

    Raises:
        TrainingError: It cannot; the text says why.
    """
    where = f"trajectory of case '{trajectory.case_id}'" if trajectory.case_id else "trajectory"
    if not trajectory.complete:
        raise TrainingError(f"{where}: it does not end with an answer")
    offered = {tool["function"]["name"] for tool in trajectory.tools}
    open_calls: set[str] = set()
    for message in trajectory.messages:
        if isinstance(message, ToolResult):
            if message.tool_call_id not in open_calls:
                raise TrainingError(f"{where}: a result of {message.tool_name} answers no call")
            open_calls.discard(message.tool_call_id)
        elif open_calls:
            raise TrainingError(f"{where}: {len(open_calls)} tool calls have no result")
        elif isinstance(message, AssistantMessage):
            open_calls = {call.id for call in message.tool_calls}
            unknown = {call.name for call in message.tool_calls} - offered
            if unknown:
                raise TrainingError(
                    f"{where}: it calls {', '.join(sorted(unknown))}, which was not offered; "
                    "leave it out"
                )


def _openai(message: Message) -> dict[str, Any]:
    if isinstance(message, ToolResult):
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": _result(message)}
    if not isinstance(message, AssistantMessage) or not message.tool_calls:
        return {"role": message.role, "content": message.content}
    said = {"content": message.content} if message.content else {}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments or "{}"},
        }
        for call in message.tool_calls
    ]
    return {"role": "assistant", **said, "tool_calls": calls}


def _trl(message: Message) -> dict[str, Any]:
    if isinstance(message, ToolResult):
        return {"role": "tool", "name": message.tool_name, "content": _result(message)}
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if isinstance(message, AssistantMessage) and message.tool_calls:
        said["tool_calls"] = [
            {"type": "function", "function": {"name": call.name, "arguments": _object(call)}}
            for call in message.tool_calls
        ]
    return said


def _result(message: ToolResult) -> str:
    # as the model saw it, see the provider of OpenAI's models
    return message.content if message.error is None else f"Error: {message.error}"


def _object(call: ToolCall) -> Any:
    # chat templates write objects in the way their model was taught
    try:
        value = json.loads(call.arguments or "{}")
    except ValueError:
        return call.arguments
    return value if isinstance(value, dict) else call.arguments


def _with_tools(example: Example, tools: Sequence[dict[str, Any]]) -> Example:
    return {**example, "tools": list(tools)} if tools else example


def _with_tools_text(example: Example, tools: Sequence[dict[str, Any]]) -> Example:
    # as text: in a table every schema would get the fields of all others; TRL reads both
    return {**example, "tools": json.dumps(list(tools))} if tools else example
