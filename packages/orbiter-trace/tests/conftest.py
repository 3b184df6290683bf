"""Spans as the tests see them: by name, with their attributes and their place in the tree."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from orbiter.trace import TraceConfig, shutdown, tracing


class Spans:
    """What an exporter has received."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()

    def on(self, **settings):
        return tracing(TraceConfig(exporters=self.exporter, **settings))

    @property
    def all(self) -> list[ReadableSpan]:
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time)

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.all]

    def __getitem__(self, name: str) -> ReadableSpan:
        [span] = [span for span in self.all if span.name == name]
        return span

    def tree(self) -> dict[str, str | None]:
        """Return the parent's name by name; the last of a name counts."""
        by_id = {span.context.span_id: span.name for span in self.all}
        return {s.name: by_id[s.parent.span_id] if s.parent else None for s in self.all}

    def text(self) -> str:
        return "\n".join(span.to_json() for span in self.all)


@pytest.fixture
def spans() -> Iterator[Spans]:
    yield Spans()
    shutdown()
