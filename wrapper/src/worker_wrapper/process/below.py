"""Files below a directory that somebody else changes meanwhile: no link on the way is followed.

An agent runs as our user and can put a link in the place of any directory of its own at any moment.
A path is therefore walked name by name from an open directory: otherwise a link to `/proc/self`
would have us read our own environment, with the Redis password in it.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Final, Protocol
from uuid import uuid4

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW: Final = _DIRECTORY | os.O_NOFOLLOW
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK: Final = 256 * 1024
_NAMES: Final = 1000
"""Of how many entries of a directory the names are kept at a time."""


class Source(Protocol):
    """What a file's contents are read from."""

    def read(self, size: int = ..., /) -> bytes:
        """The next bytes; none at the end."""


@contextmanager
def directory(root: Path, parts: Sequence[str] = (), *, make: bool = False) -> Iterator[int]:
    """Open a directory below a root.

    Args:
        root: The root, which may be reached by links.
        parts: The names on the way.
        make: Make what is not there; what is in the way and no directory, goes.

    Raises:
        OSError: There is no such directory.
    """
    at = os.open(root, _DIRECTORY)
    try:
        for name in parts:
            if make:
                _make(name, at)
            below = os.open(name, _BELOW, dir_fd=at)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def status(root: Path, parts: Sequence[str]) -> os.stat_result | None:
    """What is there, a link itself and not where it leads; None when there is nothing."""
    try:
        with directory(root, parts[:-1]) as at:
            return os.stat(parts[-1], dir_fd=at, follow_symlinks=False)
    except OSError:
        return None


def opened(root: Path, parts: Sequence[str]) -> IO[bytes]:
    """Open a regular file below a root to read it; a FIFO in its place does not keep us waiting.

    Raises:
        OSError: It cannot be opened, or is no regular file.
    """
    with directory(root, parts[:-1]) as at:
        file = os.fdopen(os.open(parts[-1], _READ, dir_fd=at), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{'/'.join(parts)} is no regular file")
    return file


def link(root: Path, parts: Sequence[str]) -> str:
    """Where a link below a root leads.

    Raises:
        OSError: It is none.
    """
    with directory(root, parts[:-1]) as at:
        return os.readlink(parts[-1], dir_fd=at)


def remove(root: Path, parts: Sequence[str]) -> None:
    """Remove what is there, if anything is."""
    with suppress(FileNotFoundError, NotADirectoryError), directory(root, parts[:-1]) as at:
        _clear(parts[-1], at)


def write(root: Path, parts: Sequence[str], source: Source, mode: int, mtime: float) -> None:
    """Put a file below a root, in the place of whatever is there."""
    with directory(root, parts[:-1], make=True) as at:
        with suppress(FileNotFoundError):
            _clear(parts[-1], at)
        with os.fdopen(os.open(parts[-1], _CREATE, 0o600, dir_fd=at), "wb") as file:
            shutil.copyfileobj(source, file, _CHUNK)
            file.flush()
            os.fchmod(file.fileno(), mode & 0o777)
            with suppress(OSError, OverflowError, ValueError):
                os.utime(file.fileno(), (mtime, mtime))


def write_link(root: Path, parts: Sequence[str], target: str) -> None:
    """Put a link below a root, in the place of whatever is there."""
    with directory(root, parts[:-1], make=True) as at:
        with suppress(FileNotFoundError):
            _clear(parts[-1], at)
        os.symlink(target, parts[-1], dir_fd=at)


def write_directory(root: Path, parts: Sequence[str], mode: int) -> None:
    """Have a directory below a root, which its owner may always enter and change."""
    with directory(root, parts, make=True) as at:
        os.fchmod(at, (mode & 0o777) | 0o700)


def _make(name: str, at: int) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=at)
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=at)


def _clear(name: str, at: int) -> None:
    if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
        _remove_tree(name, at)
    else:
        os.unlink(name, dir_fd=at)


def _remove_tree(name: str, at: int) -> None:
    """Remove a directory, however deep it is nested and whatever the modes in it say.

    What is a directory in one of its directories is moved up into it, and waits there for its turn:
    so two are open at a time, and no path is long. `shutil.rmtree` calls itself for each level,
    and leaves what a tool has made read-only, for instance Go's modules.
    """

    def remove(entry: str, is_directory: bool, root: int) -> None:
        if is_directory:
            _empty(entry, root, partial(_move_up, to=root))
        else:
            os.unlink(entry, dir_fd=root)

    _empty(name, at, remove)


def _empty(name: str, at: int, remove: Callable[[str, bool, int], None]) -> None:
    """Have every entry of a directory removed, then the directory."""
    os.chmod(name, 0o700, dir_fd=at)
    opened = os.open(name, _BELOW, dir_fd=at)
    try:
        while entries := _some(opened):
            for entry, is_directory in entries:
                remove(entry, is_directory, opened)
    finally:
        os.close(opened)
    os.rmdir(name, dir_fd=at)


def _some(opened: int) -> list[tuple[str, bool]]:
    with os.scandir(opened) as found:
        return [(one.name, one.is_dir(follow_symlinks=False)) for one in islice(found, _NAMES)]


def _move_up(entry: str, is_directory: bool, at: int, to: int) -> None:
    if not is_directory:
        os.unlink(entry, dir_fd=at)
        return
    os.chmod(entry, 0o700, dir_fd=at)
    try:
        os.rename(entry, f".orbiter-{uuid4().hex}", src_dir_fd=at, dst_dir_fd=to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.rmtree(entry, dir_fd=at)  # It is part of the image, which no agent has nested.
