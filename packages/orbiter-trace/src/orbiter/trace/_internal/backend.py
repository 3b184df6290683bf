"""Chooses the way of a tracer's spans: its own exporters, or the application's provider."""

import logging
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from opentelemetry import trace

from orbiter.trace._internal.pieces import Settings
from orbiter.trace._internal.pipeline import Pipeline
from orbiter.trace._internal.sdk_scope import SdkScope
from orbiter.trace._internal.span import NoteSpan
from orbiter.trace.config import TraceConfig
from orbiter.trace.console import ConsoleExporter
from orbiter.trace.jsonl import JsonlExporter
from orbiter.types import OrbiterError

logger = logging.getLogger("orbiter.trace")


def open_backend(config: TraceConfig) -> tuple[Pipeline | None, Callable[[Any, Any], Any]]:
    """Return the pipeline, if it has one, and the function that opens scopes."""
    if config.exporters:
        pipeline = Pipeline(config, [_exporter(given, config) for given in config.exporters])
        return pipeline, partial(NoteSpan, pipeline)
    provider = config.tracer_provider or trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        logger.warning(
            "no exporters are given and the application has set no TracerProvider: spans are lost "
            "until it does"
        )
    settings = Settings(config.capture_content, config.costs)
    return None, partial(SdkScope, provider.get_tracer("orbiter.trace"), settings)


def _exporter(given: Any, config: TraceConfig) -> Any:
    if given == "console":
        return ConsoleExporter()
    if given == "otlp":
        return _otlp(config.endpoint)
    if isinstance(given, (str, Path)):
        return JsonlExporter(given)
    return given


def _otlp(endpoint: str | None) -> Any:
    try:
        otlp = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ModuleNotFoundError as error:
        raise OrbiterError(
            f"the exporter 'otlp' needs {error.name}: install orbiter-trace[otlp]"
        ) from error
    return otlp.OTLPSpanExporter(endpoint=endpoint)
