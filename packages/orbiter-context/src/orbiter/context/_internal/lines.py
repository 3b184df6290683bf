"""Texts by lines: ranges, matches, counts. Lines are those of `str.splitlines`, from 0."""

import re


def lines_of(text: str, start: int, end: int) -> str:
    """Return the lines `start` to `end` (from 0, without `end`) of a text."""
    return "\n".join(text.splitlines()[max(0, start) : max(0, end)])


def matching_lines(text: str, pattern: str) -> list[str]:
    """Return the lines a pattern is found in, whatever their case.

    In a pattern `|` separates alternatives and `.*` stands for anything; all else means itself. It
    is no regular expression: models write patterns, and some expressions take forever.
    """
    alternatives = (re.escape(part).replace(r"\.\*", ".*") for part in pattern.split("|") if part)
    wanted = re.compile("|".join(alternatives), re.IGNORECASE)
    return [line for line in text.splitlines() if wanted.search(line)]


def line_breaks(text: str) -> int:
    """Return how many line breaks a text has, of the kinds that `splitlines` knows."""
    return len((text + ".").splitlines()) - 1
