"""Arguments and options that several commands share."""

from typing import Annotated

import typer

SessionName = Annotated[str, typer.Argument(metavar="NAME", help="A session: NAME or pos/NAME.")]
TaskName = Annotated[str, typer.Argument(metavar="NAME", help="A task: NAME or at/NAME.")]
AnyName = Annotated[
    str, typer.Argument(metavar="NAME", help="at/NAME, pos/NAME, or the name alone.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
RedisUrl = Annotated[
    str | None,
    typer.Option(
        "--redis-url",
        envvar="ORBITER_REDIS_URL",
        help="Redis to talk to, instead of the cluster's through a port-forward.",
        show_default=False,
    ),
]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Follow the task until it ends.")]
Timeout = Annotated[
    str | None,
    typer.Option("--timeout", help="Give up after this time, e.g. 90s, 30m.", show_default=False),
]
