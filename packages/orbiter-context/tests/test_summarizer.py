import logging
from typing import Any

import pytest

from orbiter.context._internal.summarizer import (
    MAX_MODEL_CHARS,
    PART_CHARS,
    Lines,
    gist,
    statements,
    summarized,
)
from orbiter.models import ModelError, ModelResponse
from orbiter.types import AssistantMessage, Message, ToolResult, Usage, UserMessage


class Writer:
    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def complete(self, messages: list[Message]) -> Any:
        self.asked.append(messages[-1].content)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ModelResponse(content=answer, usage=Usage(input_tokens=7, total_tokens=7))


def test_lines_let_the_oldest_go_and_a_repeated_one_becomes_newest() -> None:
    lines = Lines(12)
    for line in ("aaa", "bbb", "ccc", "aaa", "ddd"):
        lines.add(line)
    assert lines.all() == ["ccc", "aaa", "ddd"]


def test_statements_are_specific_sentences_of_the_user() -> None:
    messages = [
        UserMessage(content="Hello! The vault code is 7391. It is nice. Is the code 5?"),
        UserMessage(content="My project is called Bluefin."),
        AssistantMessage(content="The answer is 42."),
    ]
    assert statements(messages) == [
        "My project is called Bluefin.",
        "The vault code is 7391.",
    ]


def test_gist_is_the_beginning_of_each_message() -> None:
    messages: list[Message] = [
        UserMessage(content="Plan it. And more."),
        AssistantMessage(content=""),
        ToolResult(tool_call_id="1", tool_name="f", content="noise"),
        AssistantMessage(content="Planned.\nDetails follow."),
    ]
    assert gist(messages) == ["user: Plan it.", "assistant: Planned."]


async def test_the_model_goes_on_from_the_summary_so_far() -> None:
    writer = Writer("  New summary.  ")
    written = await summarized("Old.", [UserMessage(content="hi")], writer)
    assert written == ("New summary.", [Usage(input_tokens=7, total_tokens=7)])
    assert writer.asked == ["Summary so far:\nOld.\n\nNew part:\nuser: hi"]


async def test_a_long_part_is_read_in_pieces() -> None:
    writer = Writer("one", "two")
    written = await summarized("", [UserMessage(content="x" * (PART_CHARS + 10))], writer)
    assert written is not None
    assert written[0] == "two"
    assert writer.asked[1].startswith("Summary so far:\none\n")


async def test_a_summary_has_a_limit() -> None:
    written = await summarized("", [UserMessage(content="x")], Writer("y" * 100_000))
    assert written is not None
    assert len(written[0]) == MAX_MODEL_CHARS


@pytest.mark.parametrize("answer", [ModelError("overloaded", model="m"), "  "])
async def test_a_failing_model_is_logged_and_gives_none(
    answer: str | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert await summarized("", [UserMessage(content="x")], Writer(answer)) is None
    assert "its sentences are used instead" in caplog.text
