"""Whatever a stranger has made of a paused run or sends as an answer: it is read or refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strange_values import TEXTS, VALUES, WRITTEN, objects

from orbiter import Agent, run, tool
from orbiter._json_bounds import problem_of
from orbiter._paused import Paused, read_paused
from orbiter.approval import InputAnswer, InputCall, InputRequest, digest, read_answer, requests_of
from orbiter.models import ScriptedModel, call
from orbiter.types import OrbiterError


@tool(approval=True)
def refund(order: int) -> str:
    """Give money back."""
    raise AssertionError(order)


@tool
def look(order: int) -> str:
    """Look."""
    return f"order {order}"


def _paused() -> dict[str, Any]:
    model = ScriptedModel([call("refund", order=7), call("look", order=1)])
    result = run.sync(Agent(name="clerk", tools=[refund, look]), "hi", provider=model)
    assert result.paused is not None
    kept: dict[str, Any] = json.loads(result.paused)
    return kept


KEPT = _paused()
FIELDS = list(Paused.model_fields)


def _places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: Any = ()
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
    own = [way] if way else []
    return [*own, *(place for key, one in inner for place in _places(one, (*way, key)))]


def _changed(way: tuple[Any, ...], value: Any) -> str:
    changed = json.loads(json.dumps(KEPT))
    part = changed
    for key in way[:-1]:
        part = part[key]
    part[way[-1]] = value
    return json.dumps(changed)


@given(st.binary(max_size=200) | TEXTS | WRITTEN | objects(FIELDS))
def test_a_paused_run_is_read_or_refused_in_one_line(text: Any) -> None:
    with pytest.raises(OrbiterError) as refused:
        read_paused(text)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 1000


@given(place=st.sampled_from(_places(KEPT)), value=VALUES)
def test_a_changed_run_is_read_or_refused_and_shows_what_the_model_called(
    place: tuple[Any, ...], value: Any
) -> None:
    try:
        text = _changed(place, value)
        paused = read_paused(text)
    except (OrbiterError, ValueError):
        return
    calls = {one.id: one for one in paused.calls}
    for identity, request in paused.open.items():
        assert request.calls[0].arguments == json.loads(calls[identity].arguments)
        assert digest(calls[identity].name, request.calls[0].arguments) == request.calls[0].digest
    assert read_paused(paused.to_json()) == paused


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (("version",), 2, "version"),
        (("open", "call_1", "calls", 0, "arguments", "order"), 8, "digest is not that"),
        (("open", "call_1", "calls", 0, "tool"), "look", "digest is not that"),
        (("open", "call_1", "text"), "May I?", "question is not that of model"),
        (("open", "call_1", "id"), "another", "id is not that of its call"),
        (("id",), "0" * 32, "id is not that of its call"),
        (("open",), {}, "open"),
        (("messages", 1, "tool_calls", 0, "arguments"), '{"order": 8}', "what was shown"),
        (("messages", 1, "tool_calls", 0, "arguments"), '{"order": true}', "what was shown"),
        (("messages", 1, "tool_calls", 1, "id"), "call_1", "two calls have one id|those that wait"),
        (("messages", 2, "tool_call_id"), "call_1", "those that wait or have results"),
        (("messages",), [], "messages"),
        (("messages",), [{"role": "tool", "tool_call_id": "a", "tool_name": "b"}], "messages"),
        (("start",), 2, "start: is behind"),
        (("began",), 1, "began: is behind"),
        (("start",), -1, "start"),
        (("steps", "clerk"), 2**60, "steps"),
        (("surprise",), 1, "surprise"),
    ],
)
def test_a_run_that_is_not_of_one_piece_is_refused(
    place: tuple[Any, ...], value: Any, why: str
) -> None:
    with pytest.raises(OrbiterError, match=f"no paused run of version 1: .*(?:{why})"):
        read_paused(_changed(place, value))


def test_a_run_that_is_too_large_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbiter._paused.MAX_PAUSED_BYTES", 100)
    with pytest.raises(OrbiterError, match="a paused run has at most so many: 100"):
        requests_of(json.dumps(KEPT))
    with pytest.raises(OrbiterError, match="cannot wait for a person: its conversation is"):
        _paused()


@given(st.binary(max_size=200) | TEXTS | WRITTEN | objects(list(InputAnswer.model_fields)))
def test_an_answer_is_read_or_refused_in_one_line(text: Any) -> None:
    refused = ""
    try:
        answer = read_answer(text)
    except OrbiterError as error:
        refused = str(error)
    if refused:
        assert refused.isprintable()
        assert len(refused) < 1000
    else:
        assert read_answer(answer.model_dump_json()) == answer


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "a"}',
        '{"id": "a", "decision": "maybe"}',
        '{"id": "a", "text": "x", "arguments": {}}',
        '{"id": "a", "decision": "deny", "arguments": {}}',
        '{"id": "a", "decision": "approve", "arguments": {"a": NaN}}',
        '{"id": "a", "decision": "approve", "arguments": {"a": 9999999999999999999}}',
        '{"id": "", "text": "x"}',
        '{"id": "a", "text": "' + "x" * 70_000 + '"}',
        " " * 2_000_000,
    ],
)
def test_what_is_no_answer_is_refused(text: str) -> None:
    with pytest.raises(OrbiterError, match="answer"):
        read_answer(text)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_a_call_has_one_digest_before_and_after_a_journey_as_json(arguments: Any) -> None:
    if problem_of(arguments) is not None:
        with pytest.raises(ValueError, match=r"has|is"):
            InputCall.of("refund", arguments)
        return
    made = InputCall.of("refund", arguments)
    request = InputRequest(id="a", kind="approval", calls=(made,))
    again = InputRequest.model_validate_json(request.model_dump_json())
    assert again.calls[0].digest == digest("refund", again.calls[0].arguments) == made.digest
    mixed = dict(reversed(list(arguments.items())))
    assert digest("refund", mixed) == made.digest
    assert digest("look", arguments) != made.digest


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("25.0", "25"),
        ("-0.0", "-0"),
        ("1e+16", "10000000000000000"),
        ('[{"a": 2.0}]', '[{"a": 2}]'),
    ],
)
def test_a_call_has_one_digest_however_its_numbers_are_written(ours: str, theirs: str) -> None:
    made = InputCall.of("refund", {"amount": json.loads(ours)})
    # what an API server, which has floats alone, or a browser makes of it
    again = made.model_dump() | {"arguments": {"amount": json.loads(theirs)}}
    assert InputCall.model_validate(again).digest == made.digest
    assert made.digest != digest("refund", {"amount": 25.5})


async def test_a_conversation_that_json_cannot_say_is_told_and_nothing_runs() -> None:
    model = ScriptedModel(call("refund", order=7))
    with pytest.raises(OrbiterError, match="cannot wait for a person"):
        await run(Agent(name="clerk", tools=[refund]), "\ud800", provider=model)
