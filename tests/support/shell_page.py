"""Types the commands of a Markdown page into a shell, so that the page tells what is so.

In the section, a comment `<!-- file: NAME -->` above a block makes it a file, and `<!-- run -->`
above a `console` block has its commands run and what they print compared with what stands there.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

_FILE = re.compile(r"<!-- file: (\S+) -->\n+```\w+\n(.*?)```", re.DOTALL)
_RUN = re.compile(r"<!-- run -->\n+```console\n(.*?)```", re.DOTALL)
_SECONDS = 120


class ShellPage:
    """One section of a page and the directory in which it is followed."""

    def __init__(self, page: Path, section: str, directory: Path) -> None:
        text = page.read_text().split(f"## {section}\n")[1].split("\n## ")[0]
        self._directory = directory
        self.blocks: list[str] = _RUN.findall(text)
        for name, content in _FILE.findall(text):
            (directory / name).write_text(content)

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
            [
                "bash",
                "-euc",
                "\n".join(["trap 'kill $(jobs -p) 2> /dev/null || :' EXIT", before, *commands]),
            ],
            cwd=self._directory,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        told = [line for line in lines if not line.startswith("$ ")]
        assert done.stdout.splitlines() == told, done.stderr
