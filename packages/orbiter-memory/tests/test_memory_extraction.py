import logging
from typing import Any

import pytest

from orbiter.memory import extract
from orbiter.memory.extraction import MAX_SUMMARY_CHARS, heuristic_facts, heuristic_summary
from orbiter.types import AssistantMessage, Message, OrbiterError, ToolResult, UserMessage


class Reply:
    def __init__(self, content: str) -> None:
        self.content = content


class Model:
    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer
        self.asked: list[Message] = []

    async def complete(self, messages: list[Message]) -> Any:
        self.asked = messages
        if isinstance(self.answer, Exception):
            raise self.answer
        return Reply(self.answer)


def said(*texts: str) -> list[Message]:
    return [UserMessage(content=text) for text in texts]


def test_facts_are_what_users_say_about_themselves() -> None:
    messages = said(
        "Hello! My name is Ada. What can you do?",
        "I work as a nurse in Bern. Please book a table.",
        "Remember that our staging server is called heron.",
    )
    assert heuristic_facts(messages) == [
        "My name is Ada.",
        "I work as a nurse in Bern.",
        "Our staging server is called heron.",
    ]


def test_questions_and_the_assistants_words_are_no_facts() -> None:
    messages = [UserMessage(content="What is my name?"), AssistantMessage(content="I am a robot.")]
    assert heuristic_facts(messages) == []


@pytest.mark.parametrize("text", ["My password is hunter2.", "Remember my API key: sk-123."])
def test_secrets_are_not_kept(text: str) -> None:
    assert heuristic_facts(said(text)) == []


def test_the_summary_goes_on_and_lets_the_oldest_lines_go() -> None:
    summary = ""
    for n in range(200):
        summary = heuristic_summary(said(f"Message number {n}. And more."), summary)
    assert summary.endswith("user: Message number 199.")
    assert "number 3." not in summary
    assert len(summary) <= MAX_SUMMARY_CHARS


async def test_the_model_is_shown_the_conversation_and_the_summary_so_far() -> None:
    answer = '{"facts": ["Ada is a nurse."], "summary": "Short."}'
    model = Model(f"Here you are:\n```json\n{answer}\n```")
    messages: list[Message] = [
        UserMessage(content="I'm a nurse"),
        AssistantMessage(content="Good"),
        ToolResult(tool_call_id="1", tool_name="x", content="noise"),
    ]
    found = await extract(messages, provider=model, summary_so_far="Before.")
    assert (found.facts, found.summary) == (["Ada is a nurse."], "Short.")
    shown = model.asked[-1].content
    assert "Before." in shown
    assert "user: I'm a nurse\nassistant: Good" in shown
    assert "noise" not in shown


@pytest.mark.parametrize(
    "answer", ["I will not.", '{"facts": "many"}', "{broken", OrbiterError("[m] overloaded")]
)
async def test_a_useless_answer_is_logged_and_patterns_take_over(
    answer: str | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = await extract(said("I live in Bern."), provider=Model(answer))
    assert found.facts == ["I live in Bern."]
    assert "extracted no memories" in caplog.text
