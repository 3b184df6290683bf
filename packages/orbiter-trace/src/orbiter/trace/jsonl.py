"""Spans as lines of JSON: one file, no server, readable by any tool."""

import json
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult


class SpanRecord(BaseModel):
    """One span, as it stands in a line.

    Attributes:
        trace_id: 32 hexadecimal digits, the same for all spans of a tree.
        span_id: 16 hexadecimal digits.
        parent_id: The span around it; None at the root.
        name: Such as "chat gpt-4o".
        kind: "internal" or "client".
        start_ns: Nanoseconds since 1970.
        duration_ms: Milliseconds.
        status: "unset", "ok" or "error".
        error: The error's text, where content is captured.
        service: The program's name.
        attributes: By their OpenTelemetry names.
        events: `name`, `time_ns` and `attributes` of each.
    """

    model_config = {"frozen": True}

    trace_id: str
    span_id: str
    parent_id: str | None = None
    name: str
    kind: str = "internal"
    start_ns: int
    duration_ms: float
    status: str = "unset"
    error: str | None = None
    service: str = ""
    attributes: dict[str, Any] = {}
    events: list[dict[str, Any]] = []


class JsonlExporter:
    """Appends spans to a file; an OpenTelemetry SpanExporter."""

    def __init__(self, path: str | Path) -> None:
        """Open the file, for this user only if it is new.

        Args:
            path: The file; its directory is made when it is missing.
        """
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = os.fdopen(handle, "a", encoding="utf-8")
        self._lock = threading.Lock()

    def export(self, spans: Sequence["ReadableSpan"]) -> "SpanExportResult":
        """Append the spans."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        lines = [json.dumps(span_data(span), ensure_ascii=False) + "\n" for span in spans]
        with self._lock:
            self._file.write("".join(lines))
            self._file.flush()
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits here."""
        return True

    def shutdown(self) -> None:
        """Close the file."""
        self._file.close()


def read_jsonl(path: str | Path) -> Iterator[SpanRecord]:
    """Read the spans of a file, in the order in which they ended.

    Raises:
        ValueError: A line is no span; the text tells which.
    """
    with Path(path).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield SpanRecord.model_validate_json(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number} is no span: it is no text in UTF-8: {error.reason}"
                ) from error
            except ValueError as error:
                raise ValueError(f"{path}, line {number} is no span: {error}") from error


def span_data(span: "ReadableSpan") -> dict[str, Any]:
    """Return a span as the fields of a SpanRecord."""
    context: Any = span.get_span_context()
    started, ended = span.start_time or 0, span.end_time or 0
    return {
        "trace_id": f"{context.trace_id:032x}",
        "span_id": f"{context.span_id:016x}",
        "parent_id": f"{span.parent.span_id:016x}" if span.parent else None,
        "name": span.name,
        "kind": span.kind.name.lower(),
        "start_ns": started,
        "duration_ms": (ended - started) / 1e6,
        "status": span.status.status_code.name.lower(),
        "error": span.status.description,
        "service": span.resource.attributes.get("service.name", ""),
        "attributes": _plain(span.attributes),
        "events": [
            {"name": e.name, "time_ns": e.timestamp, "attributes": _plain(e.attributes)}
            for e in span.events
        ],
    }


def _plain(attributes: Any) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in (attributes or {}).items()
    }
