import asyncio
import contextvars
import inspect
import subprocess
import sys

import pytest
from opentelemetry import context, propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from orbiter.trace import TraceConfig, configure, shutdown, trace_span, traced, tracing


@traced
def plain(x: int) -> int:
    """Add one."""
    return x + 1


@traced()
async def coroutine(x: int) -> int:
    with trace_span("inner", {"x": x}) as span:
        span.set_attribute("y", "z")
        span.add_event("seen", {"n": 1})
    return x


@traced("counting")
def count(n: int):
    got = []
    for i in range(n):
        with trace_span("item"):
            pass
        got.append((yield i))
    return got


@traced("acounting")
async def acount(n: int):
    for i in range(n):
        with trace_span("aitem"):
            await asyncio.sleep(0)
        yield i


def test_a_traced_function_stays_what_it_is(spans):
    assert plain(1) == 2
    with spans.on():
        assert plain(1) == 2
    assert plain.__doc__ == "Add one."
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(count)
    assert inspect.isasyncgenfunction(acount)
    assert spans["plain"].attributes["code.function.name"].endswith("plain")


async def test_spans_of_blocks_nest_under_functions(spans):
    with spans.on():
        await coroutine(3)
        async with trace_span("outer"):
            await coroutine(4)
    assert spans.tree() == {"coroutine": "outer", "inner": "coroutine", "outer": None}
    assert dict(spans.all[1].attributes) == {"x": 3, "y": "z"}
    assert spans.all[1].events[0].name == "seen"


def test_a_generators_span_is_current_only_while_it_works(spans):
    with spans.on(), trace_span("reader"):
        items = count(2)
        assert next(items) == 0
        with trace_span("between"):
            assert items.send("a") == 1
        with pytest.raises(StopIteration) as end:
            items.send("b")
    assert end.value.value == ["a", "b"]
    assert spans.tree() == {
        "reader": None, "counting": "reader", "item": "counting", "between": "reader"
    }  # fmt: skip


async def test_an_async_generators_span_lasts_to_its_end(spans):
    with spans.on(), trace_span("reader"):
        async for _ in acount(2):
            with trace_span("between"):
                pass
    assert spans.tree()["between"] == "reader"
    assert spans.tree()["aitem"] == "acounting"


async def test_generators_that_are_left_early_end_without_an_error(spans):
    with spans.on():
        items, aitems = count(3), acount(3)
        next(items)
        items.close()
        await anext(aitems)
        await aitems.aclose()
    assert spans["counting"].status.is_unset
    assert spans["acounting"].status.is_unset


def test_what_is_thrown_into_a_generator_reaches_it(spans):
    @traced("picky")
    def picky():
        try:
            yield 1
        except KeyError:
            yield 2
        raise ValueError("end")

    with spans.on():
        items = picky()
        next(items)
        assert items.throw(KeyError()) == 2
        with pytest.raises(ValueError, match="end"):
            next(items)
    assert spans["picky"].attributes["error.type"] == "ValueError"


def test_spans_follow_the_context_into_threads_that_are_given_it(spans):
    with spans.on(), trace_span("outer"):
        contextvars.copy_context().run(plain, 1)
    assert spans.tree()["plain"] == "outer"


def test_spans_nest_with_those_of_other_instrumentation(spans):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans.exporter))
    theirs = provider.get_tracer("theirs")
    with spans.on(), trace_span("ours"), theirs.start_as_current_span("theirs"):
        plain(1)
    assert spans.tree() == {"ours": None, "theirs": "ours", "plain": "theirs"}


def test_the_applications_provider_gets_texts_that_it_can_send(spans):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans.exporter))
    wrong = "caf\udce9"
    with (
        tracing(TraceConfig(tracer_provider=provider)),
        trace_span(wrong, {"n": 2**70, "t": wrong}),
    ):
        pass
    assert dict(spans["caf?"].attributes) == {"n": str(2**70), "t": "caf?"}


async def test_without_exporters_spans_go_to_the_applications_provider(spans):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans.exporter))
    with tracing(TraceConfig(tracer_provider=provider)):
        await coroutine(1)
        with pytest.raises(ValueError, match="no"), trace_span("fails"):
            raise ValueError("no")
    assert spans.tree() == {"coroutine": None, "inner": "coroutine", "fails": None}
    assert spans["fails"].attributes["error.type"] == "ValueError"
    assert dict(spans["inner"].attributes) == {"x": 1, "y": "z"}


def test_configure_traces_until_shutdown(spans):
    configure(TraceConfig(exporters=spans.exporter))
    plain(1)
    shutdown()
    plain(1)
    assert spans.names == ["plain"]
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_nothing_of_opentelemetry_is_imported_while_tracing_is_off():
    program = (
        "import asyncio, sys\n"
        "from orbiter.trace import TraceConfig, trace_span, traced\n"
        "@traced\ndef f(): return 1\n"
        "TraceConfig()\n"
        "with trace_span('x') as span: span.set_attribute('a', f())\n"
        "print([m for m in sys.modules if m.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_trace_goes_on_from_and_to_other_processes(spans):
    incoming = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    token = context.attach(propagate.extract({"traceparent": incoming}))
    outgoing: dict[str, str] = {}
    with spans.on(sample_ratio=0), trace_span("x"):
        propagate.inject(outgoing)
    context.detach(token)
    span = spans["x"]
    assert f"{span.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert span.parent.is_remote
    assert outgoing["traceparent"].endswith(f"-{span.context.span_id:016x}-01")


async def test_a_sync_tool_in_its_thread_nests_like_any_other(spans):
    with spans.on(), trace_span("outer"):
        await asyncio.to_thread(plain, 1)
    assert spans.tree()["plain"] == "outer"
