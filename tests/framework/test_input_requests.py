"""The framework's requests and answers are those of the contracts, which it does without."""

import contextlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strange_values import TEXTS, VALUES, WRITTEN, can_be_written, objects

import orbiter_contracts.input_requests as wire
from orbiter import approval
from orbiter.types import OrbiterError
from orbiter_contracts import InvalidMessageError, decode_json

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", ["InputCall", "InputRequest", "InputAnswer"])
def test_both_have_the_same_fields(name: str) -> None:
    ours, theirs = getattr(approval, name).model_fields, getattr(wire, name).model_fields
    assert list(ours) == list(theirs)
    for field in ours:
        assert ours[field].is_required() == theirs[field].is_required()
        assert ours[field].default == theirs[field].default


@given(st.dictionaries(TEXTS, VALUES, max_size=4).filter(can_be_written))
def test_both_make_one_digest(arguments: dict[str, object]) -> None:
    try:
        call = approval.InputCall.of("refund", arguments)
    except ValueError:
        return
    assert wire.digest("refund", arguments) == call.digest
    request = approval.InputRequest(id="a", kind="approval", calls=(call,))
    read = decode_json(wire.InputRequest, request.model_dump_json())
    assert json.loads(read.model_dump_json()) == json.loads(request.model_dump_json())


@given(st.binary(max_size=200) | WRITTEN | objects(list(wire.InputAnswer.model_fields)))
def test_what_one_takes_for_an_answer_the_other_takes_too(text: bytes | str) -> None:
    ours = theirs = None
    with contextlib.suppress(OrbiterError):
        ours = approval.read_answer(text).model_dump_json()
    with contextlib.suppress(InvalidMessageError):
        theirs = decode_json(wire.InputAnswer, text).model_dump_json()
    assert ours == theirs


@given(
    st.builds(
        approval.InputAnswer,
        id=st.sampled_from(["a", "b"]),
        digest=st.sampled_from([None, "0" * 64, approval.digest("refund", {"order": 7})]),
        text=st.sampled_from([None, "yes"]),
        decision=st.sampled_from(["approve", "deny"]),
    ),
    st.sampled_from(["question", "approval"]),
    st.sampled_from([None, NOW]),
)
def test_both_refuse_the_same_answers_in_the_same_words(
    answer: approval.InputAnswer, kind: str, expires: datetime | None
) -> None:
    call = approval.InputCall.of("refund", {"order": 7})
    ours = approval.InputRequest(id="a", kind=kind, calls=(call,), expires=expires)  # type: ignore[arg-type]
    theirs = decode_json(wire.InputRequest, ours.model_dump_json())
    said = decode_json(wire.InputAnswer, answer.model_dump_json())
    assert ours.refusal(answer, now=NOW) == theirs.refusal(said, NOW)
