"""How the commands end: one table of exit codes, and errors as one line."""

import functools
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import ParamSpec

import typer

from orbiter.cli.ui.text import plain
from orbiter.types import OrbiterError

P = ParamSpec("P")


class ExitCode(IntEnum):
    """What a script learns from `$?`; docs/cli.md and docs/sessions.md have the same table."""

    OK = 0
    FAILED = 1
    """A run, task or session failed, an evaluation did not pass, a request was refused."""
    USAGE = 2
    """The command line, or a file it names, cannot be used."""
    STOPPED = 3
    """`orbiter`: the run met a limit before it had an answer, or its answer is not whole."""
    NOT_FOUND = 3
    """`kubectl orbiter`: there is no such object."""
    WAITING = 4
    """Nothing happens until a person acts: a question is open, or the session is suspended."""
    CANCELLED = 5
    UNREACHABLE = 6
    """kubectl, the API server or Redis cannot be used from here."""
    TIMEOUT = 124
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


class CommandError(OrbiterError):
    """A command cannot do what it was asked; the text names the thing and the next step."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """The command line, or a file it names, cannot be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.USAGE)


@contextmanager
def usage(option: str = "") -> Iterator[None]:
    """Take what goes wrong inside for a mistake in the command line or a file it names.

    Args:
        option: Begins the error, with a space behind it.
    """
    try:
        yield
    except UsageError:
        raise
    except OrbiterError as error:
        raise UsageError(f"{option}{error}") from error


def ends(command: Callable[P, int | None]) -> Callable[P, None]:
    """Let a command return its exit code, and tell its errors in one line on standard error."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        raise typer.Exit(exit_code(lambda: command(*args, **kwargs)))

    return wrapped


def exit_code(command: Callable[[], int | None]) -> int:
    """Run a command to its exit code. No error leaves it: each is reported in a sentence."""
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
    except typer.Exit:
        raise
    except Exception as error:
        return report(error)
    return code


def report(error: Exception) -> ExitCode:
    """Tell an error; returns the exit code that it means."""
    from pydantic import ValidationError

    from orbiter.cli.ui.sentences import DEBUG, sentence

    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    if isinstance(error, CommandError) and not isinstance(error, UsageError):
        # what the API server says may have many lines
        sys.stderr.write(f"{complaint(sentence(error))}\n")
        return error.code
    tell(sentence(error))
    usage = isinstance(error, UsageError | ModuleNotFoundError | OSError | ValidationError)
    return ExitCode.USAGE if usage else ExitCode.FAILED


def complaint(error: str) -> str:
    """The text of an error, without what a terminal would obey: parts of it are others' words."""
    return plain(f"error: {error}").strip()


def tell(error: str) -> None:
    """Write an error as one line."""
    sys.stderr.write(complaint(error).partition("\n")[0] + "\n")


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack, so that no port-forward is left behind."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {each: signal.signal(each, leave) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
