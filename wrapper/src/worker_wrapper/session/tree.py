"""The files an agent leaves: found within bounds, and put back whatever is in their place.

The agent owns these directories, so that anything can be in them: any number, size, depth, mode
and kind of file. Below a root no link is followed, and a path is walked name by name from an open
directory, so that neither its length nor who changes it meanwhile matters. archive.py says what
goes in and out.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from uuid import uuid4

from worker_wrapper.process import below

LOOKED_AT: Final = 100_000
"""How many names are looked at; an agent's CLI keeps a few files for each conversation."""
PATH_BYTES: Final = 1024
"""How long a file's name in the archive may be: a quarter of what Linux takes for a whole path."""
DEPTH: Final = 32
"""How many directories deep; the CLIs use up to five."""
_CHUNK: Final = 256 * 1024
_OURS: Final = ".orbiter-"
"""How a name begins that only we give: such files are never kept."""
_DRAFT: Final = f"{_OURS}draft"
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

Roots = Mapping[str, Path]
"""Names in the archive, such as `.claude/projects`, and where each is on this disk: a directory or
a single file."""


class TooLargeError(Exception):
    """What should be kept is more than allowed.

    Attributes:
        reached: How many bytes it had by then, compressed; 0 when that is not what was too large.
    """

    def __init__(self, why: str, reached: int = 0) -> None:
        super().__init__(why)
        self.reached = reached


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file below a root."""

    name: str
    path: str
    size: int
    root: Path
    parts: tuple[str, ...]


def files(roots: Roots) -> Iterator[Found]:
    """All regular files below the roots, with their names in the archive.

    What cannot be looked at is left out.

    Raises:
        TooLargeError: There is more than the bounds allow.
    """
    seen = 0
    for prefix, root in sorted(roots.items()):
        pending: list[tuple[str, str, tuple[str, ...]]] = [(prefix, str(root), ())]
        while pending:
            name, path, parts = pending.pop()
            try:
                about = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(about.st_mode):
                yield Found(name, path, about.st_size, root, parts)
            elif stat.S_ISDIR(about.st_mode):
                if len(parts) >= DEPTH:
                    raise TooLargeError(f"has directories nested deeper than {DEPTH}")
                below = []
                for entry in _listed(path):
                    seen += 1
                    if seen > LOOKED_AT:
                        raise TooLargeError(f"has more than {LOOKED_AT} files and directories")
                    if entry.startswith(_OURS):
                        continue
                    if len(os.fsencode(f"{name}/{entry}")) > PATH_BYTES:
                        raise TooLargeError(f"has a path longer than {PATH_BYTES} bytes")
                    below.append((f"{name}/{entry}", f"{path}/{entry}", (*parts, entry)))
                pending += sorted(below, reverse=True)


def opened(found: Found) -> IO[bytes]:
    """Open a regular file to read it; wait for nothing, as a FIFO in its place would have us.

    The agent may be at work meanwhile, and no link that it puts on the way is followed.

    Raises:
        OSError: It cannot be opened, or is no regular file by now.
    """
    return below.opened(found.root.parent, (found.root.name, *found.parts))


def place(root: Path, parts: Sequence[str], source: IO[bytes], mtime: float) -> None:
    """Write a file below a root, or the root itself: what is in the way makes way.

    Args:
        root: The root.
        parts: Where below it; nothing when the root is the file.
        source: What to write.
        mtime: When it was changed.

    Raises:
        OSError: It is not to be done: the disk is full, for instance.
    """
    _make_way(root.parent)
    *directories, name = (root.name, *parts)
    at = os.open(root.parent, _DIRECTORY)
    try:
        for directory in directories:
            below = _entered(directory, at)
            os.close(at)
            at = below
        _write(name, at, source, mtime)
    finally:
        os.close(at)


def remove(path: str) -> None:
    """Remove a file if that can be done, also from a directory that has been made read-only."""
    with suppress(OSError):
        _permit(os.path.dirname(path))  # noqa: PTH120 - a text of bytes that may be no UTF-8
    with suppress(OSError):
        os.unlink(path)  # noqa: PTH108


def _listed(path: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            yield entry.name


def _make_way(directory: Path) -> None:
    """Have the directory above a root; a link there may be the administrator's and is followed."""
    for step in (*reversed(directory.parents), directory):
        try:
            about = step.stat()
        except OSError:
            if step.is_symlink():
                step.unlink()
            step.mkdir(mode=0o700, exist_ok=True)
            continue
        if not stat.S_ISDIR(about.st_mode):
            step.unlink()
            step.mkdir(mode=0o700)
        elif about.st_uid == os.geteuid():
            _permit(str(step))


def _permit(name: str, at: int | None = None) -> None:
    """Let ourselves do everything in a directory; the agent may have forbidden it."""
    mode = stat.S_IMODE(os.stat(name, dir_fd=at).st_mode)
    if mode & 0o700 != 0o700:
        os.chmod(name, mode | 0o700, dir_fd=at)


def _entered(name: str, at: int) -> int:
    """Open a directory in an open one; what is in its place, a link too, goes."""
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=at)
    try:
        os.mkdir(name, 0o700, dir_fd=at)
    except FileExistsError:
        _permit(name, at)
    return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=at)


def _write(name: str, at: int, source: IO[bytes], mtime: float) -> None:
    """Write beside the target, then put it in its place: nothing is written through a link."""
    _clear(_DRAFT, at)
    try:
        with os.fdopen(os.open(_DRAFT, _CREATE, 0o600, dir_fd=at), "wb") as file:
            while chunk := source.read(_CHUNK):
                file.write(chunk)
            file.flush()
            with suppress(OSError, OverflowError, ValueError):
                os.utime(file.fileno(), (mtime, mtime))
        try:
            os.replace(_DRAFT, name, src_dir_fd=at, dst_dir_fd=at)
        except IsADirectoryError:
            _clear(name, at)
            os.replace(_DRAFT, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        with suppress(OSError):
            os.unlink(_DRAFT, dir_fd=at)
        raise


def _clear(name: str, at: int) -> None:
    """Have nothing of that name.

    A directory is only moved aside: it may hold any number of files, nested as deep as it likes.
    """
    try:
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        pass
    except IsADirectoryError:
        os.rename(name, f"{_OURS}aside-{uuid4().hex}", src_dir_fd=at, dst_dir_fd=at)
