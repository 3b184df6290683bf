"""What git runs to be told a username or password: reads it from the mounted Secret's files.

So credentials are in no URL, no argument list and no environment. Started by git through a script
that git.py makes; imports nothing heavy, because git starts it for every question.
"""

import os
import re
import sys
from pathlib import Path
from typing import Final

CREDENTIALS_DIR: Final = "ORBITER_ASKPASS_DIR"
HOST: Final = "ORBITER_ASKPASS_HOST"
_DEFAULT_USER: Final = "git"
"""What hosts accept beside a token when the Secret names no user."""


def answer(question: str, directory: Path, host: str) -> str | None:
    """Answer git's question, if it is about our host.

    Args:
        question: For instance `Password for 'https://git@example.org': `.
        directory: The mounted Secret: `username`, and `password` or `token`.
        host: Host, with port if any, that the credentials are for. A redirect elsewhere gets none.

    Returns:
        The username or password; None when there is none to give.
    """
    asked = re.search(r"'\w+://(?:[^@'/]*@)?([^'/]+)", question)
    if asked is None or asked[1] != host:
        return None
    if question.startswith("Username"):
        return _read(directory / "username") or _DEFAULT_USER
    return _read(directory / "password") or _read(directory / "token")


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


def main() -> int:
    """Print the answer; exit code 1 tells git that there is none."""
    question = sys.argv[1] if len(sys.argv) > 1 else ""
    found = answer(question, Path(os.environ[CREDENTIALS_DIR]), os.environ[HOST])
    if found is None:
        return 1
    sys.stdout.write(f"{found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
