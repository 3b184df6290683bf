"""An agent's session directory as one compressed piece, and back: what a snapshot is made of.

memory.py decides when; this is about files. Nothing but regular files below the named roots goes in
or comes out, and no link is followed: the agent owns these directories, while this process may read
what the agent must not (its own environment, with the Redis password in it).
"""

import io
import os
import re
import stat
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

MAGIC: Final = b"orbiter-snapshot/1 "
"""A snapshot begins with a line of this and the agent's name; a gzipped tar follows."""
UNPACKED_BYTES: Final = 1024 * 1024 * 1024
"""What a snapshot may grow to on disk."""
CREDENTIALS: Final = frozenset(
    {".credentials.json", "credentials.json", "auth.json", ".netrc", "auth.v2.file", ".env"}
)
"""Files that are never kept, wherever they are: where CLIs put their keys."""
_LEVEL: Final = 4
_CHUNK: Final = 256 * 1024
_ID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DRAFT: Final = ".orbiter-draft"

Roots = Mapping[str, Path]
"""Names in the archive, such as `.claude/projects`, and where each is on this disk: a directory or
a single file."""


class TooLargeError(Exception):
    """What should be kept is larger than allowed; `reached` is how many bytes it had by then."""

    def __init__(self, reached: int) -> None:
        super().__init__(f"more than {reached} bytes")
        self.reached = reached


class UnreadableError(ValueError):
    """These bytes are no snapshot for this agent; the text says why."""


def pack(roots: Roots, *, agent: str, sessions: Collection[str], limit: int) -> bytes:
    """Compress what is below the roots.

    Args:
        roots: What to keep.
        agent: The agent's name.
        sessions: The agent's ids of the conversations to keep. A file whose path names only others
            is left out; one that names none is kept.
        limit: The largest size in bytes.

    Raises:
        TooLargeError: It would be larger.
    """
    import gzip
    import tarfile

    sink = _Sink(limit)
    sink.write(MAGIC + agent.encode() + b"\n")
    with (
        gzip.GzipFile(
            filename="", fileobj=sink, mode="wb", compresslevel=_LEVEL, mtime=0
        ) as packed,
        tarfile.open(fileobj=packed, mode="w|", bufsize=_CHUNK) as tar,
    ):
        for name, path in _files(roots):
            ids = {found.lower() for found in _ID.findall(name)}
            if ids and not ids & {session.lower() for session in sessions}:
                continue
            with suppress(FileNotFoundError, PermissionError), _opened(path) as file:
                about = os.fstat(file.fileno())
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime, entry.mode = about.st_size, int(about.st_mtime), 0o600
                tar.addfile(entry, file)
    return bytes(sink.data)


def unpack(data: bytes, roots: Roots, *, agent: str, limit: int = UNPACKED_BYTES) -> int:
    """Write the files of a snapshot, over those that are there.

    Args:
        data: The snapshot.
        roots: Where to; what belongs to none of them is left out.
        agent: Whose it has to be.
        limit: How many bytes it may grow to.

    Returns:
        How many files it had.

    Raises:
        UnreadableError: It is damaged, or another agent's.
        OSError: The disk is full, for instance.
    """
    import tarfile

    head, _, body = data.partition(b"\n")
    if head != MAGIC + agent.encode():
        raise UnreadableError(f"it begins with {head[:60]!r}, which is no snapshot of {agent}")
    count, left = 0, limit
    try:
        with tarfile.open(fileobj=io.BytesIO(body), mode="r|gz") as tar:
            for entry in tar:
                target = _target(entry.name, roots) if entry.isreg() else None
                source = tar.extractfile(entry) if target else None
                if target is None or source is None:
                    continue
                left -= entry.size
                if left < 0:
                    raise UnreadableError(f"it holds more than {limit} bytes")
                _write(target, source, entry.mtime)
                count += 1
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise UnreadableError(f"it is damaged: {error}") from error
    return count


def forget(roots: Roots, session: str) -> None:
    """Remove the files of one conversation."""
    for name, path in _files(roots):
        if session.lower() in name.lower():
            with suppress(OSError):
                path.unlink()


class _Sink(io.RawIOBase):
    """Takes bytes up to a limit."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.data = bytearray()
        self._limit = limit
        self._full = False

    def write(self, data: Any) -> int:
        if self._full:
            return len(data)
        self.data += data
        if len(self.data) > self._limit:
            # Only once: whoever is closed because of it still wants to write its end.
            self._full = True
            raise TooLargeError(len(self.data))
        return len(data)


def _files(roots: Roots) -> Iterator[tuple[str, Path]]:
    """All regular files below the roots, sorted, with their names in the archive."""
    for prefix, root in sorted(roots.items()):
        if root.is_symlink():
            continue
        if root.is_file():
            yield prefix, root
            continue
        for directory, names, files in os.walk(root, followlinks=False):
            names.sort()
            below = PurePosixPath(prefix) / Path(directory).relative_to(root).as_posix()
            for file in sorted(files):
                path = Path(directory, file)
                if file not in CREDENTIALS and stat.S_ISREG(path.lstat().st_mode):
                    yield str(below / file), path


def _opened(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")


def _target(name: str, roots: Roots) -> Path | None:
    """Where an entry belongs; None when that is nowhere below a root."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or path.name in CREDENTIALS or "\0" in name:
        return None
    for prefix, root in roots.items():
        if path == PurePosixPath(prefix):
            return root
        if path.is_relative_to(prefix):
            target = root / path.relative_to(prefix)
            _make_parents(target.parent, root)
            return target
    return None


def _make_parents(directory: Path, root: Path) -> None:
    """Make the directories from the root down; whatever is in their place, links too, goes."""
    root.parent.mkdir(parents=True, exist_ok=True)
    steps = [root]
    for part in directory.relative_to(root).parts:
        steps.append(steps[-1] / part)
    for step in steps:
        if step.is_symlink() or (step.exists() and not step.is_dir()):
            step.unlink()
        step.mkdir(mode=0o700, exist_ok=True)


def _write(target: Path, source: IO[bytes], mtime: float) -> None:
    """Write beside the target, then put it in its place: nothing is written through a link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(_DRAFT)
    draft.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
        while chunk := source.read(_CHUNK):
            file.write(chunk)
    os.utime(draft, (mtime, mtime))
    draft.replace(target)
