"""What a person sees of a run: the answer on standard output, all else beside it.

Only the answer is on standard output, so that it can be piped. What an agent says is text: a
terminal never gets to see what it would obey.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from orbiter.cli.ui.text import plain
from orbiter.types import RunResult, StreamEvent

_LONGEST = 200


class Terminal:
    """Shows the events of a run.

    Args:
        quiet: Show the answer only.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._open_line = False

    def show(self, event: StreamEvent) -> None:
        """Show an event."""
        if event.type == "text":
            self._text(event.text)
        elif event.type == "tool_call":
            self.note(f"{event.tool_name}({_short(event.arguments)})")
        elif event.type == "tool_result" and event.error is not None:
            self.note(f"{event.tool_name} failed: {_short(event.error)}")
        elif event.type == "handoff":
            self.note(f"-> {event.target}")

    def _text(self, text: str) -> None:
        out = plain(text) if sys.stdout.isatty() else text
        sys.stdout.write(out)
        sys.stdout.flush()
        self._open_line = not out.endswith("\n") if out else self._open_line

    def end(self) -> None:
        """End the line of the answer."""
        if self._open_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._open_line = False

    def note(self, text: str) -> None:
        """Say something beside the answer."""
        if self._quiet:
            return
        self.end()
        line = plain(text).replace("\n", " ")
        dim, usual = ("\x1b[2m", "\x1b[0m") if sys.stderr.isatty() else ("", "")
        sys.stderr.write(f"{dim}{line}{usual}\n")
        sys.stderr.flush()


def result_json(result: RunResult) -> dict[str, Any]:
    """Return a result as programs read it."""
    data: dict[str, Any] = result.model_dump(mode="json", warnings=False)
    return data


def print_json(data: Any, write: Callable[[str], object] | None = None) -> None:
    """Print one JSON document on one line."""
    (write or sys.stdout.write)(json.dumps(data, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
