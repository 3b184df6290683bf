"""Being the agent's user for a while: a test that runs as root meets no file mode otherwise."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

AGENT: int = 1000
"""The user of worker and agent in a pod."""


@contextmanager
def as_agent() -> Iterator[Path]:
    """Be the agent's user, or whoever we are if that is not root; in a directory of that user's."""
    directory = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    if root:
        os.chown(directory, AGENT, AGENT)
        os.seteuid(AGENT)
    try:
        yield directory
    finally:
        if root:
            os.seteuid(0)
        _remove(directory)


def _remove(directory: Path) -> None:
    """Remove a tree of any depth, whatever its modes say."""
    for path, _, _, at in os.fwalk(directory, follow_symlinks=False):
        os.fchmod(at, 0o700)
        del path
    shutil.rmtree(directory)
