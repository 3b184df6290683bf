"""A transcript of a worker's agent has the words of the framework's own stream."""

import pytest
from pydantic import BaseModel

from orbiter import types
from orbiter_contracts import transcript

SHARED = (
    (types.TextEvent, transcript.TextEvent),
    (types.ThinkingEvent, transcript.ThinkingEvent),
    (types.ToolCallEvent, transcript.ToolCallEvent),
    (types.ToolResultEvent, transcript.ToolResultEvent),
    (types.UsageEvent, transcript.UsageEvent),
    (types.ErrorEvent, transcript.ErrorEvent),
)


@pytest.mark.parametrize(("theirs", "ours"), SHARED, ids=lambda kind: kind.__module__)
def test_an_event_has_the_type_and_the_fields_of_that_in_the_stream(
    theirs: type[BaseModel], ours: type[BaseModel]
) -> None:
    assert ours.model_fields["type"].default == theirs.model_fields["type"].default
    # A tool's images stay where the agent is.
    assert {*theirs.model_fields} - {"parts"} <= {*ours.model_fields}


def test_a_question_has_its_type_too() -> None:
    ours = transcript.InputRequestEvent.model_fields["type"].default
    assert ours == types.InputRequestEvent.model_fields["type"].default
