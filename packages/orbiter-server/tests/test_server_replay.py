"""What is read from the events of a run whose server died."""

from orbiter import Agent
from orbiter.config import Spent
from orbiter.server._internal.replay import CUT_OFF, find_agent, progress_of
from orbiter.types import AssistantMessage, ToolCall, ToolResult, Usage


def told(*events):
    return [{"seq": seq, **event} for seq, event in enumerate(events, 1)]


STEP = {"type": "step", "agent_name": "a"}
USAGE = {"type": "usage", "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}
CALL = {"type": "tool_call", "tool_call_id": "c1", "tool_name": "add", "arguments": "{}"}
RESULT = {
    "type": "tool_result", "tool_call_id": "c1", "tool_name": "add", "content": "5", "error": None,
}  # fmt: skip


def text(words):
    return {"type": "text", "text": words}


def test_a_reply_that_broke_off_does_not_count():
    progress = progress_of(told(STEP, text("Half an ans")))
    assert (progress.messages, progress.kept) == ([], 0)


def test_complete_steps_are_kept():
    progress = progress_of(told(STEP, text("Let me see."), CALL, RESULT, STEP, text("It is")))
    call = ToolCall(id="c1", name="add", arguments="{}")
    assert progress.messages == [
        AssistantMessage(content="Let me see.", tool_calls=[call]),
        ToolResult(tool_call_id="c1", tool_name="add", content="5"),
    ]
    assert progress.kept == 4


def test_a_tool_that_was_running_is_not_run_again_but_reported():
    progress = progress_of(told(STEP, CALL))
    assert progress.messages[1] == ToolResult(tool_call_id="c1", tool_name="add", error=CUT_OFF)
    assert progress.kept == 2


def test_what_was_discarded_before_stays_discarded():
    events = told(STEP, text("Hal"), {"type": "resumed"}, STEP, CALL, RESULT, STEP, text("x"))
    progress = progress_of(events)
    assert [message.role for message in progress.messages] == ["assistant", "tool"]
    assert progress.messages[0].content == ""


def test_all_steps_and_tokens_are_counted_those_of_replies_that_broke_off_too():
    other = {**STEP, "agent_name": "b"}
    events = told(STEP, USAGE, CALL, RESULT, STEP, {"type": "resumed"}, STEP, USAGE, CALL, other)
    assert progress_of(events).spent == Spent(
        usage=Usage(input_tokens=6, output_tokens=4, total_tokens=10), steps={"a": 3, "b": 1}
    )


def test_a_handoff_says_who_goes_on():
    c = Agent(name="c")
    b = Agent(name="b", handoffs=[c])
    a = Agent(name="a", handoffs=[b])
    c.handoffs.append(a)
    events = told(STEP, CALL, RESULT, {"type": "handoff", "target": "c"})
    assert find_agent(a, progress_of(events).agent_name) is c
    assert find_agent(a, None) is a
    assert find_agent(a, "nobody") is None
