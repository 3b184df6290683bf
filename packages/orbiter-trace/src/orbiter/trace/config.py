"""What is traced, what of it is told, and where it goes: the one home of these settings."""

from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, Field, SkipValidation, field_validator


class Exporter(Protocol):
    """What an OpenTelemetry SpanExporter is, which is not imported for it."""

    def export(self, spans: Any, /) -> Any:
        """Take spans."""


class TraceConfig(BaseModel):
    """How to trace; the defaults tell no content.

    Attributes:
        exporters: Where spans go, any number of: "otlp" (extra `otlp`), "console", a path that
            ends in ".jsonl", or an OpenTelemetry SpanExporter. With none they go to
            `tracer_provider`. Read, it is a tuple.
        tracer_provider: An OpenTelemetry TracerProvider for spans without `exporters`; None takes
            the application's global one.
        capture_content: Also record prompts, replies, tool arguments, tool results and the texts
            of errors. What looks like a key or password is blanked even then.
        sample_ratio: The part of all traces that is recorded, from 0 to 1; whole traces only. A
            trace that begins outside of Orbiter was decided upon there.
        costs: Tell the price of model calls, where the extra `prices` is installed.
        service_name: What traces call this program; None takes OpenTelemetry's environment
            variables, else "orbiter".
        endpoint: URL of the OTLP receiver ("http://localhost:4318"); without a path it gets
            "/v1/traces". None takes OpenTelemetry's environment variables.
        export_interval: Seconds between exports.
        max_queue: Spans that may wait for their export; more are dropped and counted.
    """

    model_config = {"frozen": True, "arbitrary_types_allowed": True}

    # written as one or several of these; who reads it gets them as a tuple
    exporters: Annotated[
        str | Path | Exporter | list[str | Path | Exporter] | tuple[str | Path | Exporter, ...],
        SkipValidation,
    ] = ()
    tracer_provider: Any = None
    capture_content: bool = False
    sample_ratio: float = Field(default=1.0, ge=0.0, le=1.0)
    costs: bool = True
    service_name: str | None = Field(default=None, min_length=1)
    endpoint: str | None = None
    export_interval: float = Field(default=1.0, gt=0)
    max_queue: int = Field(default=8192, ge=1)

    @field_validator("exporters", mode="before")
    @classmethod
    def _one_is_enough(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, (list, tuple)) else (value,)

    @field_validator("exporters")
    @classmethod
    def _known(cls, exporters: tuple[Any, ...]) -> tuple[Any, ...]:
        for exporter in exporters:
            named = exporter in ("otlp", "console") if isinstance(exporter, str) else False
            file = isinstance(exporter, (str, Path)) and str(exporter).endswith(".jsonl")
            if not (named or file or hasattr(exporter, "export")):
                raise ValueError(
                    f"{exporter!r} is no exporter: give 'otlp', 'console', a path that ends in "
                    "'.jsonl' or an OpenTelemetry SpanExporter"
                )
        return exporters
