"""The ids of a task's trace, what a stranger may say of it, and the steps of a worker."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from orbiter_contracts import DeveloperWorkerOutput
from orbiter_contracts.tracing import (
    MAX_STEP_CHARACTERS,
    MAX_STEPS,
    Step,
    TraceParent,
    agent_span,
    read_traceparent,
    span_of,
    trace_of,
)

UID = "6a7b1f4e-0000-4000-8000-000000000001"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_a_task_has_a_trace_of_its_own_that_its_uid_tells():
    assert trace_of(UID) == TraceParent(UUID(UID).hex)
    assert trace_of(UID, "garbage") == trace_of(UID)
    ids = {span_of(UID), span_of(UID, "1"), agent_span(UID, 1), agent_span(UID, 2)}
    assert len(ids) == 4
    assert all(len(bytes.fromhex(one)) == 8 for one in ids)
    assert len(trace_of("no uuid").trace_id) == 32
    assert trace_of("00000000-0000-0000-0000-000000000000").trace_id.strip("0")


def test_a_task_that_is_part_of_a_trace_stays_in_it():
    header = f"00-{TRACE}-{SPAN}-01"
    assert trace_of(UID, header) == TraceParent(TRACE, SPAN)
    assert str(trace_of(UID, header)) == header


@pytest.mark.parametrize(
    "text",
    [
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"01-{TRACE}-{SPAN}-01-{'x' * 600}",
        f"00-{TRACE}-{SPAN}",
        "",
        None,
        7,
    ],
)
def test_what_is_no_traceparent_is_none(text):
    assert read_traceparent(text) is None


def test_a_later_version_of_the_header_is_read_as_far_as_it_is_known():
    assert read_traceparent(f"01-{TRACE}-{SPAN}-01-more") == TraceParent(TRACE, SPAN)


@given(st.one_of(st.text(), st.binary(), st.integers(), st.none()))
def test_reading_a_header_never_fails(value):
    read_traceparent(value)
    assert trace_of("uid", value).trace_id


def test_steps_are_cut_and_never_the_reason_that_an_output_is_refused():
    step = {"name": "x" * 1000, "started_at": NOW.isoformat()}
    output = DeveloperWorkerOutput.model_validate(
        {"request_id": "r", "task_id": "t", "steps": [step] * (MAX_STEPS + 5)}
    )
    assert len(output.steps) == MAX_STEPS
    assert len(output.steps[0].name) == MAX_STEP_CHARACTERS
    with pytest.raises(ValidationError):
        Step(name="late", started_at=datetime(9999, 1, 1, tzinfo=UTC))


def test_an_output_without_steps_is_as_it_was_before_there_were_any():
    output = DeveloperWorkerOutput(request_id="r", task_id="t")
    assert "steps" not in output.model_dump_json()
