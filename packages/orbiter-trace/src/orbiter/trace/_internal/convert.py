"""Makes OpenTelemetry spans of notes."""

import logging
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from orbiter.trace._internal.failure import Failure
from orbiter.trace._internal.pieces import Settings
from orbiter.trace._internal.sendable import sent, sent_text
from orbiter.trace._internal.span import SAMPLED, NoteSpan

logger = logging.getLogger("orbiter.trace")
SCOPE = InstrumentationScope("orbiter.trace", "0.1.0")
_UNSET = Status()


def readable(note: NoteSpan, settings: Settings, resource: Resource) -> ReadableSpan:
    """Make the span of a note.

    Args:
        note: An ended span.
        settings: What it tells.
        resource: What all spans of this process say of it.
    """
    attributes = described(note.piece.attributes, note.subject, note.outcome, settings)
    noted = note.events or ()
    events = [Event(sent_text(name), sent(given or {}), at) for name, given, at in noted]
    status = note.status or _UNSET
    if note.failure is not None:
        attributes["error.type"] = note.failure.type
        events.append(Event("exception", sent(note.failure.attributes()), note.ended))
        status = failed(note.failure)
    if note.extra:
        attributes.update(note.extra)
    parent = None
    if note.parent_id:
        parent = SpanContext(note.trace_id, note.parent_id, note.remote, SAMPLED)
    return ReadableSpan(
        name=sent_text(note.name or note.piece.name(note.subject)),
        context=SpanContext(note.trace_id, note.span_id, False, SAMPLED),
        parent=parent,
        resource=resource,
        attributes=sent(attributes),
        events=events,
        kind=SpanKind.CLIENT if note.piece.client else SpanKind.INTERNAL,
        status=status,
        start_time=note.started,
        end_time=note.ended,
        instrumentation_scope=SCOPE,
    )


def described(make: Any, subject: Any, outcome: Any, settings: Any) -> dict[str, Any]:
    """Return the attributes of a piece, without those that have no value."""
    try:
        made = make(subject, outcome, settings)
    except Exception:
        # a provider's reply may be anything; a span without attributes beats a failed run
        logger.exception("a span could not be described")
        return {}
    return {key: value for key, value in made.items() if value is not None}


def failed(failure: Failure) -> Status:
    """Return the status of a span that ended with an error."""
    return Status(StatusCode.ERROR, failure.message and sent_text(failure.message))


def characters_of(span: ReadableSpan) -> int:
    """About how long a span is when it is sent."""
    told = [span.attributes, *(event.attributes for event in span.events)]
    return sum(len(value) for one in told for value in (one or {}).values() if type(value) is str)
