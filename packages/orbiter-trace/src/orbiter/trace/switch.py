"""Tracing on and off, for all runs of the process."""

from collections.abc import Iterator
from contextlib import contextmanager

from orbiter.observer import observe
from orbiter.trace._internal.active import EVERYWHERE
from orbiter.trace.config import TraceConfig
from orbiter.trace.tracer import RunTracer


def configure(config: TraceConfig | None = None) -> RunTracer:
    """Trace all runs that begin from now on; what traced them before is shut down.

    Args:
        config: How to trace; by default into the application's TracerProvider.

    Raises:
        OrbiterError: An exporter's package is not installed.
    """
    tracer = RunTracer(config)
    shutdown()
    _install(tracer)
    return tracer


def shutdown() -> None:
    """Stop tracing all runs; returns when the exporters have what was traced."""
    tracer = _installed()
    _install(None)
    if tracer is not None:
        tracer.shutdown()


@contextmanager
def tracing(config: TraceConfig | None = None) -> Iterator[RunTracer]:
    """Trace all runs that begin inside the block; at its end the exporters have the spans.

    What traced before the block, if anything, goes on after it.

    Raises:
        OrbiterError: An exporter's package is not installed.
    """
    tracer = RunTracer(config)
    before = _installed()
    _install(tracer)
    try:
        yield tracer
    finally:
        _install(before)
        tracer.shutdown()


def _installed() -> RunTracer | None:
    tracer = EVERYWHERE[0] if EVERYWHERE else None
    return tracer if isinstance(tracer, RunTracer) else None


def _install(tracer: RunTracer | None) -> None:
    EVERYWHERE[:] = [] if tracer is None else [tracer]
    observe(tracer)
