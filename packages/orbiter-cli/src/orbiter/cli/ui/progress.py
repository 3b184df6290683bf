"""What a person sees while a session works: a line with the time that passes, then the text.

The line is on stderr, so that stdout has the answer alone. Where that is no terminal, a wait is
told when it lasts, when it is for something else, and now and then.
"""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import typer

from orbiter.cli.ui.text import plain, seconds

if TYPE_CHECKING:
    from rich.status import Status

_QUIET_SECONDS: Final = 2.0
"""For so long a wait is nothing to speak of."""
_AGAIN_SECONDS: Final = 30.0
"""After so long the same is said again: nobody is to wonder whether anything still waits."""


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
        self._said = ""
        self._said_at = 0.0

    def start(self) -> None:
        """Count the time from now on."""
        self._since = self._clock()
        self._said = ""

    @property
    def elapsed(self) -> float:
        """Seconds since `start`."""
        return self._clock() - self._since

    def waiting(self, what: str, line: str = "", *, unusual: bool = False) -> None:
        """Show what is waited for, and for how long already; not in the middle of an answer.

        Args:
            what: What a terminal shows.
            line: What is said where there is none, if it is more than that.
            unusual: Whether something keeps it from beginning: that is said at once and whole, at
                a terminal too, whose line has no room for it.
        """
        if self._console.is_terminal:
            if unusual and not self._mid_line and line != self._said:
                self._said = line
                self.note(f"{seconds(self.elapsed):>8}  {line}")
            self.shows(f"{what} {seconds(self.elapsed)}")
        elif not self._mid_line and (unusual or self.elapsed >= _QUIET_SECONDS):
            self._says(line or what)

    def _says(self, line: str) -> None:
        if line != self._said or self.elapsed - self._said_at >= _AGAIN_SECONDS:
            self._said, self._said_at = line, self.elapsed
            say(f"{seconds(self.elapsed):>8}  {line}", err=True)

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
