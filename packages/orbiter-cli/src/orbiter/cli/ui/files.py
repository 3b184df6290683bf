"""Files that a command writes in the end: that it can is known before it begins."""

from pathlib import Path

from orbiter.cli.ui.outcome import UsageError
from orbiter.cli.ui.sentences import os_sentence


def check_writable(option: str, file: str) -> None:
    """Be sure that a file can be written; what is in it stays, and none is left that was not there.

    Raises:
        UsageError: It cannot.
    """
    place = Path(file)
    try:
        new = not place.exists()
        with place.open("ab"):
            pass
        if new:
            place.unlink()
    except OSError as error:
        raise UsageError(f"{option} {os_sentence(error)}") from error
