"""What a session asks, and what is an answer to it: whatever its streams hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter_contracts import POWorkerOutput, encode
from orbiter_contracts.session_questions import asked_in, refusal


def output(request: str, status: str, **fields: object) -> dict[str, str]:
    told = {"request_id": request, "user_id": 7, "text": "Which?", "status": status, **fields}
    return encode(POWorkerOutput.model_validate(told))


ASKS = output("r-1", "input_required")
NONE = output("r-2", "error", reason="InvalidMessage")


def test_the_last_answer_asks() -> None:
    found = asked_in([ASKS, output("r-0", "success")])
    assert found is not None
    assert (found.request_id, found.text) == ("r-1", "Which?")


@pytest.mark.parametrize(
    "newest",
    [
        output("r-2", "success"),
        output("r-2", "error", reason="WorkerCrashed"),
        output("r-2", "input_required", is_final=False),
        {"data": "no JSON"},
        {},
    ],
)
def test_what_came_behind_the_question_takes_it_away(newest: dict[str, str]) -> None:
    assert asked_in([newest, ASKS]) is None


def test_a_message_that_was_none_leaves_the_question() -> None:
    found = asked_in([NONE, NONE, ASKS])
    assert found is not None
    assert found.request_id == "r-1"
    assert asked_in([NONE]) is None
    assert asked_in([]) is None


def test_an_answer_is_to_the_question_that_was_shown_and_comes_first() -> None:
    assert refusal("r-1", 0, [ASKS]) is None
    assert refusal("r-0", 0, [ASKS]) == "it asks something else by now"
    assert refusal("r-1", 0, [output("r-2", "success"), ASKS]) == "it asks nothing any more"
    assert refusal("r-1", 1, [ASKS]) == "it has a message already that it has not answered yet"


@given(st.lists(st.dictionaries(st.binary(), st.binary())))
def test_whatever_an_output_holds_it_is_read(outputs: list[dict[bytes, bytes]]) -> None:
    assert asked_in(outputs) is None
