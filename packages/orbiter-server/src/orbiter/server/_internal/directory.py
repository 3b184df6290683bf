"""The server's directory, which one server at a time uses."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from orbiter.types import OrbiterError


@contextlib.contextmanager
def owned(directory: Path) -> Iterator[None]:
    """Make the directory and see that no other server uses it: it would take up our runs."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise OrbiterError(f"the server's directory {directory} cannot be used: {error}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OrbiterError(
                f"another server uses {directory}: stop it or give this one its own directory"
            ) from None
        yield
    finally:
        os.close(lock)
