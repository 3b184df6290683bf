"""Spans of agents and programs in a real OpenTelemetry Collector."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.collector import Collector, collector_program, running_collector
from support.console_pages import run_page
from support.go_program import BUILD_SECONDS
from support.ports import free_port
from support.traced_runs import (
    SPANS,
    arrived,
    ask_by_the_command_line,
    program_run,
    script,
    shop,
)

from orbiter import Agent, run, tool
from orbiter.models import ModelError, ScriptedModel, call
from orbiter.trace import TraceConfig, trace_span, tracing

pytestmark = [pytest.mark.integration, pytest.mark.timeout(BUILD_SECONDS + 300)]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "trace.md"
SECRET = "sk-proj-abcdefghijklmnop"


@pytest.fixture
def collector(tmp_path) -> Iterator[Collector]:
    directory = tmp_path / "collector"
    directory.mkdir()
    with running_collector(directory) as running:
        yield running


@pytest.fixture
def environ(collector, monkeypatch) -> None:
    """What a user sets, for the program and its parts alike."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")


def told(spans, name):
    return next(span for span in spans if span.name == name)


async def test_a_run_arrives_as_one_tree_in_the_words_of_the_conventions(collector, environ):
    with tracing(TraceConfig(exporters="otlp")):
        await run(shop(), "What colour?", provider=script())
    spans = await arrived(collector, SPANS)
    assert len({span.trace_id for span in spans}) == 1
    by_id = {span.span_id: span for span in spans}
    assert [
        (span.name, by_id[span.parent_id].name if span.parent_id else None) for span in spans
    ] == [
        ("invoke_workflow desk", None),
        ("invoke_agent desk", "invoke_workflow desk"),
        *[("step", "invoke_agent desk"), ("chat gpt-4o", "step")],
        ("execute_tool look_up", "step"),
        *[("step", "invoke_agent desk"), ("chat gpt-4o", "step")],
        ("execute_tool fails", "step"),
        *[("step", "invoke_agent desk"), ("chat gpt-4o", "step")],
        ("handoff clerk", "step"),
        ("invoke_agent clerk", "invoke_workflow desk"),
        *[("step", "invoke_agent clerk"), ("chat gpt-4o", "step")],
    ]
    assert {span.resource["service.name"] for span in spans} == {"shop"}
    chat = told(spans, "chat gpt-4o")
    assert chat.kind == "client"
    assert chat.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.temperature": 1,
        "gen_ai.agent.name": "desk",
        "gen_ai.output.type": "text",
        "gen_ai.response.model": "scripted",
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
    }
    looked = told(spans, "execute_tool look_up")
    assert (looked.kind, looked.status) == ("internal", "unset")
    assert looked.attributes["gen_ai.operation.name"] == "execute_tool"
    assert looked.attributes["gen_ai.tool.name"] == "look_up"
    assert told(spans, "handoff clerk").attributes["orbiter.handoff.target"] == "clerk"
    assert told(spans, "invoke_agent clerk").attributes["gen_ai.agent.name"] == "clerk"
    assert [span.name for span in spans if span.status == "error"] == ["execute_tool fails"]


async def test_what_failed_has_the_status_and_the_type_of_its_error(collector, environ):
    with tracing(TraceConfig(exporters="otlp")), pytest.raises(ModelError):
        await run(shop(), "?", provider=ScriptedModel(ModelError(f"bad key {SECRET}", model="m")))
    for span in await arrived(collector, 4):
        assert (span.status, span.message) == ("error", "")
        assert span.attributes["error.type"] == "orbiter.models.types.ModelError"
        kind = {"exception.type": "orbiter.models.types.ModelError"}
        assert span.events == [("exception", kind)]


