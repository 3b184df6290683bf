"""`orbiter trace`: what was traced, as a tree."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbiter.cli.ui.options import AsJson
from orbiter.cli.ui.outcome import UsageError, ends

if TYPE_CHECKING:
    from orbiter.trace import SpanRecord


@ends
def trace(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Spans, as lines of JSON.")],
    trace_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Only this trace; its first digits will do."),
    ] = None,
    last: Annotated[
        int | None, typer.Option("--last", "-n", help="Only the last N traces.", min=1)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the traces of a file: runs, steps, model calls and tools, with times and tokens."""
    try:
        from orbiter.trace import read_jsonl, tree_lines
    except ModuleNotFoundError as error:
        raise UsageError(f"orbiter trace needs the extra orbiter-cli[trace] ({error})") from error
    try:
        spans = list(read_jsonl(file))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    traces = _by_trace(spans)
    if trace_id is not None:
        traces = {key: found for key, found in traces.items() if key.startswith(trace_id)}
        if not traces:
            raise UsageError(f"{file} has no trace {trace_id}")
    if last is not None:
        traces = dict(list(traces.items())[-last:])
    if as_json:
        from orbiter.cli.ui.terminal import print_json

        print_json([{"trace_id": key, "spans": _nested(found)} for key, found in traces.items()])
        return
    from orbiter.cli.ui.text import plain

    for key, found in traces.items():
        sys.stdout.write(f"trace {key}\n")
        for line in tree_lines(found):
            sys.stdout.write(f"  {plain(line)}\n")


def _by_trace(spans: "list[SpanRecord]") -> "dict[str, list[SpanRecord]]":
    traces: dict[str, list[SpanRecord]] = {}
    for span in sorted(spans, key=lambda span: span.start_ns):
        traces.setdefault(span.trace_id, []).append(span)
    return traces


def _nested(spans: "list[SpanRecord]") -> list[dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {
        span.span_id: {**span.model_dump(mode="json"), "children": []} for span in spans
    }
    roots: list[dict[str, Any]] = []
    for span in spans:
        parent = made.get(span.parent_id or "")
        (parent["children"] if parent else roots).append(made[span.span_id])
    return roots
