"""Requests and answers: bounded, read by one total function, and an answer is to what was seen."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strange_values import TEXTS, WRITTEN, objects

from orbiter_contracts import InputAnswer, InputRequest, InvalidMessageError, decode_json
from orbiter_contracts.input_requests import InputCall, digest
from orbiter_contracts.messages import Message

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CALL = InputCall(tool="refund", arguments={"order": 7}, digest=digest("refund", {"order": 7}))
APPROVAL = InputRequest(id="a", kind="approval", calls=(CALL,), expires=NOW + timedelta(hours=1))
QUESTION = InputRequest(id="q", kind="question", text="Which lamp?")


def test_the_json_of_a_request_is_frozen() -> None:
    assert APPROVAL.model_dump_json() == (
        '{"id":"a","kind":"approval","text":"","calls":[{"tool":"refund","arguments":{"order":7},'
        '"digest":"88d97f2cfca5be771e59303556d96e883068e37fd3a19816d41c5c5d8e57cf01"}],'
        '"expires":"2026-01-01T01:00:00Z"}'
    )


@pytest.mark.parametrize("kind", [InputRequest, InputAnswer])
@given(data=st.data())
def test_a_reader_returns_a_message_or_refuses_in_one_line(
    kind: type[Message], data: st.DataObject
) -> None:
    raw = data.draw(st.binary(max_size=200) | objects(list(kind.model_fields)) | TEXTS | WRITTEN)
    message, reason = None, ""
    try:
        message = decode_json(kind, raw)
    except InvalidMessageError as error:
        reason = str(error)
    if message is None:
        assert 0 < len(reason) <= 601
        assert reason.isprintable()
    else:
        assert decode_json(kind, message.model_dump_json()) == message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"id":"a"}', "give a text or a decision"),
        ('{"id":"","text":"x"}', "at least 1"),
        ('{"id":"a","decision":"maybe"}', "approve"),
        ('{"id":"a","decision":"deny","arguments":{}}', "arguments go with"),
        ('{"id":"a","decision":"approve","arguments":{"a":NaN}}', "NaN"),
        ('{"id":"a","text":"' + "x" * 70_000 + '"}', "65536"),
        ('{"id":"a","text":"x","digest":"abc"}', "digest"),
    ],
)
def test_what_is_no_answer_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidMessageError, match=why):
        decode_json(InputAnswer, text)


def test_a_request_with_a_digest_of_something_else_is_refused() -> None:
    text = APPROVAL.model_dump_json().replace('"order":7', '"order":8')
    with pytest.raises(InvalidMessageError, match="digest is not that of tool and arguments"):
        decode_json(InputRequest, text)


@pytest.mark.parametrize(
    ("request_", "answer", "why"),
    [
        (APPROVAL, {"id": "a", "decision": "approve"}, None),
        (APPROVAL, {"id": "a", "decision": "approve", "digest": CALL.digest}, None),
        (APPROVAL, {"id": "a", "decision": "approve", "arguments": {"order": 8}}, None),
        (APPROVAL, {"id": "b", "decision": "approve"}, "is to 'b', and what waits is 'a'"),
        (APPROVAL, {"id": "a", "decision": "approve", "digest": "0" * 64}, "to another call"),
        (APPROVAL, {"id": "a", "text": "yes"}, "wants a decision"),
        (QUESTION, {"id": "q", "text": "the red one"}, None),
        (QUESTION, {"id": "q", "decision": "deny"}, None),
        (QUESTION, {"id": "q", "decision": "approve"}, "wants a text"),
    ],
)
def test_an_answer_is_to_what_was_seen(
    request_: InputRequest, answer: dict[str, Any], why: str | None
) -> None:
    found = request_.refusal(InputAnswer(**answer), NOW)
    assert found == why or (why is not None and found is not None and why in found)


def test_no_answer_is_taken_once_the_request_has_expired() -> None:
    late = APPROVAL.refusal(InputAnswer(id="a", decision="deny"), NOW + timedelta(hours=1))
    assert late == "the request has expired at 2026-01-01T01:00:00+00:00"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(25.0, 25), (-0.0, 0), (1e16, 10**16), ([{"a": 2.0}], [{"a": 2}])],
)
def test_a_call_has_one_digest_however_its_numbers_are_written(ours: Any, theirs: Any) -> None:
    of_ours = digest("refund", {"amount": ours})
    # an API server gives 25.0 back as 25
    call = InputCall(tool="refund", arguments={"amount": theirs}, digest=of_ours)
    assert call.digest != digest("refund", {"amount": 25.5})
