"""`kubectl orbiter notify`: its one command."""

from typing import Annotated

import typer

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.options import AsJson
from orbiter.cli.kubectl.scope import scoped

app = typer.Typer(help="Try who is told of tasks and sessions.", no_args_is_help=True)


@app.callback()
def _notify() -> None:
    """Try who is told of tasks and sessions."""


@app.command("test")
@scoped
def try_receivers(
    kubectl: Kubectl,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A task, a session or an AgentProfile.")
    ],
    as_json: AsJson = False,
) -> int:
    """Send a test event, signed, to all receivers of an object, from here and with your rights."""
    from orbiter.cli.kubectl.notify import run_notify_test

    return run_notify_test(kubectl, name, as_json=as_json)
