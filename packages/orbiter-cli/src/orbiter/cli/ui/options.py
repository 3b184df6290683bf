"""Arguments and options that several commands share."""

from typing import Annotated

import typer

AgentName = Annotated[
    str, typer.Argument(metavar="AGENT", help="A YAML file, or module:attr in Python.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="Model instead of the agents' own.", show_default=False),
]
Seconds = Annotated[
    float | None,
    typer.Option("--timeout", help="Seconds a run may take.", min=0.001, show_default=False),
]
TraceFile = Annotated[
    str | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Append the runs' spans to FILE; otlp sends them to OTEL_EXPORTER_OTLP_ENDPOINT.",
        show_default=False,
    ),
]
