"""Spans of programs whose OpenTelemetry Collector is away, silent, or comes back."""

import socket
import time
from collections.abc import Iterator

import pytest
from support.collector import running_collector
from support.eventually import eventually
from support.go_program import BUILD_SECONDS
from support.ports import free_port
from support.traced_runs import SPANS, arrived, ask_by_the_command_line, script, shop

from orbiter import run
from orbiter.trace import TraceConfig, read_jsonl, trace_span, tracing
from orbiter.trace._internal.pipeline import SHUTDOWN_SECONDS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(BUILD_SECONDS + 300)]


async def test_the_command_line_answers_without_a_collector(tmp_path):
    endpoint = f"http://127.0.0.1:{free_port()}"
    done = await ask_by_the_command_line(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert [line for line in done.stderr.splitlines() if "Collector" in line] == [
        f"spans are lost: no Collector takes them at {endpoint}/v1/traces; start one there, or say "
        "where it is with OTEL_EXPORTER_OTLP_ENDPOINT"
    ]
    assert "Shutdown in progress" not in done.stderr


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


async def test_a_silent_collector_slows_no_run_and_costs_no_other_exporter(silent, tmp_path):
    file = tmp_path / "spans.jsonl"
    config = TraceConfig(exporters=["otlp", file], endpoint=silent, export_interval=0.05)
    with tracing(config) as tracer:
        await run(shop(), "?", provider=script())
        # now the exporting thread waits for the answer
        await eventually(lambda: file.read_text().count("\n") == SPANS)
        began = time.monotonic()
        for _ in range(20):
            await run(shop(), "?", provider=script())
        assert time.monotonic() - began < SHUTDOWN_SECONDS
        began = time.monotonic()
    # an export alone may take 10 s, and two were to come
    assert time.monotonic() - began < SHUTDOWN_SECONDS + 5
    assert len(list(read_jsonl(file))) == 21 * SPANS
    assert tracer.dropped == 20 * SPANS


async def test_spans_arrive_when_the_collector_is_back(tmp_path):
    port = free_port()
    config = TraceConfig(exporters="otlp", endpoint=f"http://127.0.0.1:{port}", export_interval=0.1)
    with tracing(config):
        with running_collector(tmp_path, port) as collector:
            with trace_span("before"):
                pass
            await eventually(lambda: collector.spans)
        with trace_span("meanwhile"):
            pass
        with running_collector(tmp_path, port) as collector:
            await arrived(collector, 2)
    assert [span.name for span in collector.spans] == ["before", "meanwhile"]
