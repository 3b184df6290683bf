"""Texts that people give as an argument, in a file or on stdin."""

import sys
from pathlib import Path

from orbiter.cli.kubectl.errors import CommandError, ExitCode


def given_or_read(text: str | None, what: str, file: str | None = None) -> str:
    """Return the text that was given; `-`, or nothing and a stdin that is no terminal, reads that.

    Args:
        text: The argument.
        what: What it is, for the error, for instance `a message`.
        file: A file to read instead, `-` for stdin.

    Raises:
        CommandError: There is none, or two.
    """
    if file is not None:
        if text is not None:
            raise CommandError(f"{what}: give the text or --file, not both", ExitCode.USAGE)
        try:
            given = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{file}: {error}", ExitCode.USAGE) from None
    elif text == "-" or (text is None and not sys.stdin.isatty()):
        given = sys.stdin.read()
    else:
        given = text or ""
    if not given.strip():
        raise CommandError(f"{what} is missing: give it as TEXT, or on stdin", ExitCode.USAGE)
    return given.strip("\n")
