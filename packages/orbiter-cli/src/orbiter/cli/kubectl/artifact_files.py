"""Files that somebody else has named, written below a directory of ours and nowhere else.

No link is followed on the way, nothing that is there is overwritten, and a file whose bytes are not
what was kept does not stay.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from orbiter_contracts.artifacts import Artifact, file_name_problem

_BELOW: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NotWrittenError(Exception):
    """A file was not written; the text says why."""


def write(root: Path, file: Artifact, chunks: Iterable[bytes]) -> None:
    """Write a file.

    Args:
        root: The directory, which is there.
        file: Its name, its size and what its bytes come to.
        chunks: Its bytes.

    Raises:
        NotWrittenError: It cannot be written there, or is not what was kept.
    """
    if problem := file_name_problem(file.name):
        raise NotWrittenError(f"its name {problem}")
    *parents, name = file.name.split("/")
    try:
        at = _directory(root, parents)
        try:
            _fill(name, at, file, chunks)
        finally:
            os.close(at)
    except FileExistsError:
        raise NotWrittenError("it is there already: give another directory") from None
    except OSError as error:
        raise NotWrittenError(error.strerror or str(error)) from None


def _directory(root: Path, names: Sequence[str]) -> int:
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in names:
        try:
            with suppress(FileExistsError):  # a link there is refused by the next line
                os.mkdir(name, 0o755, dir_fd=at)
            below = os.open(name, _BELOW, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at


def _fill(name: str, at: int, file: Artifact, chunks: Iterable[bytes]) -> None:
    digest, left, whole = sha256(), file.size_bytes, False
    with os.fdopen(os.open(name, _NEW, 0o644, dir_fd=at), "wb") as target:
        try:
            for chunk in chunks:
                left -= len(chunk)
                if left < 0:
                    break
                digest.update(chunk)
                target.write(chunk)
            whole = left == 0 and digest.hexdigest() == file.sha256
        finally:
            if not whole:
                os.unlink(name, dir_fd=at)
    if not whole:
        raise NotWrittenError("its bytes are not those that were kept")
