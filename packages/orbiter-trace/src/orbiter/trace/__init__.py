"""Orbiter Trace: what agents do, as OpenTelemetry spans."""

from orbiter.trace.config import TraceConfig
from orbiter.trace.console import ConsoleExporter
from orbiter.trace.decorator import traced
from orbiter.trace.jsonl import JsonlExporter, SpanRecord, read_jsonl
from orbiter.trace.span import SpanHandle, trace_span
from orbiter.trace.switch import configure, shutdown, tracing
from orbiter.trace.tracer import RunTracer
from orbiter.trace.tree import tree_lines

__all__ = [
    "ConsoleExporter",
    "JsonlExporter",
    "RunTracer",
    "SpanHandle",
    "SpanRecord",
    "TraceConfig",
    "configure",
    "read_jsonl",
    "shutdown",
    "trace_span",
    "traced",
    "tracing",
    "tree_lines",
]
