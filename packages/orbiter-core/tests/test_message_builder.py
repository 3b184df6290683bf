import pytest

from orbiter._internal.message_builder import NO_RESULT, build_messages, close_calls
from orbiter.types import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)

HI = UserMessage(content="hi")
ASKS = AssistantMessage(tool_calls=[ToolCall(id="1", name="a"), ToolCall(id="2", name="b")])
ONE = ToolResult(tool_call_id="1", tool_name="a", content="x")
TWO = ToolResult(tool_call_id="2", tool_name="b", content="y")


def test_instructions_come_first_and_results_last():
    assert build_messages("Be brief.", [HI, ASKS], [ONE, TWO]) == [
        SystemMessage(content="Be brief."), HI, ASKS, ONE, TWO
    ]  # fmt: skip


def test_no_instructions_make_no_system_message():
    assert build_messages("", [HI]) == [HI]


def test_instructions_are_never_doubled():
    system = SystemMessage(content="Be brief.")
    assert build_messages("Be brief.", [system, HI]) == [system, HI]


def test_the_history_is_not_changed():
    history = [HI]
    build_messages("Be brief.", history, [ONE])
    assert history == [HI]


def test_a_valid_conversation_is_returned_as_it_is():
    messages = [HI, ASKS, ONE, TWO, AssistantMessage(content="done")]
    assert close_calls(messages) is messages


@pytest.mark.parametrize(
    ("broken", "closed"),
    [
        ([HI, ASKS], [HI, ASKS, "1", "2"]),
        ([HI, ASKS, ONE], [HI, ASKS, ONE, "2"]),
        ([HI, ASKS, TWO, ONE], [HI, ASKS, ONE, TWO]),
        ([HI, ASKS, ONE, ONE, TWO], [HI, ASKS, ONE, TWO]),
        ([ONE, HI], [HI]),
        ([HI, ASKS, HI, ONE, TWO], [HI, ASKS, "1", "2", HI]),
        ([ASKS, ASKS, ONE, TWO], [ASKS, "1", "2", ASKS, ONE, TWO]),
    ],
)
def test_a_broken_conversation_is_mended(broken, closed):
    names = {"1": "a", "2": "b"}
    expected = [
        ToolResult(tool_call_id=part, tool_name=names[part], error=NO_RESULT)
        if isinstance(part, str)
        else part
        for part in closed
    ]
    assert close_calls(broken) == expected
