"""A real OpenTelemetry Collector, for tests: built once from its Go modules, run on this machine.

`make collector` builds it as well. The version stands in otel_collector/go.mod; the program goes to
`bin/otelcol` of the checkout's state directory, next to kubectl and helm.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.go_programs import go_program

SOURCES = Path(__file__).with_name("otel_collector")
_LISTENS = re.compile(r'Starting HTTP server.*"endpoint": "([^"]+)"')
_READY = "Everything is ready"


def collector_program() -> Path:
    """Return the path of the Collector, building it when it is not here yet."""
    return go_program("otelcol", SOURCES)


@dataclass(frozen=True)
class CollectedSpan:
    """A span as the Collector wrote it down."""

    name: str
    started: int
    trace_id: str
    span_id: str
    parent_id: str
    kind: str
    status: str
    message: str
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    resource: dict[str, Any] = field(repr=False)


class Collector:
    """A running Collector; `url` is where OTLP over HTTP goes, without the path of a signal."""

    def __init__(self, url: str, file: Path, log: Path) -> None:
        self.url = url
        self.file = file
        self.log = log

    @property
    def spans(self) -> list[CollectedSpan]:
        """What it has written down so far, by their beginning."""
        found: list[CollectedSpan] = []
        # a line that is still being written has no end yet
        for line in self.file.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                found += _spans(json.loads(line))
        return sorted(found, key=lambda span: span.started)


_KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
_STATUS = ("unset", "ok", "error")


def _spans(request: dict[str, Any]) -> Iterator[CollectedSpan]:
    for resource in request["resourceSpans"]:
        told = _attributes(resource["resource"])
        for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
            status = span.get("status", {})
            yield CollectedSpan(
                name=span["name"],
                started=int(span["startTimeUnixNano"]),
                trace_id=span["traceId"],
                span_id=span["spanId"],
                parent_id=span.get("parentSpanId", ""),
                kind=_KINDS[span["kind"]],
                status=_STATUS[status.get("code", 0)],
                message=status.get("message", ""),
                attributes=_attributes(span),
                events=[(one["name"], _attributes(one)) for one in span.get("events", ())],
                resource=told,
            )


def _attributes(owner: dict[str, Any]) -> dict[str, Any]:
    return {pair["key"]: _value(pair["value"]) for pair in owner.get("attributes", ())}


def _value(value: dict[str, Any]) -> Any:
    [(kind, content)] = value.items()
    if kind == "intValue":
        return int(content)
    if kind == "arrayValue":
        return [_value(one) for one in content.get("values", ())]
    return content


@contextmanager
def running_collector(
    directory: Path,
    port: int = 0,
    *,
    address: str = "127.0.0.1",
    wrapped: Sequence[str] = (),
) -> Iterator[Collector]:
    """Run a Collector that keeps all spans for `Collector.spans`.

    Args:
        directory: For its files; spans that are in there already stay.
        port: Where it listens, by default where nobody else does.
        address: Where it listens.
        wrapped: A command before its own, for instance one that enters another network.
    """
    file, log = directory / "spans.json", directory / "collector.log"
    file.touch()
    settings = directory / "collector.yaml"
    settings.write_text(_config(file, address, port))
    command = [*wrapped, str(collector_program()), "--config", str(settings)]
    with log.open("w") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            yield Collector(f"http://{_endpoint(process, log)}", file, log)
        finally:
            process.terminate()


def _config(file: Path, host: str, port: int) -> str:
    kept = {"path": str(file), "append": True, "flush_interval": "20ms"}
    return json.dumps(
        {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"{host}:{port}"}}}},
            "exporters": {"file": kept},
            "service": {"pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}}},
        }
    )


def _endpoint(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where it listens, as it says itself, once it says that it is ready."""
    with log.open() as lines:
        said = ""
        while _READY not in said:
            running = process.poll() is None
            said += lines.read()
            assert running, f"the Collector ended with {process.returncode}: {said}"
    listens = _LISTENS.search(said)
    assert listens, said
    return listens[1]


if __name__ == "__main__":
    os.write(sys.stdout.fileno(), f"{collector_program()}\n".encode())