async def test_content_is_there_when_it_was_asked_for_and_never_a_key(collector, environ):
    said = ("What colour", "Be kind", "value of colour", "colour is unknown", "It is blue")
    with tracing(TraceConfig(exporters="otlp")):
        await run(shop(), f"What colour? {SECRET}", provider=script())
    await arrived(collector, SPANS)
    assert not [text for text in said if text in collector.file.read_text()]
    with tracing(TraceConfig(exporters="otlp", capture_content=True)):
        await run(shop(), f"What colour? {SECRET}", provider=script())
    spans = (await arrived(collector, 2 * SPANS))[SPANS:]
    text = collector.file.read_text()
    assert [words for words in said if words not in text] == []
    assert SECRET not in text
    chat = told(spans, "chat gpt-4o")
    assert json.loads(chat.attributes["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "What colour? [redacted]"}]}
    ]
    failed = told(spans, "execute_tool fails")
    assert failed.message == "the colour is unknown"
    [(_, event)] = failed.events
    assert "Traceback" in event["exception.stacktrace"]


async def test_no_span_is_lost_of_many_nor_of_large_ones(collector):
    # a Collector refuses requests of more than 20 MiB, whole
    with tracing(TraceConfig(exporters="otlp", endpoint=collector.url)) as tracer:
        for number in range(3000):
            with trace_span("many", {"n": number}):
                pass
        for number in range(30):
            with trace_span("large", {"n": number, "text": "x" * 1_000_000}):
                pass
    spans = await arrived(collector, 3030)
    assert tracer.dropped == 0
    assert [s.attributes["n"] for s in spans] == [*range(3000), *range(30)]


async def test_what_cannot_be_sent_costs_no_other_span(collector):
    # as names of files come from the operating system, and names of tools from a model
    wrong = "caf\udce9"

    @tool
    async def name_of_file() -> str:
        """Tell the name of a file."""
        return wrong

    with tracing(TraceConfig(exporters="otlp", endpoint=collector.url, capture_content=True)):
        agent = Agent(name="a", tools=[name_of_file])
        replies = ScriptedModel(call("name_of_file"), call(wrong), "done")
        await run(agent, wrong, provider=replies)
        with trace_span(wrong, {"n": 2**70, "thing": object(), wrong: 1}) as span:
            span.add_event(wrong, {"n": 2**70, "text": wrong, "things": [wrong, "x"]})
    spans = await arrived(collector, 11)
    assert told(spans, "execute_tool name_of_file").attributes["gen_ai.tool.call.result"] == "caf?"
    assert told(spans, "execute_tool caf?").status == "error"
    last = told(spans, "caf?")
    assert last.attributes == {"n": str(2**70), "caf?": 1}
    assert last.events == [("caf?", {"n": str(2**70), "text": "caf?", "things": ["caf?", "x"]})]


ENDS = {
    "the end of the program": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "an exception": ("raise ValueError('no')", 1),
    "Ctrl-C": ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
}


@pytest.mark.parametrize("how", ENDS)
async def test_nothing_is_lost_when_the_program_ends_by(how, collector, environ):
    end, code = ENDS[how]
    program = (
        "import os, signal, sys\n"
        "from orbiter.trace import TraceConfig, configure, trace_span\n"
        "configure(TraceConfig(exporters='otlp', export_interval=3600))\n"
        "for number in range(600):\n"
        "    with trace_span('work'): pass\n"
        f"with trace_span('last'):\n    pass\n    {end}\n"
    )
    done = await program_run(sys.executable, "-c", program)
    assert done.returncode == code, done.stderr
    assert told(await arrived(collector, 601), "last").resource["service.name"] == "shop"


async def test_the_command_line_sends_the_spans_of_its_run(collector, environ, tmp_path):
    done = await ask_by_the_command_line(tmp_path)
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
    spans = await arrived(collector, 4)
    assert [s.name for s in spans] == [
        *("invoke_workflow calc", "invoke_agent calc", "step", "chat gpt-4o")
    ]
    assert {span.resource["service.name"] for span in spans} == {"shop"}
    assert spans[-1].attributes["gen_ai.usage.input_tokens"] == 100
    assert "2+2" not in collector.file.read_text()


async def test_the_page_on_tracing_shows_spans_in_a_collector(tmp_path, monkeypatch):
    otelcol = collector_program()
    monkeypatch.setenv("PATH", f"{otelcol.parent}{os.pathsep}{os.environ['PATH']}")
    assert await run_page(PAGE, tmp_path, {"4318": str(free_port())}) > 3
