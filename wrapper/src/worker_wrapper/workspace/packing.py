"""Packs what of a workspace is kept in a checkpoint; contents.py reads it back and has the format.

The agent may change all of it meanwhile: paths are walked without following links
(process/below.py), and a file that shrinks ends in zeros, until the next checkpoint has it whole.
"""

import gzip
import io
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Final

from worker_wrapper.process import below
from worker_wrapper.process.bounded_sink import BoundedSink
from worker_wrapper.workspace.contents import (
    ABOUT,
    ABOUT_BYTES,
    CHUNK,
    COMMITS,
    DEPTH,
    FILES,
    INSIDE,
    MAGIC,
    PATH_BYTES,
    UNPACKED_BYTES,
    Parts,
    Repository,
)

_LEVEL: Final = 3


class TooLargeError(Exception):
    """More than is kept; the text says of what."""


def pack(
    root: Path,
    files: Iterable[Parts],
    *,
    limit: int,
    about: Repository | None,
    commits: Path | None,
) -> bytes:
    """Compress files of a workspace.

    Args:
        root: The workspace.
        files: Which of them; a directory stands for itself alone.
        limit: The largest size in bytes.
        about: What is known of its repository.
        commits: The pack of the agent's commits.

    Raises:
        TooLargeError: It would be larger, or what is there is beyond the bounds.
    """
    sink = BoundedSink(
        limit, lambda size: TooLargeError(f"more than {limit} bytes when compressed")
    )
    sink.write(MAGIC)
    left, count = UNPACKED_BYTES, 0
    with (
        gzip.GzipFile(filename="", fileobj=sink, mode="wb", compresslevel=_LEVEL, mtime=0) as body,
        tarfile.open(fileobj=body, mode="w|", bufsize=CHUNK) as tar,
    ):
        if about is not None:
            text = about.model_dump_json().encode()
            if len(text) > ABOUT_BYTES:
                raise TooLargeError(f"names of deleted files of more than {ABOUT_BYTES} bytes")
            _add_bytes(tar, ABOUT, text)
        if commits is not None:
            with below.opened(commits.parent, (commits.name,)) as file:
                size = os.fstat(file.fileno()).st_size
                _add(tar, tarfile.TarInfo(COMMITS), file, size)
        for parts in files:
            count += 1
            if count > FILES:
                raise TooLargeError(f"more than {FILES} files")
            left -= _add_path(tar, root, parts, left)
    return bytes(sink.data)


def every_file(root: Path, top: Parts = ()) -> Iterator[Parts]:
    """All that is below a directory, directories before what is in them.

    Args:
        root: Paths are from here.
        top: The directory, below the root.

    Raises:
        TooLargeError: It is nested too deep, or one directory has more than is kept of all.
    """
    pending: list[Parts] = [top]
    while pending:
        parts = pending.pop()
        if len(parts) > DEPTH:
            raise TooLargeError(f"directories nested deeper than {DEPTH}")
        try:
            with below.directory(root, parts) as at:
                with os.scandir(at) as found:
                    names = sorted(entry.name for entry in islice(found, FILES + 1))
                kinds = [_is_directory(name, at) for name in names]
        except OSError:
            continue
        if len(names) > FILES:
            raise TooLargeError(f"more than {FILES} files")
        for name, is_directory in zip(names, kinds, strict=True):
            yield (*parts, name)
            if is_directory:
                pending.append((*parts, name))


def _add_path(tar: tarfile.TarFile, root: Path, parts: Parts, left: int) -> int:
    """Add what is at a path, unless it is gone or of another kind; say how large it was."""
    about = below.status(root, parts)
    if about is None or len(os.fsencode("/".join(parts))) > PATH_BYTES:
        return 0
    entry = tarfile.TarInfo("/".join((INSIDE, *parts)))
    entry.mode, entry.mtime = stat.S_IMODE(about.st_mode), int(about.st_mtime)
    try:
        if stat.S_ISLNK(about.st_mode):
            entry.type, entry.linkname = tarfile.SYMTYPE, below.link(root, parts)
            tar.addfile(entry)
        elif stat.S_ISDIR(about.st_mode):
            entry.type = tarfile.DIRTYPE
            tar.addfile(entry)
        elif stat.S_ISREG(about.st_mode):
            if about.st_size > left:
                raise TooLargeError(f"more than {UNPACKED_BYTES} bytes")
            with below.opened(root, parts) as file:
                _add(tar, entry, file, about.st_size)
            return about.st_size
    except OSError:
        return 0  # Gone or replaced since it was looked at.
    return 0


def _add(tar: tarfile.TarFile, entry: tarfile.TarInfo, file: IO[bytes], size: int) -> None:
    """Add a file of which exactly so much is read: one that shrinks meanwhile ends in zeros."""
    entry.size = size
    tar.addfile(entry, _Exactly(file, size))


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def _is_directory(name: str, at: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
    except OSError:
        return False


class _Exactly(io.RawIOBase):
    def __init__(self, file: IO[bytes], size: int) -> None:
        super().__init__()
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        self._left -= wanted
        return data.ljust(wanted, b"\0")
