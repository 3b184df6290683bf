"""The checkpoint of an attempt: what its record says is read whole or not at all."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.strange_values import VALUES, WRITTEN

from orbiter_contracts import Checkpoint, Usage, read_checkpoint
from orbiter_contracts.attempts import Attempt
from orbiter_contracts.queues import BARE, Keys, checkpoint_of

AT = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
WHOLE = Checkpoint(
    time=AT,
    generation=3,
    turns=14,
    cost_usd=0.31,
    usage=Usage(input_tokens=9, cost_usd=0.31, turns=14),
    workspace="Stored",
    session=True,
    size_bytes=4711,
    base_commit="4f" * 20,
    disruption=True,
    agent_seconds=61.5,
)


def test_the_parts_are_behind_the_record() -> None:
    keys = Keys.of_namespace("team-a")
    attempt = Attempt("team-a/fix", "9f1c", 2, keys)
    assert attempt.checkpoint == "{team-a}:agenttask:9f1c:2:checkpoint"
    assert checkpoint_of(attempt.record) == attempt.checkpoint
    assert BARE.attempt_checkpoint("9f1c", 2) == "agenttask:9f1c:2:checkpoint"


def test_what_a_worker_wrote_is_read() -> None:
    text = WHOLE.model_dump_json()
    assert read_checkpoint(text) == read_checkpoint(text.encode()) == WHOLE


def test_the_least_there_is_to_say_is_when_and_which() -> None:
    least = read_checkpoint('{"time": "2026-01-10T12:00:00Z", "generation": 1}')
    assert least == Checkpoint(time=AT, generation=1)
    assert not least.resumable


@pytest.mark.parametrize("text", [None, "", b"", "null", "[]", "{", b"\xff", "{}", "1" * 10**6])
def test_what_is_no_checkpoint_is_none(text: str | bytes | None) -> None:
    assert read_checkpoint(text) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("generation", 0),
        ("generation", -1),
        ("generation", 2**53),
        ("generation", "9" * 400),
        ("turns", -1),
        ("turns", 10**30),
        ("cost_usd", 1e300),
        ("cost_usd", -0.01),
        ("size_bytes", -1),
        ("workspace", "Somewhere"),
        ("base_commit", "a" * 5000),
        ("base_commit", "a\0b"),
        ("base_commit", "--upload-pack=touch pwned; git-upload-pack"),
        ("base_commit", "+refs/heads/main:refs/heads/other"),
        ("base_commit", "4F" * 20),
        ("base_commit", "4f" * 20 + "\n"),
        ("agent_seconds", -1),
        ("agent_seconds", 1e9),
        ("time", "9999-01-01T00:00:00Z"),
    ],
)
def test_what_is_out_of_bounds_is_none(field: str, value: object) -> None:
    said = json.loads(WHOLE.model_dump_json()) | {field: value}
    assert read_checkpoint(json.dumps(said)) is None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_a_number_that_is_none_is_no_cost(number: str) -> None:
    assert read_checkpoint(WHOLE.model_dump_json().replace("61.5", number)) is None


@given(st.binary() | st.text() | WRITTEN)
def test_whatever_is_in_the_field_there_is_a_checkpoint_or_none(text: bytes | str) -> None:
    checkpoint = read_checkpoint(text)
    assert checkpoint is None or read_checkpoint(checkpoint.model_dump_json()) == checkpoint


@given(st.sampled_from(sorted(Checkpoint.model_fields)), VALUES)
def test_whatever_is_in_a_field_of_it_the_checkpoint_can_be_written_again(
    field: str, value: object
) -> None:
    try:
        text = json.dumps(json.loads(WHOLE.model_dump_json()) | {field: value})
    except (TypeError, ValueError):
        return
    checkpoint = read_checkpoint(text)
    assert checkpoint is None or read_checkpoint(checkpoint.model_dump_json()) == checkpoint


def test_it_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        WHOLE.turns = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "resumable"),
    [
        ({}, True),
        ({"workspace": "Unchanged"}, True),
        ({"workspace": None}, True),
        ({"workspace": "TooLarge"}, False),
        ({"session": False}, False),
    ],
)
def test_a_pod_goes_on_where_session_and_workspace_are_of_one_moment(
    change: dict[str, object], resumable: bool
) -> None:
    assert WHOLE.model_copy(update=change).resumable is resumable
