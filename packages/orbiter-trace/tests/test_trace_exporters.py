import gzip
import http.server
import io
import json
import subprocess
import sys
import threading
from typing import ClassVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from orbiter import Agent, run
from orbiter.models import ScriptedModel
from orbiter.trace import (
    ConsoleExporter,
    JsonlExporter,
    RunTracer,
    TraceConfig,
    read_jsonl,
    trace_span,
    tracing,
    tree_lines,
)
from orbiter.trace._internal import pipeline
from orbiter.types import OrbiterError


@pytest.fixture
def collector():
    """An OTLP/HTTP receiver; `.requests` are the decoded exports."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            requests.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.requests = requests
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def test_an_otlp_receiver_gets_the_spans(collector):
    endpoint = f"http://127.0.0.1:{collector.server_port}/v1/traces"
    config = TraceConfig(exporters="otlp", endpoint=endpoint, service_name="shop")
    with tracing(config):
        await run(Agent(name="a"), "hi", provider=ScriptedModel("hello"))
    [(path, request)] = collector.requests
    assert path == "/v1/traces"
    [resource] = request.resource_spans
    assert {a.key: a.value.string_value for a in resource.resource.attributes}[
        "service.name"
    ] == "shop"
    [scope] = resource.scope_spans
    by_name = {span.name: span for span in scope.spans}
    assert set(by_name) == {"invoke_workflow a", "invoke_agent a", "step", "chat gpt-4o"}
    assert by_name["chat gpt-4o"].parent_span_id == by_name["step"].span_id
    tokens = {a.key: a.value.int_value for a in by_name["chat gpt-4o"].attributes}
    assert tokens["gen_ai.usage.input_tokens"] == 10


def test_a_jsonl_file_holds_a_span_a_line(tmp_path):
    path = tmp_path / "traces" / "today.jsonl"
    config = TraceConfig(exporters=path)
    with tracing(config), trace_span("outer", {"n": 1}), trace_span("inner"):
        pass
    inner, outer = read_jsonl(path)
    assert json.loads(path.read_text().splitlines()[1])["attributes"] == {"n": 1}
    assert (inner.name, inner.parent_id, outer.parent_id) == ("inner", outer.span_id, None)
    assert (outer.status, outer.service) == ("unset", "orbiter")
    assert path.stat().st_mode & 0o077 == 0


def test_a_line_that_is_no_span_is_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("{}\n")
    with pytest.raises(ValueError, match=r"x\.jsonl, line 1 is no span"):
        list(read_jsonl(path))


def test_the_console_prints_a_trace_when_its_root_has_ended():
    out = io.StringIO()
    with tracing(TraceConfig(exporters=ConsoleExporter(out))) as tracer, trace_span("outer"):
        with pytest.raises(ValueError, match="no"), trace_span("inner"):
            raise ValueError("no")
        tracer.flush()
        assert out.getvalue() == ""
    lines = out.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines] == ["outer", ""]
    assert lines[1].startswith("  inner")
    assert lines[1].endswith("ERROR ValueError")


def test_an_exporter_that_fails_loses_spans_and_nothing_else(spans, caplog):
    class Broken:
        def export(self, spans):
            raise OSError("disk full")

        def shutdown(self):
            pass

    with tracing(TraceConfig(exporters=(Broken(), spans.exporter))), trace_span("x"):
        pass
    assert spans.names == ["x"]
    assert "Broken lost 1 spans" in caplog.text


def test_more_spans_than_may_wait_are_dropped_and_counted(spans):
    # the lock holds back the export that a half full queue asks for
    with spans.on(max_queue=2, export_interval=60) as tracer, tracer._pipeline._exporting:
        for _ in range(5):
            with trace_span("x"):
                pass
    assert tracer.dropped + len(spans.names) == 5
    assert tracer.dropped >= 2


def test_values_that_are_none_of_opentelemetry_do_not_stop_an_export(spans):
    with spans.on(), trace_span("x") as span:
        span.set_attribute("thing", object())
        span.set_attribute("fine", 1)
    assert dict(spans["x"].attributes) == {"fine": 1}


def test_a_text_that_is_no_utf8_stops_no_export(tmp_path):
    # as Python reads names of files that are none
    wrong = "caf\udce9"
    path = tmp_path / "spans.jsonl"
    with tracing(TraceConfig(exporters=path)), trace_span(wrong, {wrong: [wrong], "n": 2**70}):
        pass
    [span] = read_jsonl(path)
    assert (span.name, span.attributes) == ("caf?", {"caf?": ["caf?"], "n": str(2**70)})


def test_large_spans_leave_in_several_requests(spans):
    class Counting:
        sizes: ClassVar[list[int]] = []

        def export(self, spans):
            self.sizes.append(len(spans))

        def shutdown(self):
            pass

    with tracing(TraceConfig(exporters=Counting(), export_interval=60)):
        for _ in range(6):
            with trace_span("x", {"text": "x" * 1_500_000}):
                pass
    assert Counting.sizes == [2, 2, 2]


def test_an_exporter_that_hangs_is_left_behind_and_the_others_get_all(spans, monkeypatch, caplog):
    hangs = threading.Event()

    class Hanging:
        def export(self, spans):
            hangs.wait()

        def shutdown(self):
            hangs.set()

    monkeypatch.setattr(pipeline, "SHUTDOWN_SECONDS", 0.1)
    exporters = (spans.exporter, Hanging())
    with tracing(TraceConfig(exporters=exporters, export_interval=0.01)) as tracer:
        with trace_span("first"):
            pass
        while tracer._pipeline._busy is not tracer._pipeline._exporters[1]:
            hangs.wait(0.01)
        with trace_span("last"):
            pass
    assert spans.names == ["first", "last"]
    assert tracer.dropped == 1
    assert "Hanging did not answer" in caplog.text


@pytest.mark.parametrize(
    ("environment", "given", "name"),
    [
        ({}, None, "orbiter"),
        ({"OTEL_SERVICE_NAME": "shop"}, None, "shop"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=desk"}, None, "desk"),
        ({"OTEL_SERVICE_NAME": "shop"}, "mine", "mine"),
    ],
)
def test_the_services_name_is_the_given_one_or_that_of_the_environment(
    environment, given, name, spans, monkeypatch
):
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    with spans.on(service_name=given), trace_span("x"):
        pass
    assert spans["x"].resource.attributes["service.name"] == name


def test_an_endpoint_without_a_path_gets_the_one_of_traces(collector):
    for end in ("", "/"):
        endpoint = f"http://127.0.0.1:{collector.server_port}{end}"
        with tracing(TraceConfig(exporters="otlp", endpoint=endpoint)), trace_span("x"):
            pass
    assert [path for path, _ in collector.requests] == ["/v1/traces"] * 2


def test_who_asks_for_grpc_is_told_that_it_is_http(monkeypatch, caplog):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    RunTracer(TraceConfig(exporters="otlp")).shutdown()
    assert "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, but spans are sent by http" in caplog.text


def test_an_unknown_exporter_is_refused_with_what_there_is():
    with pytest.raises(ValueError, match="'otlp', 'console', a path"):
        TraceConfig(exporters="zipkin")


def test_the_defaults_tell_no_content_and_cannot_be_changed():
    config = TraceConfig()
    assert config.capture_content is False
    with pytest.raises(ValueError, match="frozen"):
        config.capture_content = True


def test_the_jsonl_exporter_can_be_used_by_itself(tmp_path, spans):
    exporter = JsonlExporter(tmp_path / "a.jsonl")
    with spans.on(), trace_span("x"):
        pass
    exporter.export(spans.all)
    exporter.shutdown()
    assert next(tree_lines(read_jsonl(tmp_path / "a.jsonl"))).startswith("x  ")


def test_a_missing_exporter_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(OrbiterError, match=r"install orbiter-trace\[otlp\]"):
        RunTracer(TraceConfig(exporters="otlp"))


def test_a_forked_child_exports_its_own_spans_and_not_its_parents(tmp_path):
    program = (
        "import os, sys\n"
        "from orbiter.trace import TraceConfig, configure, shutdown, trace_span\n"
        "configure(TraceConfig(exporters=sys.argv[1], export_interval=60))\n"
        "with trace_span('parent'): pass\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    with trace_span('child'): pass\n"
        "    shutdown()\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "shutdown()\n"
    )
    path = tmp_path / "spans.jsonl"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)
    assert [span.name for span in read_jsonl(path)] == ["child", "parent"]


def test_spans_that_nobody_flushed_are_exported_at_the_end_of_the_program(tmp_path):
    program = (
        "import sys\n"
        "from orbiter.trace import TraceConfig, configure, trace_span\n"
        "configure(TraceConfig(exporters=sys.argv[1], export_interval=60))\n"
        "with trace_span('last'): pass\n"
    )
    path = tmp_path / "spans.jsonl"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)
    assert [span.name for span in read_jsonl(path)] == ["last"]
