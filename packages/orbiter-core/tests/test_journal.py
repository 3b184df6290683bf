"""Entries of a run: what is written can be read, and whatever is there is read or refused."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbiter import journal
from orbiter.approval import InputCall, InputRequest
from orbiter.errors import JournalError
from orbiter.journal import (
    Answered,
    Begun,
    Decided,
    Replied,
    ToolDone,
    Waiting,
    read_entry,
    write_entry,
)
from orbiter.parts import ImagePart, OpaquePart, ThinkingPart
from orbiter.types import AssistantMessage, ToolCall, ToolResult, Usage, UserMessage

BEGUN = Begun(target="agent a", input=UserMessage(content="go"), history=[])


def deep(levels: int) -> dict:
    found: dict = {}
    for _ in range(levels):
        found = {"a": found}
    return found


def replied(*parts) -> Replied:
    message = AssistantMessage(
        content="x", tool_calls=[ToolCall(id="1", name="t", arguments="{")], parts=parts
    )
    return Replied(message=message, usage=Usage(input_tokens=1), cut="length")


DOT = ImagePart(data=b"\x00", media_type="image/png")
WHOLE = [
    BEGUN,
    replied(),
    replied(
        ThinkingPart(text="hm", signature="s", vendor="anthropic"),
        OpaquePart(vendor="openai", data={"a": [1, None]}),
    ),
    ToolDone(scope="b", result=ToolResult(tool_call_id="1", tool_name="t", parts=(DOT,))),
    Waiting(
        id="0" * 32,
        requests={"1": InputRequest(id="a", kind="approval", calls=(InputCall.of("t", {"a": 1}),))},
    ),
    Decided(id="0" * 32, edited={"1": {"a": [2, None]}}),
]


@pytest.mark.parametrize("entry", WHOLE)
def test_what_is_written_is_read_as_it_was(entry):
    assert read_entry(write_entry(entry)) == entry


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
types = st.sampled_from(
    ["begun", "model_called", "replied", "tool_done", "waiting", "decided", "said", "handed_off",
     "took", "answered", "resumed", "step", "text", "tool_call", "tool_result", "usage", "handoff",
     "input_request", "end", 7]
)  # fmt: skip
names = st.sampled_from(
    ["scope", "version", "target", "input", "history", "agent_name", "message", "usage", "cut",
     "result", "spent", "answer", "step", "text", "tool_call_id", "id", "requests", "results",
     "edited", "request"]
)  # fmt: skip
almost = st.builds(
    lambda kind, rest: json.dumps({**rest, "type": kind}),
    types,
    st.dictionaries(names, json_values),
)


@settings(max_examples=500, deadline=None)
@given(st.one_of(almost, st.text(), json_values, json_values.map(json.dumps), st.binary()))
def test_whatever_is_there_is_an_entry_or_refused_with_a_sentence(found):
    problem = None
    try:
        entry = read_entry(found)
    except JournalError as error:
        problem = str(error)
    if problem is None:
        assert read_entry(write_entry(entry)) == entry
    else:
        assert "no entry of a run" in problem
        assert len(problem) < 1000


@pytest.mark.parametrize(
    "found",
    [
        "[" * 100_000,
        '{"type": "answered", "answer": ' + "[" * 5000,
        '{"type": "answered", "answer": "\ud800"}',
        write_entry(BEGUN).replace('"version":1', '"version":2'),
        None,
        b"{}",
    ],
    ids=["deep", "deep in a field", "half a character", "version 2", "nothing", "bytes"],
)
def test_what_is_none_is_refused(found):
    with pytest.raises(JournalError, match="no entry of a run"):
        read_entry(found)


@pytest.mark.parametrize(
    "entry",
    [
        replied(OpaquePart(vendor="x", data=deep(210))),
        replied(OpaquePart(vendor="x", data=deep(2000))),
        Answered(answer="\ud800"),
    ],
    ids=["too deep to read", "too deep to write", "half a character"],
)
def test_what_could_not_be_read_again_is_not_written(entry):
    with pytest.raises(JournalError, match="of the run cannot be kept"):
        write_entry(entry)


def test_an_entry_has_a_bound_where_it_is_written_and_where_it_is_read(monkeypatch):
    monkeypatch.setattr(journal, "LONGEST_ENTRY", 100)
    with pytest.raises(JournalError, match="have tools return less"):
        write_entry(Answered(answer="x" * 100))
    with pytest.raises(JournalError, match="no entry of a run"):
        read_entry(json.dumps({"type": "answered", "answer": "x" * 100}))
