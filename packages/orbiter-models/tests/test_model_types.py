import pytest
from pydantic import ValidationError

from orbiter.models import ModelError, ModelResponse, StreamChunk, ToolCallDelta
from orbiter.types import OrbiterError, Usage


def test_a_response_is_complete_without_any_value():
    response = ModelResponse()
    assert (response.id, response.model, response.content) == ("", "", "")
    assert (response.tool_calls, response.usage) == ([], Usage())
    assert (response.finish_reason, response.reasoning_content) == ("stop", "")


def test_a_chunk_is_complete_without_any_value():
    chunk = StreamChunk()
    assert (chunk.delta, chunk.tool_call_deltas) == ("", [])
    assert (chunk.finish_reason, chunk.usage) == (None, Usage())


def test_a_delta_is_complete_without_any_value():
    delta = ToolCallDelta()
    assert (delta.index, delta.id, delta.name, delta.arguments) == (0, None, None, "")


@pytest.mark.parametrize("value", [ModelResponse(), StreamChunk(), ToolCallDelta()])
def test_answers_are_frozen(value):
    with pytest.raises(ValidationError, match="frozen"):
        setattr(value, next(iter(type(value).model_fields)), "other")


@pytest.mark.parametrize(
    "reason", ["stop", "tool_calls", "length", "content_filter", "refusal", "incomplete"]
)
def test_the_finish_reasons_are_six(reason):
    assert ModelResponse(finish_reason=reason).finish_reason == reason


def test_another_finish_reason_is_refused():
    with pytest.raises(ValidationError):
        ModelResponse(finish_reason="tired")


def test_an_error_begins_with_the_model():
    error = ModelError("overloaded", model="gpt-4o", provider="openai", status=529, request_id="r")
    assert isinstance(error, OrbiterError)
    assert str(error) == "[gpt-4o] overloaded"
    assert (error.model, error.provider, error.status, error.request_id) == (
        "gpt-4o", "openai", 529, "r"
    )  # fmt: skip


def test_an_error_without_a_model_is_its_message():
    assert str(ModelError("overloaded")) == "overloaded"
