"""What an agent says and does as lines: readable, short, and nothing that a terminal would obey."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from orbiter.cli.kubectl.tool_calls import describe_call
from orbiter.cli.kubectl.transcript_text import Line, Renderer
from orbiter.cli.ui.text import plain
from orbiter_contracts.transcript import AnyEvent, TranscriptEvent

EVENTS: TypeAdapter[AnyEvent] = TypeAdapter(TranscriptEvent)
AT = datetime(2026, 1, 10, 12, tzinfo=UTC)
EDIT = {"file_path": "src/login.py", "old_string": "a = 1\nb = 2\n", "new_string": "a = 1\nb = 3\n"}


def event(kind: str, **fields: Any) -> AnyEvent:
    return EVENTS.validate_python({"type": kind, "at": AT, "attempt": 1, **fields})


def call(tool: str, arguments: Any, **fields: Any) -> AnyEvent:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return event("tool_call", tool_name=tool, arguments=text, **fields)


def lines(*events: AnyEvent) -> list[Line]:
    renderer = Renderer()
    told = [line for each in events for line in renderer.add(each)]
    return [*told, *renderer.flush()]


def texts(*events: AnyEvent) -> list[str]:
    return [line.text for line in lines(*events)]


def test_pieces_of_a_text_become_its_lines() -> None:
    pieces = ["I lo", "ok at it.\nThen", " I test", " it."]
    assert texts(*(event("text", text=piece) for piece in pieces)) == [
        "I look at it.",
        "Then I test it.",
    ]


def test_figures_that_come_in_the_middle_of_a_text_do_not_part_it() -> None:
    figures = event("usage", usage={"input_tokens": 5}, cost_usd=0.5)
    renderer = Renderer()
    assert renderer.add(event("text", text="I lo")) == renderer.add(figures) == []
    assert renderer.add(event("text", text="ok at it.\n")) == [Line("I look at it.")]
    assert (renderer.tokens, renderer.cost) == ((5, 0), 0.5)


def test_a_line_comes_when_something_else_begins_or_it_is_long() -> None:
    renderer = Renderer()
    assert renderer.add(event("text", text="I look")) == []
    assert renderer.add(call("Bash", {"command": "ls"})) == [
        Line("I look"),
        Line("→ Bash  ls", "tool"),
    ]
    [first] = renderer.add(event("text", text="word " * 40))
    assert len(first.text) <= 160
    assert first.text.endswith("word")
    assert (
        " ".join([first.text, *(line.text for line in renderer.flush())]).split() == ["word"] * 40
    )


def test_what_the_agent_thinks_is_told_from_what_it_says() -> None:
    told = lines(event("thinking", text="Hm."), event("text", text="It is so."))
    assert told == [Line("Hm.", "dim"), Line("It is so.")]


def test_a_tool_is_told_with_its_target_and_how_long_it_took() -> None:
    told = lines(
        call("Bash", {"command": "pytest -q", "timeout": 5}, tool_call_id="1"),
        event("tool_result", tool_call_id="1", content="ok", seconds=3.21),
        call("Bash", {"command": ["npm", "run it"]}, tool_call_id="2"),
        call("Read", {"file_path": "a.py"}, tool_call_id="3"),
        event("tool_result", tool_call_id="2", error="Exit code 1\nno such\n", seconds=0.5),
        event("tool_result", tool_call_id="3", content="text"),
    )
    assert told == [
        Line("→ Bash  pytest -q", "tool"),
        Line("  ✓ 3.2 s", "good"),
        Line("→ Bash  npm 'run it'", "tool"),
        Line("→ Read  a.py", "tool"),
        Line("  ✗ Bash  npm 'run it' 0.5 s: Exit code 1 no such", "bad"),
        Line("  ✓ Read  a.py", "good"),
    ]


def test_an_edit_is_a_short_diff() -> None:
    assert lines(call("Edit", EDIT)) == [
        Line("→ Edit  src/login.py", "tool"),
        Line("    - b = 2", "del"),
        Line("    + b = 3", "add"),
    ]
    written = call("Write", {"file_path": "n.txt", "content": "\n".join(map(str, range(30)))})
    title, *diff, more = lines(written)
    assert title.text == "→ Write  n.txt"
    assert [line.text for line in diff] == [f"    + {number}" for number in range(12)]
    assert more == Line("    … 18 more lines", "dim")


@pytest.mark.parametrize(
    ("tool", "arguments", "title", "diff"),
    [
        ("edit", {"filePath": "a", "oldString": "x", "newString": "y"}, "edit  a", ("- x", "+ y")),
        ("replace", {"path": "a", "old_string": "", "new_string": "y"}, "replace  a", ("+ y",)),
        ("MultiEdit", {"path": "a", "edits": [{"old": "x", "new": "y"}, 7]}, "MultiEdit  a",
         ("- x", "+ y")),
        ("apply_patch", {"input": "*** Update File: a\n@@\n-x\n+y\n z"}, None, ("- x", "+ y")),
        ("file_change", {"changes": [{"path": "a.py", "kind": "add"}, {"path": "b"}, 1]},
         "file_change  a.py, b", ()),
        ("Grep", {"pattern": "x", "content": "y"}, "Grep  x", ()),
        ("Bash", '{"command": "echo one; ec… [cut', "Bash  echo one; ec… [cut", ()),
        ("odd", "[1, 2]", "odd  [1, 2]", ()),
        ("odd", "{}", "odd", ()),
        ("Glob", {"unknown": 1}, 'Glob  {"unknown": 1}', ()),
    ],
)  # fmt: skip
def test_the_calls_of_many_agents_are_understood(
    tool: str, arguments: Any, title: str | None, diff: tuple[str, ...]
) -> None:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    found = describe_call(tool, text)
    assert title is None or found.title == title
    assert found.diff == diff


def test_questions_errors_and_what_is_missing_are_told() -> None:
    assert lines(
        event("input_request", question="Which\nbranch?"),
        event("error", error="overloaded"),
        event("cut", events=1200, bytes=5),
        event("cut"),
        event("verdict", status="success", text="done"),
    ) == [
        Line("? Which", "ask"),
        Line("? branch?", "ask"),
        Line("! overloaded", "bad"),
        Line("… 1,200 events are missing here", "dim"),
        Line("… something is missing here", "dim"),
    ]


def test_an_agent_that_was_asked_by_the_agent_is_named() -> None:
    told = texts(event("text", text="I found it.\n", agent_name="explorer"))
    assert told == ["[explorer] I found it."]


def test_cost_and_tokens_are_those_of_the_last_word() -> None:
    renderer = Renderer()
    renderer.add(event("text", text="a", cost_usd=0.25))
    renderer.add(event("usage", usage={"input_tokens": 12, "output_tokens": 3}, cost_usd=0.5))
    assert (renderer.cost, renderer.tokens, renderer.ended) == (0.5, (12, 3), False)
    renderer.add(event("verdict", status="success"))
    assert renderer.ended


hostile = st.text(max_size=300) | st.sampled_from(
    [
        "\x1b]0;pwned\a", "\x9b31m", "\u202eevil", "\ud800", "\r", "\x1b\x1b[0m[31m", "\u2028",
        "\x1b[2J" * 50, "x" * 5000, "\n" * 300, "-\n+\n--- a\n+++ b\n@@", '{"path": "\x1b[31m"}',
    ]
)  # fmt: skip
arguments = hostile | st.recursive(
    st.none() | st.booleans() | st.floats() | hostile,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["path", "command", "edits", "changes", "content", "old", "new", "input"]
            )
            | hostile,
            inner,
            max_size=5,
        )
    ),
    max_leaves=10,
).map(json.dumps)
strange = st.one_of(
    st.builds(
        lambda text, opens: {"type": "text", "text": text, "opens": opens}, hostile, st.booleans()
    ),
    st.builds(lambda text: {"type": "thinking", "text": text}, hostile),
    st.builds(
        lambda tool, given, key: {
            "type": "tool_call",
            "tool_name": tool[:200],
            "arguments": given,
            "tool_call_id": key,
        },
        hostile,
        arguments,
        st.sampled_from(["", "1", "2"]),
    ),
    st.builds(
        lambda text, error, key: {
            "type": "tool_result",
            "tool_name": text[:200],
            "content": text,
            "error": error,
            "tool_call_id": key,
        },
        hostile,
        st.none() | hostile,
        st.sampled_from(["", "1", "2"]),
    ),
    st.builds(lambda text: {"type": "input_request", "question": text}, hostile),
    st.builds(lambda text: {"type": "error", "error": text}, hostile),
    st.builds(lambda count: {"type": "cut", "events": count}, st.integers(0, 2**40)),
)


@given(st.lists(st.tuples(strange, hostile), max_size=8))
def test_whatever_an_agent_says_a_terminal_obeys_nothing_of_it(
    said: list[tuple[dict[str, Any], str]],
) -> None:
    events = []
    for fields, name in said:
        try:
            events.append(
                EVENTS.validate_python({"at": AT, "attempt": 1, "agent_name": name[:200], **fields})
            )
        except ValueError:
            continue
    for text, _ in lines(*events):
        assert plain(text) == text
        assert "\n" not in text
        assert len(text) <= 1200
        text.encode()
