"""Whole transcripts in a store: names, and parts that anybody may have written."""

import gzip
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from orbiter_contracts import stored_transcripts, transcript_parts
from orbiter_contracts.object_store import StoreAddress
from orbiter_contracts.stored_transcripts import PartsHead, part_first, part_name
from orbiter_contracts.transcript import TextEvent
from orbiter_contracts.transcript_parts import part_line, read_part

AT = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)


def said(sequence: int, text: str = "x") -> TextEvent:
    return TextEvent(sequence=sequence, at=AT, attempt=1, text=text)


def packed(*lines: bytes) -> bytes:
    return gzip.compress(b"".join(lines))


def test_parts_are_named_after_their_first_event_and_sort_as_those_do() -> None:
    names = [part_name(first) for first in (0, 9, 10, 2**53 - 1)]
    assert names[0] == "0000000000000000.jsonl.gz"
    assert sorted(names) == names
    assert [part_first(name) for name in names] == [0, 9, 10, 2**53 - 1]


@pytest.mark.parametrize("name", ["", "index.json", "0.jsonl.gz", "../0000000000000000.jsonl.gz"])
def test_another_name_is_that_of_no_part(name: str) -> None:
    assert part_first(name) is None


def test_what_was_written_is_read_whatever_the_chunks_are() -> None:
    events = [said(n, "é" * n) for n in range(50)]
    data = packed(*map(part_line, events))
    for size in (1, 7, len(data)):
        chunks = (data[at : at + size] for at in range(0, len(data), size))
        assert list(read_part(chunks)) == events


def test_a_line_that_is_no_event_is_left_out_and_so_is_one_that_is_there_already() -> None:
    lines = (b"\xff\n", b'{"type":"text"}\n', b"x" * 100_000 + b"\n", b"\n")
    data = packed(part_line(said(3)), *lines, part_line(said(3)), part_line(said(4)))
    assert [event.sequence for event in read_part([data])] == [3, 4]


def test_a_part_that_ends_in_the_middle_has_what_is_before() -> None:
    data = packed(*(part_line(said(n, f"{n * 7919}")) for n in range(2000)))
    found = list(read_part([data[: len(data) // 2], b""]))
    assert found
    assert found == [said(n, f"{n * 7919}") for n in range(len(found))]


def test_of_what_unpacks_to_more_than_a_part_no_more_is_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transcript_parts, "MAX_PART_BYTES", 1000)
    data = packed(*(part_line(said(n)) for n in range(10_000)))
    assert 5 < len(list(read_part([data]))) < 20


def test_a_line_that_never_ends_takes_no_more_memory_than_a_long_one() -> None:
    assert list(read_part([packed(b"x" * 5_000_000, b"\n", part_line(said(1)))])) == [said(1)]


@given(st.lists(st.binary(max_size=200)))
def test_any_bytes_are_read(chunks: list[bytes]) -> None:
    assert all(event.sequence >= 0 for event in read_part(chunks))


def test_where_a_transcript_is_follows_from_task_or_session() -> None:
    store = StoreAddress(endpoint="https://s3.example.com", bucket="agents", prefix="x/")
    head = TypeAdapter(PartsHead)
    assert head.validate_python(store.transcript("ns", "tasks", "u-1", "2")) == (
        "x/ns/tasks/u-1/2/transcript"
    )
    assert store.transcript("ns", "sessions", "u-2") == "x/ns/sessions/u-2/transcript"
    assert store.transcript("ns", "tasks", "u", "1").startswith(store.attempt("ns", "u", 1))
    for odd in ("", "/a", "a/", "a//b", "../a", "a/.b", "a b", "a\n"):
        with pytest.raises(ValidationError):
            head.validate_python(odd)


def test_a_report_says_whether_it_is_there() -> None:
    report = stored_transcripts.TranscriptReport
    assert report(events=1).complete
    assert not report(reason="StoreFull").complete
