"""The span of the open way: made by the application's own TracerProvider, with its rules."""

from collections.abc import Mapping
from typing import Any, Self

from opentelemetry.context import attach, detach
from opentelemetry.trace import SpanKind, Tracer, set_span_in_context

from orbiter.observer import Scope
from orbiter.trace._internal.convert import described, failed
from orbiter.trace._internal.failure import Failure, failure_of
from orbiter.trace._internal.pieces import Piece, Settings
from orbiter.trace._internal.sendable import sent, sent_text


class SdkScope(Scope):
    """Holds an SDK span open around a piece."""

    def __init__(self, tracer: Tracer, settings: Settings, piece: Piece, subject: Any) -> None:
        self._tracer = tracer
        self._settings = settings
        self._piece = piece
        self._subject = subject
        self._outcome: Any = None
        self._failure: Failure | None = None

    def open(self) -> None:
        """Begin, under the current span."""
        kind = SpanKind.CLIENT if self._piece.client else SpanKind.INTERNAL
        name = sent_text(self._piece.name(self._subject))
        self.span = self._tracer.start_span(name, kind=kind)

    def attach(self) -> None:
        """Make the span the current one."""
        self._token = attach(set_span_in_context(self.span))

    def detach(self) -> None:
        """Make the span before the current one again."""
        detach(self._token)

    def close(self, error: BaseException | None = None) -> None:
        """Describe the span and end it."""
        if error is not None:
            self._failure = failure_of(error, self._settings.content)
        if self.span.is_recording():
            made = self._piece.attributes
            attributes = described(made, self._subject, self._outcome, self._settings)
            if self._failure is not None:
                attributes["error.type"] = self._failure.type
                self.span.add_event("exception", sent(self._failure.attributes()))
                self.span.set_status(failed(self._failure))
            self.span.set_attributes(sent(attributes))
        self.span.end()

    def __enter__(self) -> Self:
        self.open()
        self.attach()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.close(error)
        self.detach()

    def asked_with(self, settings: Mapping[str, Any]) -> None:
        """Note the settings of a model call."""
        self._subject = (*self._subject, settings)

    def done(self, outcome: Any, cause: BaseException | None = None) -> None:
        """Note the outcome; a tool's error makes the span an error."""
        self._outcome = outcome
        if cause is not None:
            self._failure = failure_of(cause, self._settings.content)
