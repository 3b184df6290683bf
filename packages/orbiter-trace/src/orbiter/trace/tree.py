"""Spans as an indented tree, for people."""

from collections.abc import Iterable, Iterator

from orbiter.trace.jsonl import SpanRecord


def tree_lines(spans: Iterable[SpanRecord]) -> Iterator[str]:
    """Return one line a span: traces by their begin, children below their parents.

    A span whose parent is not among `spans` stands at the left.
    """
    ordered = sorted(spans, key=lambda span: span.start_ns)
    known = {span.span_id for span in ordered}
    children: dict[str | None, list[SpanRecord]] = {}
    for span in ordered:
        parent = span.parent_id if span.parent_id in known else None
        children.setdefault(parent, []).append(span)
    waiting = [(0, span) for span in reversed(children.get(None, []))]
    while waiting:
        depth, span = waiting.pop()
        yield "  " * depth + _line(span)
        waiting += [(depth + 1, child) for child in reversed(children.get(span.span_id, []))]


def _line(span: SpanRecord) -> str:
    told = span.attributes
    parts = [span.name, f"{span.duration_ms:.1f} ms"]
    if "gen_ai.usage.input_tokens" in told:
        sent, received = told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]
        parts.append(f"{sent} + {received} tokens")
    if "operation.cost" in told:
        parts.append(f"${told['operation.cost']:.6f}")
    if span.status == "error":
        parts.append(f"ERROR {told.get('error.type', '')}".rstrip())
    if span.error:
        parts.append(span.error)
    return "  ".join(parts)
