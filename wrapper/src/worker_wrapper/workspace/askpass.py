"""What git runs to be told a username or password: reads it from the mounted Secret's files.

So credentials are in no URL, no argument list and no environment. Started by git through a script
that git.py makes; imports nothing heavy, because git starts it for every question.
"""

import os
import re
import sys
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

CREDENTIALS_DIR: Final = "ORBITER_ASKPASS_DIR"
URL: Final = "ORBITER_ASKPASS_URL"
_PORTS: Final = {"https": 443, "http": 80}
_DEFAULT_USER: Final = "git"
"""What hosts accept beside a token when the Secret names no user."""


def answer(question: str, directory: Path, url: str) -> str | None:
    """Answer git's question, if it is about our host: by the same scheme, at the same port.

    Args:
        question: For instance `Password for 'https://git@example.org': `.
        directory: The mounted Secret: `username`, and `password` or `token`.
        url: What the credentials are for. A redirect elsewhere, or to no TLS, gets none.

    Returns:
        The username or password; None when there is none to give.
    """
    asked = re.search(r"'([^']+)'", question)
    if asked is None or _origin(asked[1]) is None or _origin(asked[1]) != _origin(url):
        return None
    if question.startswith("Username"):
        return _read(directory / "username") or _DEFAULT_USER
    return _read(directory / "password") or _read(directory / "token")


def _origin(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of a URL; None when it has none of them."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


def main() -> int:
    """Print the answer; exit code 1 tells git that there is none."""
    question = sys.argv[1] if len(sys.argv) > 1 else ""
    found = answer(question, Path(os.environ[CREDENTIALS_DIR]), os.environ[URL])
    if found is None:
        return 1
    sys.stdout.write(f"{found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
