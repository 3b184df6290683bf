"""The commands of `orbiter`. Each loads what it needs when it is called.

What is imported here is loaded before the first line of --help: command modules import typer and
nothing else that costs time.
"""

import gc
from typing import Annotated

import typer

from orbiter.cli.commands import mcp, task
from orbiter.cli.commands.chat import chat
from orbiter.cli.commands.eval import evaluate
from orbiter.cli.commands.exec import exec_
from orbiter.cli.commands.run import run
from orbiter.cli.commands.serve import serve
from orbiter.cli.commands.tools import tools
from orbiter.cli.commands.trace import trace

app = typer.Typer(
    name="orbiter",
    help="Run, evaluate and serve agents.",
    # rich would double the time to the first line of --help
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.command("run")(run)
app.command("chat")(chat)
app.command("eval")(evaluate)
app.command("serve")(serve)
app.command("exec")(exec_)
app.command("trace")(trace)
app.command("tools")(tools)
app.add_typer(mcp.app, name="mcp")
app.add_typer(task.app, name="task")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("orbiter-cli")
        except PackageNotFoundError:  # bare sources, as in an image
            number = "of an image"
        typer.echo(f"orbiter {number}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_version),
    ] = False,
) -> None:
    """Run, evaluate and serve agents."""


def main() -> None:
    """Run the program; the process ends with one of ExitCode."""
    # A model's SDK is made of 3,000 modules, and all of it stays: to look it through for garbage
    # again and again while it is loaded was a tenth of what an answer costs this program.
    gc.set_threshold(100_000)
    app(prog_name="orbiter")
