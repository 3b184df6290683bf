"""Where a task works on this machine, and what is left there when it has ended."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunDirectory:
    """The directory of one run.

    Attributes:
        path: Ours: the log, what Secrets say, and the workspace when none is given.
        workspace: Where the agent works.
        made: Directories that were made for the workspace, the innermost first.
    """

    path: Path
    workspace: Path
    made: tuple[Path, ...]

    @property
    def log(self) -> Path:
        """The worker's log."""
        return self.path / "worker.log"

    @property
    def private(self) -> Path:
        """For files that hold what Secrets and ConfigMaps say."""
        return self.path / "private"

    def clear(self, *, failed: bool) -> None:
        """Remove what nobody needs any more; the agent's files stay, nobody may have them yet.

        Args:
            failed: Keep what the worker has written to its log, and no empty directory. After a
                success the log goes, and a workspace that was asked for stays, empty or not.
        """
        shutil.rmtree(self.private, ignore_errors=True)
        if not failed or (self.log.exists() and self.log.stat().st_size == 0):
            self.log.unlink(missing_ok=True)
        ours = failed or self.workspace.is_relative_to(self.path)
        for directory in (*(self.made if ours else ()), self.path):
            if directory.is_dir() and not any(directory.iterdir()):
                directory.rmdir()


@contextmanager
def run_directory(name: str, workspace: str | None) -> Iterator[RunDirectory]:
    """Make the directory of a task called `name`; none that is empty outlives an error."""
    path = Path(tempfile.mkdtemp(prefix=f"orbiter-{name}-"))
    work = Path(workspace).resolve() if workspace else path / "workspace"
    missing = tuple(one for one in (work, *work.parents) if not one.exists())
    run = RunDirectory(path, work, missing)
    try:
        work.mkdir(parents=True, exist_ok=True)
        run.private.mkdir(mode=0o700)
        yield run
    except BaseException:
        run.clear(failed=True)
        raise
