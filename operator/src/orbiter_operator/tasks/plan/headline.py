"""What `kubectl get agenttasks` shows of a task: a few words, so that lines stay short. Pure."""

from typing import Final
from unicodedata import east_asian_width

COLUMNS: Final = 35
"""With a name of 46 characters, the longest that `kubectl orbiter submit` makes, and the widest
phase, a line has less than 120."""


def headline(message: str, columns: int = COLUMNS) -> str:
    """The message in at most so many columns of a terminal, cut with an ellipsis.

    What is no printable character becomes a space: kubectl writes it as two and more.
    """
    text = " ".join("".join(c if c.isprintable() else " " for c in message).split())
    if _columns(text) <= columns:
        return text
    while _columns(text) >= columns:
        text = text[:-1]
    return f"{text.rstrip()}…"


def _columns(text: str) -> int:
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)
