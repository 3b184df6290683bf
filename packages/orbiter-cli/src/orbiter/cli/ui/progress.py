"""What a person sees while a session works: a line with the time that passes, then the text.

The line is on stderr and only where that is a terminal, so that stdout has the answer alone.
"""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import typer

from orbiter.cli.ui.text import plain, seconds

if TYPE_CHECKING:
    from rich.status import Status


def say(text: str, *, err: bool = False) -> None:
    """Print a text for people, without what a terminal would obey."""
    typer.echo(plain(text), err=err)


class Progress:
    """One terminal.

    Args:
        clock: Seconds that only ever grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console

        self._clock = clock
        self._since = clock()
        self._console = Console(stderr=True, highlight=False)
        self._open = ExitStack()
        self._status: Status | None = None
        self._mid_line = False

    def start(self) -> None:
        """Count the time from now on."""
        self._since = self._clock()

    @property
    def elapsed(self) -> float:
        """Seconds since `start`."""
        return self._clock() - self._since

    def waiting(self, what: str) -> None:
        """Show what is waited for, and for how long already; not in the middle of an answer."""
        self.shows(f"{what} {seconds(self.elapsed)}")

    def shows(self, line: str) -> None:
        """Show a line in the place of the last one; not in the middle of an answer."""
        if self._mid_line:
            return
        from rich.text import Text

        text = Text(plain(line), no_wrap=True, overflow="ellipsis")
        if self._status is not None:
            self._status.update(text)
        elif self._console.is_terminal:
            self._status = self._open.enter_context(self._console.status(text, spinner="dots"))

    def done(self) -> None:
        """Take the line away."""
        self._status = None
        self._open.close()

    def text(self, text: str) -> None:
        """Print a piece of an answer; a terminal gets it without what it would obey."""
        self.done()
        sys.stdout.write(plain(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
        self._mid_line = not text.endswith("\n") if text else self._mid_line

    def end_line(self) -> None:
        """Let what follows begin on a line of its own."""
        if self._mid_line:
            self.text("\n")

    def note(self, text: str) -> None:
        """Say something beside the answer."""
        self.done()
        self.end_line()
        self._console.print(plain(text), style="dim", markup=False, soft_wrap=True)

    def error(self, text: str) -> None:
        """Say what went wrong."""
        self.done()
        self.end_line()
        self._console.print(plain(f"error: {text}"), style="red", markup=False, soft_wrap=True)
