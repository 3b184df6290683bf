"""What a person types to a request, and what the person is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strange_values import TEXTS

from orbiter.approval import InputCall, InputRequest, describe, read_reply
from orbiter.errors import InputAnswerError

CALL = InputCall.of("refund", {"order": 7})
APPROVAL = InputRequest(id="a", kind="approval", calls=(CALL,))
QUESTION = InputRequest(id="q", kind="question", text="Which lamp?")


@pytest.mark.parametrize(
    ("typed", "decision", "text", "arguments"),
    [
        ("approve", "approve", None, None),
        (" Yes! ", "approve", None, None),
        ("y", "approve", None, None),
        ('approve {"order": 8}', "approve", None, {"order": 8}),
        ("deny", "deny", None, None),
        ("No, it is too expensive", "deny", "it is too expensive", None),
        ('{"id": "a", "decision": "deny", "text": "no"}', "deny", "no", None),
    ],
)
def test_a_person_types_a_decision(typed, decision, text, arguments):
    answer = read_reply(APPROVAL, typed, by="ada")
    assert (answer.id, answer.decision) == ("a", decision)
    assert (answer.text, answer.arguments) == (text, arguments)


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("perhaps", "'perhaps' is no answer: type `approve`, `deny REASON`"),
        ("", "'' is no answer"),
        ("approve all of it", "this is no answer"),
        ("approve [1]", "stands a JSON object"),
        ('approve {"order": NaN}', "this is no answer"),
        ('{"id": "b", "decision": "approve"}', "is to 'b', and what waits is 'a'"),
        ('{"id": "a", "decision": "approve", "digest": "%s"}' % ("0" * 64), "to another call"),
        ('{"id": "a"}', "give a text or a decision"),
    ],
)
def test_what_is_no_decision_is_refused_and_says_what_to_type(typed, why):
    with pytest.raises(InputAnswerError, match=why.replace("[", r"\[")):
        read_reply(APPROVAL, typed)


def test_the_answer_to_a_question_is_any_text():
    assert read_reply(QUESTION, "no, the red one").text == "no, the red one"
    assert describe(QUESTION) == "Which lamp?"


@given(TEXTS, st.sampled_from([APPROVAL, QUESTION]))
def test_whatever_is_typed_is_an_answer_or_refused_in_one_line(typed, request_):
    try:
        answer = read_reply(request_, typed)
    except InputAnswerError as error:
        refused = str(error)
    else:
        assert request_.refusal(answer) is None
        return
    assert refused.isprintable()


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=20), max_size=4))
def test_a_person_sees_all_of_the_arguments_and_nothing_that_hides_some(arguments):
    request = InputRequest(id="a", kind="approval", calls=(InputCall.of("refund", arguments),))
    shown = describe(request)
    assert shown.isprintable()
    text = shown.removeprefix("May it call refund ").partition(" ? Answer `approve`")
    answer = read_reply(request, f"approve {text[0]}") if "\u2028" not in text[0] else None
    assert answer is None or answer.arguments == arguments


def test_marks_that_turn_letters_around_are_shown_as_what_they_are():
    request = InputRequest(
        id="a", kind="approval", calls=(InputCall.of("rm", {"path": "a\u202ecod\x1b[2K\u200b"}),)
    )
    assert r"a\u202ecod\u001b[2K\u200b" in describe(request)


def test_who_is_known_to_speak_cannot_claim_to_be_somebody_else():
    claimed = '{"id": "a", "decision": "approve", "by": "root"}'
    assert read_reply(APPROVAL, claimed, by="ada").by == "ada"
    assert read_reply(APPROVAL, claimed).by == "root"


@pytest.mark.parametrize(
    "typed", ["\ud800", "approve \ud800", 'approve {"a": "\udcff"}', "{\ud800"]
)
@pytest.mark.parametrize("request_", [APPROVAL, QUESTION])
def test_half_a_character_is_no_answer(request_, typed):
    with pytest.raises(InputAnswerError, match="half a character"):
        read_reply(request_, typed)


def test_no_question_and_no_tool_has_the_terminal_obey():
    asked = QUESTION.model_copy(
        update={"text": "a\n\x1b[2J\u202eb\x9b1A \U0001f469\u200d\U0001f4bb"}
    )
    shown = describe(asked)
    assert shown == "a\n\\u001b[2J\\u202eb\\u009b1A \U0001f469\u200d\U0001f4bb"
    call = InputCall.of("refund\x1b[8m\u202e", {})
    shown = describe(InputRequest(id="a", kind="approval", calls=(call,)))
    assert shown.startswith(r"May it call refund\u001b[8m\u202e {} ?")
