"""What a transcript may say, how long an event is, and what a reader makes of any bytes."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from orbiter_contracts.messages import Usage
from orbiter_contracts.queues import DATA_FIELD
from orbiter_contracts.transcript import (
    MAX_ENTRY_BYTES,
    MAX_EVENT_BYTES,
    AnyEvent,
    CutEvent,
    ErrorEvent,
    Event,
    InputRequestEvent,
    TextEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
    TranscriptEvent,
    UsageEvent,
    VerdictEvent,
)
from orbiter_contracts.transcript_reading import (
    MOST_UNREAD,
    TranscriptEntry,
    TranscriptReader,
    brief,
    entry_data,
    fitted_event,
    read_entry,
)

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
HEAD: dict[str, Any] = {"at": NOW, "attempt": 1}
ONE_OF_EACH: list[AnyEvent] = [
    TextEvent(**HEAD, text="I look at it."),
    ThinkingEvent(**HEAD, text="Where is it?"),
    ToolCallEvent(**HEAD, tool_name="Bash", tool_call_id="t1", arguments='{"command":"ls"}'),
    ToolResultEvent(**HEAD, tool_name="Bash", tool_call_id="t1", content="a", seconds=0.5),
    InputRequestEvent(**HEAD, question="Which one?"),
    UsageEvent(**HEAD, usage=Usage(input_tokens=5), model="m"),
    ErrorEvent(**HEAD, error="the model is away"),
    CutEvent(**HEAD, events=2, bytes=100),
    VerdictEvent(**HEAD, status="success", text="done", cost_usd=0.5),
]
NUMBERED = [event.model_copy(update={"sequence": at}) for at, event in enumerate(ONE_OF_EACH)]


def entry(events: list[AnyEvent], *, begin: int = 0) -> dict[bytes, bytes]:
    """An entry as a worker writes it."""
    data = entry_data(events).encode()
    after = str(events[-1].sequence + 1).encode()
    return {b"data": data, b"next": after, b"end": str(begin + len(data)).encode()}


def test_what_is_written_is_read_again() -> None:
    found = read_entry(entry(NUMBERED, begin=70))
    assert found == TranscriptEntry(tuple(NUMBERED), 9, 70, found.end, None)
    texts = {name.decode(): value.decode() for name, value in entry(NUMBERED, begin=70).items()}
    assert read_entry(texts) == found


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: event.type)
def test_a_long_event_is_shortened_where_it_is_longest_and_says_so(event: AnyEvent) -> None:
    texts = {"text", "arguments", "content", "question", "error"} & {*type(event).model_fields}
    for name in texts:
        long = fitted_event(event.model_copy(update={name: "\x01ä…" * 40_000}))
        assert len(long.model_dump_json(exclude_none=True).encode()) <= MAX_EVENT_BYTES
        assert "characters, cut]" in getattr(long, name)
        assert type(long).model_validate_json(long.model_dump_json()) == long
    assert fitted_event(event) is event


@given(
    st.builds(
        ToolResultEvent,
        at=st.just(NOW),
        attempt=st.integers(0, 999_999),
        sequence=st.integers(0, 2**53 - 1),
        request_id=st.text("\x01\u1234", max_size=512),
        agent_name=st.text(max_size=3_000).map(brief),
        tool_name=st.text("\x01", max_size=300).map(brief),
        tool_call_id=st.text("\x01\U0001f600", max_size=300).map(brief),
        content=st.text(max_size=20_000),
        error=st.text(max_size=20_000),
    )
)
def test_no_event_is_longer_than_8_kib(event: ToolResultEvent) -> None:
    assert len(fitted_event(event).model_dump_json(exclude_none=True).encode()) <= MAX_EVENT_BYTES


SCRAPS = st.sampled_from([b"[", b"]", b"{", b"}", b'"type":"text"', b",", b'"at":"2026"', b"\xff"])


@given(
    st.dictionaries(
        st.sampled_from([b"data", b"next", b"end"]) | st.binary(max_size=5),
        st.binary() | st.lists(SCRAPS).map(b"".join) | st.integers().map(lambda n: str(n).encode()),
    )
)
def test_whatever_the_bytes_reading_is_total(fields: dict[bytes, bytes]) -> None:
    found = read_entry(fields)
    assert found.events == () or found.problem is None or "event" in found.problem
    assert 0 <= found.begin <= found.end
    TranscriptReader().take(found)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no list of events"),
        (b"{}", "no list of events"),
        (b"[" * 5_000, "no list of events"),
        (b"[" + b"9" * 10_000 + b"]", "no "),
        (b"[]" + b" " * MAX_ENTRY_BYTES, "bytes; an entry of a transcript has at most"),
        (b'[{"type":"dance"}]', "no event of a transcript"),
        (b'[{"type":"text","at":"2026-01-10T12:00:00Z","attempt":-1,"text":"a"}]', "no event"),
        (b'[{"type":"text","at":"2026-01-10T12:00:00Z","attempt":1,"text":"\\ud800"}]', "no "),
    ],
)
def test_what_cannot_be_read_has_a_reason(data: bytes, why: str) -> None:
    found = read_entry({b"data": data})
    assert found.events == ()
    assert found.problem is not None
    assert why in found.problem


def test_an_event_that_nobody_can_read_costs_that_event() -> None:
    values = json.loads(entry_data(NUMBERED))
    values[3] = {"type": "of a later version"}
    found = read_entry({DATA_FIELD: json.dumps(values)})
    assert [event.sequence for event in found.events] == [0, 1, 2, 4, 5, 6, 7, 8]
    told = TranscriptReader().take(found)
    assert [type(event) for event in told][3] is CutEvent
    assert told[3].sequence == 3


def test_an_entry_that_is_full_of_what_is_no_event_is_given_up() -> None:
    """64 KiB of zeros would keep its reader busy for a quarter of a second."""
    good = json.loads(NUMBERED[0].model_dump_json())
    few = read_entry({DATA_FIELD: json.dumps([*[0] * (MOST_UNREAD - 1), good])})
    assert few.events == (NUMBERED[0],)
    many = read_entry({DATA_FIELD: json.dumps([good, *[0] * 1000, good | {"sequence": 9}])})
    assert many.events == (NUMBERED[0],)
    assert many.problem == f"{MOST_UNREAD} values of an entry are no events; the rest is not read"


def test_events_only_go_forward() -> None:
    found = read_entry({DATA_FIELD: entry_data([NUMBERED[1], NUMBERED[0], NUMBERED[2]])})
    assert [event.sequence for event in found.events] == [1, 2]
    assert found.problem == "event 0 behind event 1"


def test_a_reader_is_told_of_what_is_missing_in_front_and_between() -> None:
    reader = TranscriptReader()
    told = reader.take(read_entry(entry(NUMBERED[4:6], begin=900)))
    assert told[0] == CutEvent(**HEAD, sequence=0, events=4, bytes=900)
    assert told[1:] == NUMBERED[4:6]
    end = 900 + len(entry_data(NUMBERED[4:6]).encode())
    told = reader.take(read_entry(entry(NUMBERED[8:], begin=end + 50)))
    assert told == [
        CutEvent(**HEAD, sequence=6, events=2, bytes=50, cost_usd=0.5),
        NUMBERED[8],
    ]


def test_a_reader_sees_no_event_twice_and_goes_on_where_it_was() -> None:
    reader = TranscriptReader(after=2)
    assert reader.take(read_entry(entry(NUMBERED[:5]))) == NUMBERED[3:5]
    assert reader.take(read_entry(entry(NUMBERED[:5]))) == []
    assert reader.next_sequence == 5
    behind = TranscriptReader(after=2).take(read_entry(entry(NUMBERED[5:6], begin=90)))
    assert behind == [CutEvent(**HEAD, sequence=3, events=2), NUMBERED[5]]


@given(st.text())
def test_any_name_can_be_carried(text: str) -> None:
    name = brief(text)
    assert ToolCallEvent(**HEAD, tool_name=name).tool_name == name


@pytest.mark.parametrize("change", [{"sequence": -1}, {"cost_usd": float("nan")}, {"attempt": 1e9}])
def test_what_is_out_of_range_is_no_event(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(TranscriptEvent).validate_python({"type": "text", "text": "a"} | HEAD | change)


def test_an_event_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Event(**HEAD).sequence = 3  # type: ignore[misc]
