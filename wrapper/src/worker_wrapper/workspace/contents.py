"""What of a workspace is kept in a checkpoint, as one compressed piece, and back.

A gzipped tar behind a line of ours: what is known of the repository (`repository.json`), the
agent's commits (`commits.pack`), and files under `files/` with their modes; links are kept as
links. The agent may change all of it while it is read, and whoever wrote what is read back need not
have been we: paths are walked without following links (process/below.py), and what comes out is
bounded by what may go in.
"""

import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from pydantic import Field

from orbiter_contracts import InvalidMessageError, decode_json
from orbiter_contracts.checkpoints import CommitId
from orbiter_contracts.messages import Message
from worker_wrapper.process import below
from worker_wrapper.process.tar_members import DAMAGE, opened

Parts = tuple[str, ...]

MAGIC: Final = b"orbiter-workspace/1\n"
UNPACKED_BYTES: Final = 256 * 1024 * 1024
FILES: Final = 20_000
"""How many files and directories, and how many bytes of them, are kept at most."""
DEPTH: Final = 64
PATH_BYTES: Final = 4000
CHUNK: Final = 256 * 1024
ABOUT, COMMITS, INSIDE = "repository.json", "commits.pack", "files"
ABOUT_BYTES: Final = 4 * 1024 * 1024
_DAMAGE: Final = (*DAMAGE, OSError)


class UnreadableError(ValueError):
    """These bytes are no contents of a workspace; the text says why."""


class Repository(Message):
    """Where a repository stands beside its files.

    Attributes:
        base: The commit the work began with.
        head: The commit it is at.
        branch: The branch it is on; None when it is on none.
        refs: Its other branches, and what is stashed, by full names.
        shallow: Commits at which its history ends, though they have parents.
        deleted: Files of `head` that are not there any more. A name is bytes, and each of them is a
            character here.
    """

    base: CommitId
    head: CommitId
    branch: str | None = None
    refs: dict[str, CommitId] = Field(default_factory=dict)
    shallow: list[CommitId] = Field(default_factory=list)
    deleted: list[str] = Field(default_factory=list)

    @property
    def gone(self) -> list[Parts]:
        """The paths of the deleted files.

        Raises:
            UnreadableError: One is no path of a workspace.
        """
        try:
            names = [os.fsdecode(name.encode("latin-1")) for name in self.deleted]
        except UnicodeError:
            raise UnreadableError("it has a name that is no bytes") from None
        return [_parts(name, git=True) for name in names]


@dataclass(slots=True)
class Contents:
    """What is kept, read back and checked.

    Attributes:
        repository: None for a workspace without git.
        files: How many entries of files there are.
    """

    data: bytes = field(repr=False)
    repository: Repository | None = None
    files: int = 0


def check(data: bytes) -> Contents:
    """Read it through, so that what is damaged is known before anything is written.

    Raises:
        UnreadableError: It is damaged, hostile or too large.
    """
    found = Contents(data)
    for entry, source in _entries(data):
        if entry.name == ABOUT:
            try:
                text = source.read(ABOUT_BYTES) if source else b""
                found.repository = decode_json(Repository, text)
            except InvalidMessageError as error:
                raise UnreadableError(str(error)) from None
            _ = found.repository.gone
        elif entry.name != COMMITS:
            _parts(_inside(entry.name), git=found.repository is not None)
            found.files += 1
        while source and source.read(CHUNK):
            pass  # The sum at the end says whether all of it is as it was written.
    return found


def write(contents: Contents, root: Path) -> None:
    """Write the files into a workspace, in the place of whatever is there.

    Raises:
        OSError: The disk is full, for instance.
        UnreadableError: See `check`, which was content.
    """
    git = contents.repository is not None
    for parts in contents.repository.gone if contents.repository else ():
        below.remove(root, parts)
    for entry, source in _entries(contents.data):
        if entry.name in (ABOUT, COMMITS):
            continue
        parts = _parts(_inside(entry.name), git=git)
        if entry.isdir():
            below.write_directory(root, parts, entry.mode)
        elif entry.issym():
            below.write_link(root, parts, entry.linkname)
        elif source is not None:
            below.write(root, parts, source, entry.mode, entry.mtime)


def commits(contents: Contents, directory: Path) -> Path | None:
    """Write the pack of the agent's commits to a directory, if there is one."""
    for entry, source in _entries(contents.data):
        if entry.name == COMMITS and source is not None:
            path = directory / "commits.pack"
            with path.open("wb") as file:
                while chunk := source.read(CHUNK):
                    file.write(chunk)
            return path
    return None


class _Body:
    """A file in the tar. A tar that ends too early is noticed where its files are read."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source

    def read(self, size: int = -1) -> bytes:
        try:
            return self._source.read(size)
        except _DAMAGE as error:
            raise UnreadableError(f"it is damaged: {error}") from None


def _entries(data: bytes) -> Iterator[tuple[tarfile.TarInfo, _Body | None]]:
    """The entries in their order, within bounds."""
    if not data.startswith(MAGIC):
        raise UnreadableError(f"it begins with {data[:40]!r}, which is no workspace of ours")
    left, count = UNPACKED_BYTES, 0
    try:
        source = io.BytesIO(data[len(MAGIC) :])
        with opened(source) as tar:
            for entry in tar:
                count += 1
                left -= entry.size
                if left < 0 or count > FILES + 2:
                    raise UnreadableError(f"more than {FILES} files or {UNPACKED_BYTES} bytes")
                if not (entry.isreg() or entry.isdir() or entry.issym()):
                    raise UnreadableError(f"{entry.name[:80]!r} is neither file nor link")
                file = tar.extractfile(entry) if entry.isreg() else None
                yield entry, _Body(file) if file else None
    except UnreadableError:
        raise
    except _DAMAGE as error:
        raise UnreadableError(f"it is damaged: {error}") from None


def _inside(name: str) -> str:
    head, _, rest = name.partition("/")
    if head != INSIDE:
        raise UnreadableError(f"{name[:80]!r} is no path of a workspace")
    return rest


def is_path(name: str, *, git: bool) -> bool:
    """Whether a name is of a workspace, and none that leads out of it or into git's directory."""
    parts = name.rstrip("/").split("/")
    return not (
        any(part in ("", ".", "..") or "\0" in part for part in parts)
        or (git and parts[0].lower() == ".git")
    )


def _parts(name: str, *, git: bool) -> Parts:
    """A path's names; git's own directory is nobody's to write."""
    parts = tuple(name.rstrip("/").split("/"))
    if not is_path(name, git=git) or len(parts) > DEPTH + 1 or len(os.fsencode(name)) > PATH_BYTES:
        raise UnreadableError(f"{name[:80]!r} is no path of a workspace")
    return parts
