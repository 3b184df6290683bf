"""What people type or pipe in: texts and durations."""

import re
import sys
from pathlib import Path
from typing import Final

from orbiter.cli.ui.outcome import UsageError

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def given_or_read(text: str | None, what: str, file: str | None = None) -> str:
    """Return the text that was given; `-`, or nothing and a stdin that is no terminal, reads that.

    Args:
        text: The argument.
        what: What it is, for the error, for instance `a message`.
        file: A file to read instead, `-` for stdin.

    Raises:
        UsageError: There is none, or two.
    """
    piped = False
    if file is not None:
        if text is not None:
            raise UsageError(f"{what}: give the text or --file, not both")
        try:
            given = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: {error}") from None
    elif piped := text == "-" or (text is None and not sys.stdin.isatty()):
        given = sys.stdin.read()
    else:
        given = text or ""
    if not given.strip():
        step = "standard input is empty" if piped else "give it as an argument, or pipe it in"
        raise UsageError(f"{what} is missing: {step}")
    return given.strip("\n")


def parse_seconds(text: str | None) -> int | None:
    """Read a duration, None for None.

    >>> parse_seconds("90"), parse_seconds("90s"), parse_seconds("30m"), parse_seconds("1h30m")
    (90, 90, 1800, 5400)

    Raises:
        UsageError: It is none.
    """
    if text is None:
        return None
    parts = re.findall(r"(\d+)([smhd]?)", text.strip())
    total = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if total <= 0 or "".join(number + unit for number, unit in parts) != text.strip():
        raise UsageError(f"{text!r} is no duration; write 90s, 30m or 1h30m")
    return total
