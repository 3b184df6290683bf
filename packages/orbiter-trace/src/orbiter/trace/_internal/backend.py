"""Chooses the way of a tracer's spans: its own exporters, or the application's provider."""

import logging
import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

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
TRACES_PATH = "/v1/traces"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def open_backend(config: TraceConfig) -> tuple[Pipeline | None, Callable[[Any, Any], Any]]:
    """Return the pipeline, if it has one, and the function that opens scopes."""
    if config.exporters:
        # those that may have to wait for a network come after those that do not
        chosen = cast("tuple[Any, ...]", config.exporters)
        given = sorted(chosen, key=lambda one: one == "otlp" or hasattr(one, "export"))
        pipeline = Pipeline(config, [_exporter(one, config) for one in given])
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
    if endpoint is not None and urlsplit(endpoint).path in ("", "/"):
        endpoint = endpoint.rstrip("/") + TRACES_PATH
    wanted = next((name for name in PROTOCOLS if os.environ.get(name)), "")
    if endpoint is None and os.environ.get(wanted) == "grpc":
        logger.warning(
            "%s is grpc, but spans are sent by http/protobuf; receivers mostly have the port 4318 "
            "for that, not 4317",
            wanted,
        )
    return otlp.OTLPSpanExporter(endpoint=endpoint)
