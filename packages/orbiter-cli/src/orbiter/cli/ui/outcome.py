"""How `orbiter` ends: one table of exit codes, and errors as one line."""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import ParamSpec

import typer

from orbiter.types import OrbiterError

P = ParamSpec("P")


class ExitCode(IntEnum):
    """What a script learns from `$?`; docs/cli.md has the same table."""

    OK = 0
    FAILED = 1
    """The run failed, or an evaluation did not pass."""
    USAGE = 2
    """The command line, or a file it names, cannot be used."""
    STOPPED = 3
    """The run met a limit before it had an answer, or its answer is not whole."""
    INTERRUPTED = 130


_CUT = {
    "length": "the answer was cut off at the limit of output tokens: raise max_tokens",
    "content_filter": "the provider's content filter stopped the answer",
    "refusal": "the model refused to answer",
    "incomplete": "the answer broke off before its end: run it again",
}


def cut_short(stop_reason: str) -> str:
    """Say how an answer came to be not whole; an empty text for other reasons to stop."""
    return _CUT.get(stop_reason, "")


class UsageError(OrbiterError):
    """A command cannot do what it was asked; the text names the thing and the next step."""


@contextmanager
def usage() -> Iterator[None]:
    """Take what goes wrong inside for a mistake in the command line or a file it names."""
    try:
        yield
    except OrbiterError as error:
        raise UsageError(str(error)) from error


def ends(command: Callable[P, int | None]) -> Callable[P, None]:
    """Let a command return its exit code, and tell its errors in one line on standard error."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        raise typer.Exit(_code(lambda: command(*args, **kwargs)))

    return wrapped


def _code(command: Callable[[], int | None]) -> int:
    try:
        code = command() or ExitCode.OK
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("\n" if sys.stderr.isatty() else "")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # whoever read us has enough; what is left must not fail again when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    except OrbiterError as error:
        tell(str(error))
        return ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.FAILED
    return code


def tell(error: str) -> None:
    """Write an error as one line, without what a terminal would obey."""
    from orbiter.cli.ui.text import plain

    line = plain(error).strip().partition("\n")[0]
    sys.stderr.write(f"error: {line}\n")
