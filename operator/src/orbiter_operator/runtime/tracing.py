"""Spans, on their way to a collector: OTLP over HTTP, in batches, by a thread of their own.

What a collector does not take in time is lost, and nothing waits for it. The SDK is imported where
there is an endpoint: it costs a start 0.1 s and the process 3 MiB.
"""

import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_CLOSING_SECONDS = 2.0
_SCOPE = "orbiter.operator"


class Span(NamedTuple):
    """What took time.

    Attributes:
        name: One of few.
        trace_id: 32 hexadecimal digits.
        span_id: Its own, 16 of them.
        parent_id: Of the span above it; "" when there is none.
        started_at: When it began.
        ended_at: When it ended.
        attributes: By their names in the semantic conventions, where those have one.
        error: Why it came to nothing; "" when it did not.
        service: Whose work it was.
    """

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    started_at: datetime
    ended_at: datetime
    attributes: dict[str, str | int | float]
    error: str = ""
    service: str = "orbiter-operator"


class Tracing:
    """Writes spans to a collector.

    Args:
        endpoint: Its base URL, for instance http://collector:4318. Headers, certificates and
            timeouts are the SDK's: OTEL_EXPORTER_OTLP_HEADERS and its like.
    """

    def __init__(self, endpoint: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
        self._processor = BatchSpanProcessor(exporter)
        self._readable = _reader()

    def write(self, spans: Iterable[Span]) -> None:
        """Take spans; they are sent within five seconds."""
        for span in spans:
            self._processor.on_end(self._readable(span))

    def close(self) -> None:
        """Send what is left, for two seconds at most. Blocks."""
        # The SDK's own bound is half a minute, and it has none for one request.
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSING_SECONDS)


def _reader() -> Callable[[Span], "ReadableSpan"]:
    """What makes the SDK's spans of ours: a tracer would choose their ids itself."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan as Readable
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

    resources: dict[str, Resource] = {}
    scope = InstrumentationScope(_SCOPE)

    def context(trace: str, span: str) -> SpanContext:
        sampled = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=sampled)

    def readable(span: Span) -> Readable:
        if span.service not in resources:
            resources[span.service] = Resource.create({"service.name": span.service})
        status = Status(StatusCode.ERROR, span.error) if span.error else Status()
        return Readable(
            name=span.name,
            context=context(span.trace_id, span.span_id),
            parent=context(span.trace_id, span.parent_id) if span.parent_id else None,
            resource=resources[span.service],
            attributes=span.attributes,
            status=status,
            start_time=_nanoseconds(span.started_at),
            end_time=_nanoseconds(span.ended_at),
            instrumentation_scope=scope,
        )

    return readable


def _nanoseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000) * 1000
