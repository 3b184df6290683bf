"""A conversation at a terminal: lines with a history, and Ctrl-C stops waiting, nothing else."""

import contextlib
import os
import readline
from collections.abc import Iterator
from pathlib import Path

import typer

from orbiter.cli.kubectl.turns import Turns, problem
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.text import money, seconds
from orbiter_contracts import POWorkerOutput

_QUIT = ("/quit", "/exit")
_FATAL = (ExitCode.NOT_FOUND, ExitCode.UNREACHABLE)
_KEPT_LINES = 1000


def talk(turns: Turns, timeout: int | None) -> int:
    """Take line after line until the user leaves; returns the exit code."""
    session, progress = turns.session, turns.progress
    words = ", ".join(session.commands)
    begins = f"; {words} begins a new session" if words else ""
    asleep = " (asleep, a message wakes it)" if session.phase == "Asleep" else ""
    progress.note(f"session {session.name}{asleep}. /quit or Ctrl-D leaves{begins}.")
    with _history():
        while True:
            try:
                line = input("> ").strip()
            except EOFError:
                typer.echo()
                return ExitCode.OK
            except KeyboardInterrupt:
                typer.echo()
                progress.note("/quit or Ctrl-D leaves")
                continue
            if line in _QUIT:
                return ExitCode.OK
            if line:
                _turn(turns, line, timeout)


def _turn(turns: Turns, line: str, timeout: int | None) -> None:
    progress = turns.progress
    try:
        turns.refresh()
        output = turns.take(line, progress.text, timeout)
    except KeyboardInterrupt:
        progress.note("\nno longer waiting; the answer is shown when the next one comes")
        return
    except CommandError as error:
        if error.code in _FATAL:
            raise
        progress.error(str(error))
        return
    progress.end_line()
    if output.status != "success":
        progress.error(problem(output))
    progress.note(_summary(output, progress.elapsed))


def _summary(output: POWorkerOutput, elapsed: float) -> str:
    parts = [seconds(elapsed)]
    if output.usage is not None:
        parts.append(f"{output.usage.input_tokens:,} + {output.usage.output_tokens:,} tokens")
        if output.usage.cost_usd is not None:
            parts.append(f"{money(output.usage.cost_usd)} USD")
    return " · ".join(parts)


@contextlib.contextmanager
def _history() -> Iterator[None]:
    """The lines of earlier conversations, in a file that only its owner can read."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = home / "orbiter" / "chat_history"
    readline.set_history_length(_KEPT_LINES)
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            readline.write_history_file(path)
            path.chmod(0o600)
