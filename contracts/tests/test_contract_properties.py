"""Whatever bytes come in, a reader answers or refuses; whatever is made, can be sent."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.strange_values import (
    TEXTS,
    VALUES,
    WRITTEN,
    can_be_written,
    objects,
    with_fields,
    written,
)

from orbiter_contracts import (
    AgentVerdict,
    Checkpoint,
    DeveloperWorkerInput,
    DeveloperWorkerOutput,
    InvalidMessageError,
    POState,
    POTurn,
    POWorkerInput,
    POWorkerOutput,
    SessionRecord,
    Usage,
    WorkerLifecycleEvent,
    clamped_cost,
    clamped_count,
    clamped_data,
    decode,
    decode_json,
    encode,
    excerpt,
    fitted,
    read_route,
    text_fields,
)
from orbiter_contracts.agent_files import agent_files_problem
from orbiter_contracts.costs import cost_of, sum_costs
from orbiter_contracts.messages import Message
from orbiter_contracts.skills import read_fetched
from orbiter_contracts.trigger_events import TriggerEvent

KINDS: list[type[Message]] = [
    Checkpoint,
    DeveloperWorkerInput,
    DeveloperWorkerOutput,
    POTurn,
    POWorkerInput,
    POWorkerOutput,
    SessionRecord,
    TriggerEvent,
    WorkerLifecycleEvent,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_a_reader_returns_a_message_that_can_be_sent_or_refuses_in_one_line(
    kind: type[Message], data: st.DataObject
) -> None:
    raw = data.draw(st.binary(max_size=200) | objects(list(kind.model_fields)) | TEXTS)
    message, reason = None, ""
    try:
        message = decode_json(kind, raw)
    except InvalidMessageError as error:
        reason = str(error)
    if message is None:
        assert 0 < len(reason) <= 601
        assert reason.isprintable()
        assert reason.encode()
    else:
        again = encode(message)["data"]
        assert "NaN" not in json.dumps(json.loads(again, parse_constant=lambda name: "NaN!"))
        assert decode(kind, {b"data": again.encode()}) == message


@given(
    st.dictionaries(st.binary(max_size=20) | st.just(b"data"), st.binary(max_size=60), max_size=4)
)
def test_the_fields_of_an_entry_are_always_text_and_never_an_exception(
    fields: dict[bytes, bytes],
) -> None:
    for key, value in text_fields(fields).items():
        assert (key + value).encode() is not None
    with suppress(InvalidMessageError):
        decode(DeveloperWorkerInput, fields)


ROUTED = st.dictionaries(
    st.sampled_from(["agenttask", "attempt"]),
    TEXTS
    | st.sampled_from(
        ["team/fix", "a/b/c", "\u00b2", "9" * 5000, "0", "1", "01", "+1", "1\n", "\u0661"]
    ),
)


@given(ROUTED)
def test_a_route_is_read_or_refused_or_absent(fields: dict[str, str]) -> None:
    with suppress(InvalidMessageError):
        route = read_route(fields)
        assert route is None or (route.attempt >= 1 and fields["attempt"] == str(route.attempt))
        assert (route is None) == (not {"agenttask", "attempt"} <= set(fields))


@pytest.mark.parametrize("attempt", ["\u00b2", "9" * 5000, "0", "-1", "", "1 ", "\u0661", "1e3"])
def test_an_attempt_that_is_not_a_small_number_is_refused(attempt: str) -> None:
    with pytest.raises(InvalidMessageError, match="attempt: not a number"):
        read_route({"agenttask": "team/fix", "attempt": attempt})


@given(
    st.dictionaries(
        st.sampled_from([name.encode() for name in POState.model_fields]) | st.binary(max_size=9),
        st.binary(max_size=40) | WRITTEN.map(lambda text: text.encode("utf-8", "surrogatepass")),
        max_size=8,
    )
)
def test_a_sessions_state_is_always_read(fields: dict[bytes, bytes]) -> None:
    state = POState.of(fields)
    assert (state is None) == (not fields)
    if state is not None:
        assert state.model_dump_json(by_alias=True)
        moments = (state.last_activity, state.started_at, state.ready_at, state.busy_at)
        assert all(isinstance(one, datetime) and one.tzinfo for one in moments if one is not None)


@given(TEXTS | st.binary(max_size=2000), st.integers(1, 300))
def test_an_excerpt_is_one_bounded_printable_line(data: str | bytes, characters: int) -> None:
    shown = excerpt(data, characters)
    assert len(shown) <= characters + 1
    assert shown.isprintable()
    assert shown.encode() is not None
    assert excerpt(shown, characters + 1) == shown


@given(VALUES, VALUES, VALUES)
def test_what_an_agent_made_can_be_sent_once_it_is_clamped(
    count: Any, cost: Any, data: Any
) -> None:
    usage = Usage(turns=clamped_count(count), cost_usd=clamped_cost(cost))
    sane, problem = clamped_data(data if isinstance(data, dict) else {"data": data})
    assert problem is None or sane == {}
    verdict = AgentVerdict(summary=str(count)[:99] if can_be_written(count) else "", data=sane)
    output = DeveloperWorkerOutput(request_id="r", task_id="t", usage=usage, verdict=verdict)
    assert decode(DeveloperWorkerOutput, encode(fitted(output)[0])) == output


@given(st.lists(TEXTS, max_size=3))
def test_a_message_of_any_text_is_made_or_refused_and_never_fails_later(texts: list[str]) -> None:
    first, second, third = (*texts, "", "", "")[:3]
    try:
        task = DeveloperWorkerInput(task_id=first, prompt=second, project_id=third)
    except ValidationError:
        return
    assert encode(task)["data"].encode()


@given(with_fields(["text", "configMapKeyRef"]), st.lists(with_fields(["name", "git"]), max_size=3))
def test_instructions_and_skills_of_any_value_are_read_or_refused(said: Any, skills: Any) -> None:
    problem = agent_files_problem(said, skills)
    assert problem is None or problem.encode()


@given(WRITTEN | st.lists(with_fields(["name", "commit"]), max_size=3).map(written) | VALUES)
def test_the_last_words_of_any_container_are_skills_or_nothing(said: Any) -> None:
    assert isinstance(read_fetched(said), tuple)


PART = with_fields(
    ["namespace", "labels", "phase", "usage", "agent", "attempts", "turns", "completionTime"]
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), PART))
def test_an_object_of_any_contents_has_a_cost(item: dict[str, Any]) -> None:
    costs = [cost_of(item, "task"), cost_of(item, "session")]
    keys = ["namespace", "agent", "kind", "day"]
    _, total = sum_costs(costs, keys, datetime(2026, 1, 1, tzinfo=UTC))
    assert total.usd >= 0
