"""What a call of a tool works on, whatever an agent has written as its arguments."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter_contracts.tool_targets import read_arguments, tool_target

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
    max_leaves=10,
)
NAMES = st.sampled_from(["path", "command", "changes", "query", "other"])


@given(st.text() | JSON.map(json.dumps) | st.dictionaries(NAMES, JSON).map(json.dumps))
def test_it_is_a_text_whatever_the_arguments_are(arguments: str) -> None:
    assert isinstance(tool_target(arguments), str)


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        ("[" * 9000, ""),
        ('{"n": ' + "9" * 5000 + "}", ""),
        ('{"path": "\\ud800"}', "\ud800"),
        ('{"path": " ", "command": ["a", 1], "query": "q"}', "q"),
        ('{"changes": [7, {"path": 7}, {"path": "a"}, {}]}', "a"),
        (json.dumps({"changes": [{"path": "a"}] * 1000}), ", ".join("a" * 10)),
        ('{"changes": {"path": "a"}}', ""),
        ('{"file_path": "a.py", "content": "cut he', "a.py"),
    ],
)
def test_odd_arguments_have_the_target_that_they_say(arguments: str, target: str) -> None:
    assert tool_target(arguments) == target


def test_what_is_no_object_is_read_as_none() -> None:
    assert [read_arguments(text) for text in ("7", "[]", "{", "")] == [None] * 4
