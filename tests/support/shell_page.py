"""Types console blocks of a page into a shell of one's own: other names, other programs.

For pages about a cluster, whose commands a test runs one block at a time, against objects that are
named otherwise. The marks in a page are those of `console_pages`.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from support.console_pages import steps_of

_SECONDS = 120
_CLEAN_UP = "trap 'kill $(jobs -p) 2> /dev/null || :' EXIT"


class ShellPage:
    """The blocks of a page and the directory in which they are followed."""

    def __init__(self, page: Path, directory: Path) -> None:
        self._directory = directory
        self.blocks = [step.text for step in steps_of(page) if not step.file]
        for step in steps_of(page):
            if step.file:
                (directory / step.file).write_text(step.text)

    def follow(
        self, block: str, *, before: str = "", environment: Mapping[str, str] | None = None
    ) -> None:
        """Type the commands of a block.

        Args:
            block: One of `blocks`, perhaps with other names in it.
            before: Shell code that comes before them.
            environment: More variables.

        Raises:
            AssertionError: A command failed, or printed something else.
        """
        lines = block.splitlines()
        commands = [line[2:] for line in lines if line.startswith("$ ")]
        done = subprocess.run(
            # what is in the background ends with the rest, also when a command fails
            ["bash", "-euc", "\n".join([_CLEAN_UP, before, *commands])],
            cwd=self._directory,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        told = [line for line in lines if not line.startswith("$ ")]
        assert done.stdout.splitlines() == told, done.stderr
