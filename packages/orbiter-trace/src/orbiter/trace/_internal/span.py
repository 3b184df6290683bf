"""The span of the fast way: a note of what happened, made into an OpenTelemetry span later.

An SDK span costs as much as a whole step of an agent. This one takes times and ids, holds on to
what it is about and lets the exporting thread do the rest. To everybody else it is an ordinary
current span: other instrumentation nests under it, and it under theirs.
"""

import time
from random import Random
from typing import TYPE_CHECKING, Any, Self

from opentelemetry import trace
from opentelemetry.context import attach, detach, get_current
from opentelemetry.trace import set_span_in_context

from orbiter.observer import Scope
from orbiter.trace._internal.failure import Failure, failure_of
from orbiter.trace._internal.pieces import Piece

if TYPE_CHECKING:
    from orbiter.trace._internal.pipeline import Pipeline

_now = time.time_ns
SAMPLED = trace.TraceFlags(trace.TraceFlags.SAMPLED)
UNSAMPLED = trace.TraceFlags(trace.TraceFlags.DEFAULT)
# not the module's functions: a program that seeds those would make the same ids again
ids = Random()  # noqa: S311


class NoteSpan(trace.Span, Scope):
    """A span that is described when it is exported."""

    __slots__ = (
        "ended", "events", "extra", "failure", "name", "outcome", "parent_id",
        "piece", "pipeline", "remote", "sampled", "span_id", "started", "status", "subject",
        "token", "trace_id",
    )  # fmt: skip

    trace_id: int
    parent_id: int
    span_id: int
    sampled: bool

    def __init__(self, pipeline: "Pipeline", piece: Piece, subject: Any) -> None:
        self.pipeline = pipeline
        self.piece = piece
        self.subject = subject
        self.outcome: Any = None
        self.failure: Failure | None = None
        self.extra: dict[str, Any] | None = None
        self.events: list[tuple[str, Any, int]] | None = None
        self.name: str | None = None
        self.status: trace.Status | None = None
        self.ended = 0

    @property
    def span(self) -> trace.Span:
        """The span that `trace_span` hands out."""
        return self

    def open(self) -> None:
        """Begin, under the current span."""
        parent = trace.get_current_span()
        if parent.__class__ is NoteSpan:
            self.trace_id = parent.trace_id
            self.parent_id = parent.span_id
            self.sampled = parent.sampled
            self.remote = False
        else:
            self._open_under(parent.get_span_context())
        self.span_id = ids.getrandbits(64) or 1
        self.started = _now()

    def _open_under(self, parent: trace.SpanContext) -> None:
        self.remote = parent.is_remote
        if parent.is_valid:
            self.trace_id = parent.trace_id
            self.parent_id = parent.span_id
            self.sampled = parent.trace_flags.sampled
        else:
            self.trace_id = ids.getrandbits(128) or 1
            self.parent_id = 0
            self.sampled = self.pipeline.sample()

    def attach(self) -> None:
        """Become the current span."""
        self.token = attach(set_span_in_context(self, get_current()))

    def detach(self) -> None:
        """Give way to the span before."""
        detach(self.token)

    def close(self, error: BaseException | None = None) -> None:
        """End, once, and wait to be exported."""
        if self.ended:
            return
        if error is not None:
            self.failure = failure_of(error, self.pipeline.settings.content)
        self.ended = _now()
        if self.sampled:
            self.pipeline.add(self)

    def __enter__(self) -> Self:
        self.open()
        self.token = attach(set_span_in_context(self))
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.close(error)
        detach(self.token)

    def done(self, outcome: Any, cause: BaseException | None = None) -> None:
        """Note the outcome; a tool's error makes the span an error."""
        self.outcome = outcome
        if cause is not None:
            self.failure = failure_of(cause, self.pipeline.settings.content)

    def end(self, end_time: int | None = None) -> None:
        """End; the block that opened the span ends it anyway."""
        self.close()

    def get_span_context(self) -> trace.SpanContext:
        """Return the ids others need to nest under this span."""
        flags = SAMPLED if self.sampled else UNSAMPLED
        return trace.SpanContext(self.trace_id, self.span_id, False, flags)

    def set_attribute(self, key: str, value: Any) -> None:
        """Add an attribute to those the piece makes."""
        if self.extra is None:
            self.extra = {}
        self.extra[key] = value

    def set_attributes(self, attributes: Any) -> None:
        """Add attributes."""
        for key, value in attributes.items():
            self.set_attribute(key, value)

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        """Note that something happened."""
        if self.events is None:
            self.events = []
        self.events.append((name, attributes, timestamp or _now()))

    def update_name(self, name: str) -> None:
        """Use another name than the piece's."""
        self.name = name

    def is_recording(self) -> bool:
        """Tell whether anybody will see this span."""
        return self.sampled and not self.ended

    def set_status(self, status: Any, description: str | None = None) -> None:
        """Say how it ended; an exception says so by itself."""
        if isinstance(status, trace.StatusCode):
            status = trace.Status(status, description)
        self.status = status

    def record_exception(
        self,
        exception: BaseException,
        attributes: Any = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Note an exception that does not end the span; its text only if content is captured."""
        told = failure_of(exception, self.pipeline.settings.content).attributes()
        self.add_event("exception", {**told, **(attributes or {})}, timestamp)
