"""How large a conversation is, and how large it may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from orbiter.context import ContextConfig, token_count
from orbiter.context._internal.meter import Meter
from orbiter.context._internal.windows import DEFAULT_WINDOW, window_of
from orbiter.context.tokens import message_tokens
from orbiter.parts import DocumentPart, ImagePart, OpaquePart, TextPart, ThinkingPart
from orbiter.types import AssistantMessage, SystemMessage, ToolCall, ToolResult, UserMessage

TEXT = "word " * 80
PNG = ImagePart(data=b"x", media_type="image/png")


def test_all_that_is_sent_of_a_message_counts() -> None:
    bare = message_tokens(UserMessage(content=""))
    assert bare < 10
    for message in (
        UserMessage(content=TEXT),
        SystemMessage(content=TEXT),
        AssistantMessage(content=TEXT),
        ToolResult(tool_call_id="1", tool_name="f", content=TEXT),
        ToolResult(tool_call_id="1", tool_name="f", error=TEXT),
        AssistantMessage(parts=(ThinkingPart(text=TEXT),)),
        AssistantMessage(parts=(ThinkingPart(signature=TEXT),)),
    ):
        assert message_tokens(message) == bare + token_count(TEXT)
    call = ToolCall(id="1", name="f", arguments=TEXT)
    assert message_tokens(AssistantMessage(tool_calls=[call])) > bare + token_count(TEXT)
    opaque = OpaquePart(vendor="v", data={"text": TEXT})
    assert message_tokens(AssistantMessage(parts=(opaque,))) > bare + token_count(TEXT)


def test_text_in_parts_counts_once() -> None:
    said = UserMessage(content=TEXT, parts=(TextPart(text=TEXT), PNG))
    assert message_tokens(said) == message_tokens(UserMessage(content=TEXT)) + 1_600


def test_images_and_documents_count_wherever_they_are() -> None:
    pdf = DocumentPart(data=b"x" * 200_000, media_type="application/pdf")
    note = DocumentPart(data=TEXT.encode(), media_type="text/plain")
    away = DocumentPart(url="https://example.com/a.pdf")
    bare = message_tokens(UserMessage(content=""))
    for parts, tokens in (((PNG, PNG), 3_200), ((pdf,), 10_000), ((note,), 100), ((away,), 3_000)):
        assert message_tokens(UserMessage(content="", parts=parts)) == bare + tokens
        result = ToolResult(tool_call_id="1", tool_name="f", parts=parts)
        assert message_tokens(result) == bare + tokens


def test_a_programs_own_tokenizer_counts() -> None:
    assert message_tokens(UserMessage(content=TEXT), lambda text: len(text.split())) == 8 + 80


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("claude-sonnet-4-5", 200_000),
        ("anthropic:claude-opus-4-1", 200_000),
        ("gpt-4o", 128_000),
        ("openai/gpt-4o-mini", 128_000),
        ("gpt-4", 8_192),
        ("gpt-4.1-mini", 1_047_576),
        ("gpt-5-mini", 400_000),
        ("o3-mini", 200_000),
        ("bedrock:anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
        ("anthropic.claude-3-haiku-20240307-v1:0:200k", 200_000),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", 200_000),
        ("us-gov.anthropic.claude-3-5-sonnet-20240620-v1:0", 200_000),
        ("global.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
        (
            "bedrock:arn:aws:bedrock:us-east-1:123456789012:inference-profile/"
            "us.anthropic.claude-sonnet-4-20250514-v1:0",
            200_000,
        ),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/a1b2c3", DEFAULT_WINDOW),
        ("vertex:claude-opus-4-1@20250805", 200_000),
        ("publishers/google/models/gemini-2.5-pro@001", 1_048_576),
        ("amazon.nova-pro-v1:0", DEFAULT_WINDOW),
        ("llama", DEFAULT_WINDOW),
        ("", DEFAULT_WINDOW),
    ],
)
def test_the_window_follows_from_the_models_name(model: str, window: int) -> None:
    assert window_of(model) == window


@pytest.mark.parametrize(
    "wrong", [{"window_tokens": 10}, {"budget_share": 0}, {"budget_share": 1.1}]
)
def test_a_window_or_share_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        ContextConfig.model_validate(wrong)


def test_a_window_of_ones_own_is_kept_in_dumps() -> None:
    config = ContextConfig(window_tokens=32_000, budget_share=0.5)
    assert ContextConfig.model_validate(config.model_dump()) == config


def call(meter: Meter, estimate: int, counted: int) -> None:
    meter.estimate = estimate
    meter.heard(counted)


def test_before_the_vendor_has_said_anything_the_estimate_holds() -> None:
    assert Meter().tokens(1000) == 1000
    assert Meter().room(100_000, 1_000) == (99_000, 49_000)


def test_the_first_calls_excess_is_the_tools_and_does_not_grow() -> None:
    meter = Meter()
    call(meter, 500, 6_500)
    assert meter.tokens(500) == 6_500
    assert meter.tokens(50_500) == 56_500


def test_a_vendor_that_counts_more_makes_the_room_smaller() -> None:
    meter = Meter()
    call(meter, 500, 500)
    call(meter, 20_000, 30_000)
    assert meter.tokens(40_000) == 60_000
    assert meter.room(60_000, 4_000) == (36_000, 16_000)


def test_counts_that_cannot_be_are_not_believed() -> None:
    meter = Meter()
    for _ in range(3):
        call(meter, 50_000, 10)
        assert meter.tokens(50_000) == 50_000
    call(meter, 1_000, 10_000_000)
    assert meter.tokens(1_000) <= 24_000
    meter.heard(5_000_000)  # of a call that nobody measured
    assert meter.tokens(1_000) <= 24_000


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**7)), max_size=5),
    st.integers(600, 10**6),
    st.integers(0, 10**7),
)
def test_there_is_always_room_and_a_goal_below_it(
    calls: list[tuple[int, int]], budget: int, system: int
) -> None:
    meter = Meter()
    for estimate, counted in calls:
        call(meter, estimate, counted)
    limit, goal = meter.room(budget, system)
    assert 0 < goal < limit
