"""Spans on the console: each trace as a tree, as soon as its root has ended."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from orbiter.trace.jsonl import SpanRecord, span_data
from orbiter.trace.tree import tree_lines

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult

MAX_WAITING = 10_000


class ConsoleExporter:
    """Prints traces; an OpenTelemetry SpanExporter."""

    def __init__(self, out: TextIO | None = None) -> None:
        """Choose where to print.

        Args:
            out: A text stream; None takes standard error, so that output stays the program's.
        """
        self._out = out
        self._waiting: dict[str, list[SpanRecord]] = {}

    def export(self, spans: Sequence["ReadableSpan"]) -> "SpanExportResult":
        """Print the traces whose root is among the spans; keep the others until it comes."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        for span in spans:
            record = SpanRecord(**span_data(span))
            self._waiting.setdefault(record.trace_id, []).append(record)
            if record.parent_id is None or (span.parent and span.parent.is_remote):
                self._print(self._waiting.pop(record.trace_id))
        if sum(map(len, self._waiting.values())) > MAX_WAITING:
            self.force_flush()
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Print what waits for a root."""
        while self._waiting:
            self._print(self._waiting.pop(next(iter(self._waiting))))
        return True

    def shutdown(self) -> None:
        """Print what is left."""
        self.force_flush()

    def _print(self, spans: list[SpanRecord]) -> None:
        print(*tree_lines(spans), sep="\n", file=self._out or sys.stderr, flush=True)
