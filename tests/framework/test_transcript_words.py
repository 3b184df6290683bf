"""A transcript of a worker's agent has the words of the framework's own stream."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from orbiter import types
from orbiter_contracts import transcript

DOCS = Path(__file__).resolve().parents[2] / "docs"
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


def test_what_the_page_shows_of_watch_is_what_was_recorded() -> None:
    page = (DOCS / "transcripts.md").read_text()
    shown = page.partition("## Watching")[2].partition("```console\n")[2].partition("```")[0]
    recorded = (DOCS / "recordings" / "watch-claude.txt").read_text()
    assert shown.startswith("$ kubectl orbiter watch")
    assert recorded.startswith(shown)
