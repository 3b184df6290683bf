"""The terminal of `kubectl orbiter watch`: lines on stdout, and one line of how things stand.

Two threads write to it: who follows the task, and who reads what the agent does.
"""

import os
import sys
import threading
from collections.abc import Iterable
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final

import typer

from orbiter.cli.ui.progress import Progress, say
from orbiter.cli.ui.text import plain

if TYPE_CHECKING:
    from orbiter.cli.kubectl.transcript_text import Line

_COLOURS: Final = {
    **{"dim": "\x1b[2m", "tool": "\x1b[36m", "good": "\x1b[2;32m", "bad": "\x1b[31m"},
    **{"add": "\x1b[32m", "del": "\x1b[31m", "ask": "\x1b[1;33m", "own": "\x1b[2m"},
}
_USUAL: Final = "\x1b[0m"
_MARK: Final = "| "
"""Begins each line of the agent's where no colour tells it from ours, and none of ours."""
_NARROWEST: Final = 8


class Screen:
    """Where the story of a task appears.

    Args:
        plain: No colours and no line that changes, as in a pipe. Without colours each line of the
            agent's begins with a mark, which none of the task's own does.
    """

    def __init__(self, *, plain: bool) -> None:
        self.progress = Progress()
        self._lock = threading.RLock()
        self._terminal = sys.stdout.isatty()
        coloured = self._terminal and not plain and not os.environ.get("NO_COLOR")
        self._colours = _COLOURS if coloured else {}
        self._changing = not plain

    def lines(self, lines: Iterable["Line"]) -> None:
        """Print what the agent says and does."""
        with self._lock:
            for text, style in lines:
                self.progress.done()
                colour = self._colours.get(style, "")
                for each in self._marked(text, style):
                    typer.echo(f"{colour}{each}{_USUAL if colour else ''}")

    def _marked(self, text: str, style: str) -> list[str]:
        """The lines of a text as they are printed, so that none of an agent's looks like ours."""
        shown = plain(text)
        if self._colours or style == "own":
            return [shown]
        lines = shown.expandtabs().split("\n")
        width = get_terminal_size().columns - len(_MARK)
        if self._terminal and width >= _NARROWEST:
            from rich.cells import chop_cells

            # a terminal would break them, and go on at its edge without the mark
            lines = [part for line in lines for part in chop_cells(line, width) or [""]]
        return [f"{_MARK}{line}".rstrip() for line in lines]

    def tell(self, text: str) -> None:
        """Print a line of the task's own."""
        with self._lock:
            self.progress.done()
            say(text)

    def note(self, text: str) -> None:
        """Say something beside, on stderr."""
        with self._lock:
            self.progress.note(text)

    def stands(self, text: str) -> None:
        """Keep one line up to date with how things stand, where that is a terminal."""
        if self._changing:
            with self._lock:
                self.progress.shows(text)

    def done(self) -> None:
        """Take that line away."""
        with self._lock:
            self.progress.done()
