"""Where a task works on this machine, and what is left there when it has ended."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orbiter.cli.ui.outcome import UsageError


@dataclass(frozen=True)
class Place:
    """The directory of one run.

    Attributes:
        directory: Ours: the log, what Secrets say, and the workspace when none is given.
        workspace: Where the agent works.
    """

    directory: Path
    workspace: Path

    @property
    def log(self) -> Path:
        """The worker's log."""
        return self.directory / "worker.log"

    @property
    def private(self) -> Path:
        """For files that hold what Secrets and ConfigMaps say."""
        return self.directory / "private"

    def clear(self, *, log: bool) -> None:
        """Remove what nobody needs any more.

        Args:
            log: Keep the log. The agent's files stay in any case: nobody may have collected them.
        """
        shutil.rmtree(self.private, ignore_errors=True)
        if log:
            return
        self.log.unlink(missing_ok=True)
        for ours in (self.directory / "workspace", self.directory):
            if ours.is_dir() and not any(ours.iterdir()):
                ours.rmdir()


@contextmanager
def place_for(name: str, workspace: str | None) -> Iterator[Place]:
    """Make the directory of a task called `name`; an error before the run leaves none behind."""
    directory = Path(tempfile.mkdtemp(prefix=f"orbiter-{name}-"))
    work = Path(workspace).resolve() if workspace else directory / "workspace"
    place = Place(directory, work)
    try:
        work.mkdir(parents=True, exist_ok=True)
        place.private.mkdir(mode=0o700)
        yield place
    except (UsageError, OSError, ModuleNotFoundError):
        place.clear(log=False)
        raise
