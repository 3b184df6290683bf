import pytest
from pydantic import TypeAdapter, ValidationError

from orbiter import types
from orbiter.types import (
    AssistantMessage,
    Message,
    OrbiterError,
    RunResult,
    StreamEvent,
    SystemMessage,
    TextEvent,
    ToolCall,
    ToolExecutionError,
    ToolResult,
    Usage,
    UserMessage,
)

FROZEN = [
    UserMessage(content="hi"),
    SystemMessage(content="be brief"),
    AssistantMessage(),
    ToolCall(id="1", name="add"),
    ToolResult(tool_call_id="1", tool_name="add"),
    Usage(),
    RunResult(),
    TextEvent(text="hi"),
    types.ToolCallEvent(tool_name="add"),
    types.ToolResultEvent(tool_name="add"),
    types.StepEvent(step=1),
    types.UsageEvent(usage=Usage()),
    types.HandoffEvent(target="billing"),
    types.ErrorEvent(error="boom"),
    types.ResultEvent(result=RunResult()),
    types.RunContext("a", "hi", [], None, None),
]


@pytest.mark.parametrize("value", FROZEN, ids=lambda value: type(value).__name__)
def test_every_value_is_frozen(value):
    name = next(iter(type(value).__annotations__))
    with pytest.raises((ValidationError, AttributeError)):
        setattr(value, name, "other")


@pytest.mark.parametrize(
    ("message", "role"),
    [
        (UserMessage(content="hi"), "user"),
        (SystemMessage(content="hi"), "system"),
        (AssistantMessage(), "assistant"),
        (ToolResult(tool_call_id="1", tool_name="add"), "tool"),
    ],
)
def test_each_message_names_its_role_and_is_found_again_by_it(message, role):
    assert message.role == role
    assert isinstance(message, Message)
    data = TypeAdapter(Message).dump_json(message)
    assert TypeAdapter(Message).validate_json(data) == message


def test_a_bare_assistant_message_is_empty():
    message = AssistantMessage()
    assert (message.content, message.tool_calls) == ("", [])


def test_a_tool_call_without_arguments_has_an_empty_text():
    assert ToolCall(id="1", name="now").arguments == ""


def test_a_tool_result_is_no_error_unless_it_says_so():
    assert ToolResult(tool_call_id="1", tool_name="add", content="5").error is None


def test_usage_starts_at_zero_and_adds_up():
    full = Usage(cache_write_tokens=2, reasoning_tokens=1)
    assert full + full == Usage(cache_write_tokens=4, reasoning_tokens=2)
    assert "reasoning" in repr(full)
    assert "reasoning" not in repr(Usage()) + Usage().model_dump_json()
    one = Usage(input_tokens=3, output_tokens=2, total_tokens=5, cached_tokens=1)
    assert Usage() + one + one == Usage(
        input_tokens=6, output_tokens=4, total_tokens=10, cached_tokens=2
    )


def test_a_run_result_survives_json():
    result = RunResult(
        output="5",
        messages=[
            UserMessage(content="2 + 3"),
            AssistantMessage(tool_calls=[ToolCall(id="1", name="add", arguments='{"a": 2}')]),
            ToolResult(tool_call_id="1", tool_name="add", error="b: Field required"),
        ],
        steps=1,
        stop_reason="max_steps",
    )
    again = RunResult.model_validate_json(result.model_dump_json())
    assert again == result
    assert again.max_steps_reached


def test_stream_events_are_told_apart_by_their_type():
    events = [value for value in FROZEN if isinstance(value, StreamEvent)]
    kinds = [event.type for event in events]
    assert kinds == [
        "text", "tool_call", "tool_result", "step", "usage", "handoff", "error", "result"
    ]  # fmt: skip


def test_a_tool_execution_error_names_the_tool_and_keeps_the_cause():
    cause = ValueError("no such city")
    error = ToolExecutionError("get_weather", cause)
    assert isinstance(error, OrbiterError)
    assert str(error) == "Tool 'get_weather' failed: no such city"
    assert (error.tool_name, error.cause) == ("get_weather", cause)
