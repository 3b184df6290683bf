"""kubectl's own flags on every command, before the command's name or after it, as kubectl has them.

A command is written as a function of a Kubectl and its own options; `scoped` adds the flags to what
typer sees. It is also the one place where errors become a line on stderr and an exit code.
"""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from orbiter.cli.kubectl.client import Kubectl, Scope
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.text import plain

Namespace = Annotated[
    str | None, typer.Option("-n", "--namespace", help="Namespace to look in.", show_default=False)
]
Context = Annotated[
    str | None, typer.Option("--context", help="Context of the kubeconfig.", show_default=False)
]
Kubeconfig = Annotated[
    str | None, typer.Option("--kubeconfig", help="Path of the kubeconfig.", show_default=False)
]
_EXTRA = ("redis", "orbiter_contracts")
"""What comes with the extra `kubernetes` only: the commands for tasks do without."""
_FLAGS = {"namespace": Namespace, "context": Context, "kubeconfig": Kubeconfig}


def remember(
    context: typer.Context,
    namespace: Namespace = None,
    context_name: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Talk to agents on a cluster: chat with sessions, hand in tasks and follow them."""
    context.obj = Scope(namespace=namespace, context=context_name, kubeconfig=kubeconfig)


def scoped(command: Callable[..., int | None]) -> Callable[..., None]:
    """Give a command kubectl's flags.

    Args:
        command: Takes a Kubectl first, then its options; returns its exit code, None for 0.
    """
    signature = inspect.signature(command, eval_str=True)
    _, *own = signature.parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY

    @functools.wraps(command)
    def run(ctx: typer.Context, **values: Any) -> None:
        given: Scope = ctx.obj or Scope()
        named = {name: values.pop(name) or getattr(given, name) for name in _FLAGS}
        raise typer.Exit(_guarded(command, Kubectl(Scope(**named)), values))

    added = [inspect.Parameter("ctx", keyword, annotation=typer.Context)]
    added += [
        inspect.Parameter(name, keyword, default=None, annotation=annotation)
        for name, annotation in _FLAGS.items()
    ]
    every = [parameter.replace(kind=keyword) for parameter in own] + added
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=every, return_annotation=None
    )
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    del run.__wrapped__
    return run


def complain(error: CommandError) -> str:
    """The line of an error; what the API server said is others' words too."""
    return plain(f"error: {error}")


def _guarded(command: Callable[..., int | None], kubectl: Kubectl, values: dict[str, Any]) -> int:
    try:
        return command(kubectl, **values) or ExitCode.OK
    except CommandError as error:
        typer.echo(complain(error), err=True)
        return error.code
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA:
            raise
        typer.echo(
            f"error: this command needs {package}: pip install 'orbiter-cli[kubernetes]'",
            err=True,
        )
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # the reader of our output has left, as `| head` does; its end says nothing about ours
        sys.stderr.close()
        return ExitCode.OK
