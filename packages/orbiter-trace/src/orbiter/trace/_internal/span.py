"""The span of the fast way: a note of what happened, made into an OpenTelemetry span later.

An SDK span costs as much as a whole step of an agent. This one takes times and ids, holds on to
what it is about and lets the exporting thread do the rest. To everybody else it is an ordinary
current span: other instrumentation nests under it, and it under theirs.
"""

import time
from collections.abc import Mapping
from random import Random
from typing import Any, Protocol, Self

from opentelemetry import trace
from opentelemetry.context import Context

from orbiter.observer import Scope
from orbiter.trace._internal.current import KEY, get_context, reset_context, set_context
from orbiter.trace._internal.failure import Failure, failure_of
from orbiter.trace._internal.pieces import Piece, Settings

_now = time.time_ns
SAMPLED = trace.TraceFlags(trace.TraceFlags.SAMPLED)
UNSAMPLED = trace.TraceFlags(trace.TraceFlags.DEFAULT)
# not the module's functions: a program that seeds those would make the same ids again
ids = Random()  # noqa: S311
new_id = ids.getrandbits


class Sink(Protocol):
    """Where spans go: the pipeline, which makes OpenTelemetry spans of them and so knows them."""

    @property
    def settings(self) -> Settings:
        """What spans tell."""
        ...

    def sample(self) -> bool:
        """Decide on a new trace."""
        ...

    def add(self, span: "NoteSpan") -> None:
        """Take an ended span; never waits."""
        ...


class NoteSpan(trace.Span, Scope):
    """A span that is described when it is exported."""

    trace_id: int
    span_id: int
    parent_id: int
    sampled: bool
    started: int
    _token: Any
    remote = False
    ended = 0
    outcome: Any = None
    failure: Failure | None = None
    name: str | None = None
    status: trace.Status | None = None
    extra: dict[str, Any] | None = None
    events: list[tuple[str, Any, int]] | None = None

    def __init__(self, pipeline: Sink, piece: Piece, subject: Any) -> None:
        self.pipeline = pipeline
        self.piece = piece
        self.subject = subject

    @property
    def span(self) -> trace.Span:
        """The span that `trace_span` hands out."""
        return self

    def open(self) -> None:
        """Begin, under the current span."""
        parent = get_context().get(KEY)
        if parent.__class__ is NoteSpan:
            self.trace_id = parent.trace_id
            self.parent_id = parent.span_id
            self.sampled = parent.sampled
        else:
            self._begin_under((parent or trace.INVALID_SPAN).get_span_context())
        self.span_id = new_id(64)
        self.started = _now()

    def _begin_under(self, parent: trace.SpanContext) -> None:
        self.remote = parent.is_remote
        if parent.is_valid:
            self.trace_id = parent.trace_id
            self.parent_id = parent.span_id
            self.sampled = parent.trace_flags.sampled
        else:
            self.trace_id = new_id(128)
            self.parent_id = 0
            self.sampled = self.pipeline.sample()

    def attach(self) -> None:
        """Become the current span."""
        self._token = set_context(Context({**get_context(), KEY: self}))

    def detach(self) -> None:
        """Give way to the span before."""
        reset_context(self._token)
        self._token = None

    def close(self, error: BaseException | None = None) -> None:
        """End, once, and wait to be exported."""
        if self.ended:
            return
        if error is not None:
            self.failure = failure_of(error, self.pipeline.settings.content)
        self.ended = _now()
        if self.sampled:
            self.pipeline.add(self)

    # The two below are open + attach and close + detach once more, without the calls: they run
    # several times in a step, and were half of what tracing costs.

    def __enter__(self) -> Self:
        around = get_context()
        parent = around.get(KEY)
        if parent.__class__ is NoteSpan:
            self.trace_id = parent.trace_id
            self.parent_id = parent.span_id
            self.sampled = parent.sampled
        else:
            self._begin_under((parent or trace.INVALID_SPAN).get_span_context())
        self.span_id = new_id(64)
        self._token = set_context(Context({**around, KEY: self}))
        self.started = _now()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None and not self.ended and self.sampled:
            self.ended = _now()
            self.pipeline.add(self)
        else:
            self.close(error)
        reset_context(self._token)
        self._token = None

    def asked_with(self, settings: Mapping[str, Any]) -> None:
        """Note the settings of a model call."""
        self.subject = (*self.subject, settings)

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
