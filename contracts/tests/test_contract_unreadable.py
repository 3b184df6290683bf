"""What can still be said of a message that nobody can read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter_contracts.unreadable import request_id, task_id, user_id

DEEP = '{"a":' * 2000


def heard(data: str) -> tuple[str | None, int | None]:
    fields = {"data": data}
    return request_id(fields), user_id(fields)


@pytest.mark.parametrize(
    "data",
    [
        '{"request_id": "r-1", "user_id": 7, "prompt": 5}',
        '{"request_id":"r-1","user_id":"7"}',
        '{"user_id": 7, "request_id": "r-1", "more": ' + DEEP,
        '{"more": [[{"request_id": "no"}]], "request_id": "r-1", "user_id": 7}',
        '{"prompt": "{\\"request_id\\": \\"no\\"}", "request_id": "r-1", "user_id": 7}',
        '{"prompt": "\\\\", "request_id": "r-1", "user_id": 7',
        '{"request_id": "r-1", "user_id": 7, "prompt": "\udcff\udcfe"}',
        '{"request_id": "no", "request_id": "r-1", "user_id": 7}',
        '  {"request_id" : "r-1" , "user_id" : 7, "prompt": "never ends',
    ],
)
def test_a_message_that_names_its_sender_is_heard(data: str) -> None:
    assert heard(data) == ("r-1", 7)


@pytest.mark.parametrize(
    "value", ["5", "null", '""', '["r"]', '"' + "x" * 513 + '"', r'"\u0000"', "{", '"', r'"\ud8"']
)
def test_what_no_answer_could_carry_is_not_heard(value: str) -> None:
    assert heard(f'{{"request_id": {value}') == (None, None)


@pytest.mark.parametrize(
    "value", ["1e999", "7.5", str(2**70), "9" * 5000, '"seven"', "null", "[7]"]
)
def test_what_is_no_user_is_not_heard(value: str) -> None:
    assert heard(f'{{"request_id": "r", "user_id": {value}}}') == ("r", None)


def test_what_is_nested_or_comes_late_is_not_heard() -> None:
    assert heard('{"x": {"request_id": "r-1"}}') == (None, None)
    assert heard('["request_id", "r-1"]') == (None, None)
    assert heard(json.dumps({"prompt": "x" * 300_000, "request_id": "r"})) == (None, None)


def test_in_an_endless_text_full_of_quotes_nothing_is_heard() -> None:
    assert heard('{"prompt": "' + '\\"' * 130_000) == (None, None)


@given(st.text() | st.text('{}[]":,\\ r').map(lambda text: '{"request_id"' + text))
def test_whatever_it_is_there_is_an_answer(data: str) -> None:
    for found in (request_id({"data": data}), task_id({"data": data})):
        assert found is None or 0 < len(found) <= 512
    assert user_id({"data": data}) is None or isinstance(user_id({"data": data}), int)


@given(st.text(min_size=1, max_size=512), st.integers(-(2**63), 2**63 - 1), st.booleans())
def test_every_sender_that_a_message_may_have_is_heard(name: str, user: int, escaped: bool) -> None:
    data = json.dumps({"request_id": name, "user_id": user}, ensure_ascii=escaped)
    assert heard(data) == (name if "\0" not in name else None, user)
