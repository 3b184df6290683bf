"""What is read from the entries of a run whose process died: the stream's events, or its own."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from orbiter import Agent
from orbiter._paused import WAITS
from orbiter.approval import InputCall, InputRequest
from orbiter.config import Spent
from orbiter.journal import (
    Answered,
    Decided,
    HandedOff,
    ModelCalled,
    Replied,
    Said,
    Took,
    ToolDone,
    Waiting,
    read_entry,
)
from orbiter.parts import ImagePart
from orbiter.replay import CUT_OFF, find_agent, progress_by_scope, progress_of
from orbiter.types import AssistantMessage, ToolCall, ToolResult, Usage, UserMessage

from .test_messages_stay_valid import check


def told(*events):
    """Return the events as a server has them on its disk."""
    kept = ({"seq": seq, "at": 1.5, **event} for seq, event in enumerate(events, 1))
    return [read_entry(json.dumps(event)) for event in kept]


STEP = {"type": "step", "step": 1, "agent_name": "a"}
USAGE = {"type": "usage", "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}
CALL = {"type": "tool_call", "tool_call_id": "c1", "tool_name": "add", "arguments": "{}"}
RESULT = {
    "type": "tool_result", "tool_call_id": "c1", "tool_name": "add", "content": "5", "error": None,
}  # fmt: skip
ASKED_FOR = InputRequest(id="x", kind="approval", calls=(InputCall.of("add", {}),))
TWICE = AssistantMessage(tool_calls=[ToolCall(id=i, name="add") for i in ("c1", "c2")])
TOLD = ToolResult(tool_call_id="c2", tool_name="add", error="not called")


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


def test_images_of_a_result_are_kept():
    dot = {"type": "image", "data": "AA==", "media_type": "image/png"}
    progress = progress_of(told(STEP, CALL, {**RESULT, "parts": [dot]}))
    assert progress.messages[1].parts == (ImagePart(data=b"\x00", media_type="image/png"),)


def test_a_call_that_waits_for_a_person_has_not_begun_until_somebody_decides():
    wait = Waiting(id="p", requests={"c1": ASKED_FOR}, results=[TOLD])
    begun = [ModelCalled(agent_name="a"), Replied(message=TWICE, usage=ONE_CALL), wait]
    progress = progress_of(begun)
    assert progress.messages[1:] == [
        ToolResult(tool_call_id="c1", tool_name="add", error=WAITS), TOLD
    ]  # fmt: skip
    assert progress.last.waits_for is wait
    progress = progress_of([*begun, Decided(id="p", edited={"c1": {"n": 1}})])
    assert progress.messages[1].error == '(A person changed the arguments to {"n":1}.)\n' + CUT_OFF
    assert (progress.last.waits_for, progress.decided) == (None, {"p"})


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


CALLED = ModelCalled(agent_name="a")
ADD = ToolCall(id="c1", name="add", arguments="{}")
ASKED = AssistantMessage(tool_calls=[ADD])
ONE_CALL = Usage(input_tokens=3, output_tokens=2, total_tokens=5)
FIVE = ToolResult(tool_call_id="c1", tool_name="add", content="5")
LOST = ToolResult(tool_call_id="c1", tool_name="add", error=CUT_OFF)


def replied(message, cut=None):
    return Replied(message=message, usage=ONE_CALL, cut=cut)


def test_a_reply_that_was_kept_whole_counts_without_calls_too():
    said = AssistantMessage(content="It is five.")
    progress = progress_of([CALLED, replied(said)])
    assert progress.messages == [said]
    assert progress.last.reply.message == said
    assert progress.spent == Spent(usage=ONE_CALL, steps={"a": 1})


def test_a_result_that_was_replaced_is_the_later_one():
    shorter = FIVE.model_copy(update={"content": "[stored]"})
    entries = [CALLED, replied(ASKED), ToolDone(result=FIVE), ToolDone(result=shorter), CALLED]
    assert progress_of(entries).messages == [ASKED, shorter]


def test_a_step_from_which_nothing_followed_is_the_last_one():
    assert progress_of([CALLED, replied(ASKED)]).last.result(ADD) == LOST
    assert progress_of([CALLED, replied(ASKED), ToolDone(result=FIVE), CALLED]).last is None


def test_a_correction_belongs_to_what_was_said():
    wrong = UserMessage(content="Do better.")
    said = AssistantMessage(content="x")
    progress = progress_of([CALLED, replied(said), Said(message=wrong)])
    assert (progress.messages, progress.last) == ([said, wrong], None)


def test_who_gets_the_conversation_has_what_follows():
    entries = [CALLED, replied(ASKED), ToolDone(result=FIVE), HandedOff(target="b"), CALLED]
    progress = progress_of([*entries, replied(AssistantMessage(content="done"))])
    assert (progress.agent_name, progress.handed_at, len(progress.messages)) == ("b", 2, 3)


def test_agents_of_a_flow_are_told_apart_and_what_tools_spent_counts():
    found = progress_by_scope(
        [
            ModelCalled(agent_name="a", scope="a"),
            ModelCalled(agent_name="b", scope="b"),
            Replied(message=ASKED, usage=ONE_CALL, scope="b"),
            Took(spent=Spent(usage=ONE_CALL, steps={"w": 2}), scope="b"),
            Answered(answer="yes", scope="a"),
        ]
    )
    assert (found["a"].answer, found["a"].messages) == ("yes", [])
    assert found["b"].messages == [ASKED, LOST]
    assert found["b"].spent == Spent(usage=ONE_CALL + ONE_CALL, steps={"b": 1, "w": 2})


IDS = st.sampled_from(["c1", "c2", "c3"])
RESULTS = st.builds(ToolResult, tool_call_id=IDS, tool_name=st.just("t"), content=st.text())
CALLS = st.lists(IDS, unique=True).map(lambda ids: [ToolCall(id=i, name="t") for i in ids])
MESSAGES = st.builds(AssistantMessage, content=st.text(), tool_calls=CALLS)
ENTRIES = st.one_of(
    st.builds(ModelCalled, agent_name=st.sampled_from("ab")),
    st.builds(Replied, message=MESSAGES, usage=st.just(ONE_CALL)),
    st.builds(ToolDone, result=RESULTS),
    st.builds(Said, message=st.builds(UserMessage, content=st.text())),
    st.builds(HandedOff, target=st.sampled_from("ab")),
    st.builds(Took, spent=st.just(Spent(steps={"w": 1}))),
    st.builds(Waiting, id=st.just("p"), requests=st.just({"c1": ASKED_FOR})),
    st.builds(Decided, id=st.just("p"), results=st.lists(RESULTS)),
    st.builds(Answered, answer=st.text()),
    st.sampled_from(told(STEP, text("x"), CALL, RESULT, {"type": "resumed"})),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(ENTRIES, max_size=30))
def test_whatever_order_entries_have_what_is_read_is_a_valid_conversation(entries):
    progress = progress_of(entries)
    check(progress.messages, system=False)
    assert 0 <= progress.handed_at <= len(progress.messages)
    assert progress.kept <= len(entries)
    if progress.last is not None:
        tail = progress.last.messages()
        assert progress.messages[-len(tail) :] == tail
