"""An agent's session directory as one compressed piece, and back: what a snapshot is made of.

snapshot.py decides when; tree.py finds the files and puts them back. Nothing but regular files
below the named roots goes in or comes out, and no link is followed: the agent owns these
directories, while this process may read what the agent must not (its own environment, with the
Redis password in it). What may go in is bounded by what may come out, and looked up before anything
is read.

Measured against tarfile's `add` and `extractall`, 500 files of 16 kB: packing takes 0.27 s of CPU
here, 0.28 there; unpacking 0.29, 0.27. Those have no bounds, and end at a link in their way.
"""

import io
import os
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from worker_wrapper.process.bounded_sink import BoundedSink
from worker_wrapper.session import tree
from worker_wrapper.session.tree import Found, Roots, TooLargeError

MAGIC: Final = b"orbiter-snapshot/1 "
"""A snapshot begins with a line of this and the agent's name; a gzipped tar follows."""
UNPACKED_BYTES: Final = 256 * 1024 * 1024
"""What a snapshot may grow to on disk: sixteen times what Redis gets of it unless told otherwise,
and more than the texts of conversations compress. Packing so much takes a few seconds."""
FILES: Final = 20_000
"""How many files a snapshot may have; packing so many takes two or three seconds."""
CREDENTIALS: Final = frozenset(
    {".credentials.json", "credentials.json", "auth.json", ".netrc", "auth.v2.file", ".env"}
)
"""Files that are never kept, wherever they are: where CLIs put their keys."""
_DATABASE: Final = ".db"
_LOGS: Final = ("-wal", "-shm")
"""What SQLite has beside a database; the log is half of it."""
_LEVEL: Final = 4
_CHUNK: Final = 256 * 1024
_ID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


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
        TooLargeError: It would be larger, or what is there is beyond the bounds.
        OSError: A file changed while it was read, or a database before its log was.
    """
    import gzip
    import tarfile

    chosen = _chosen(roots, sessions)
    left = UNPACKED_BYTES
    why = f"is larger than {limit} bytes when compressed (SNAPSHOT_MAX_BYTES)"
    sink = BoundedSink(limit, lambda size: TooLargeError(why, size))
    databases: dict[str, tuple[int, int]] = {}
    sink.write(MAGIC + agent.encode() + b"\n")
    with (
        gzip.GzipFile(
            filename="", fileobj=sink, mode="wb", compresslevel=_LEVEL, mtime=0
        ) as packed,
        tarfile.open(fileobj=packed, mode="w|", bufsize=_CHUNK) as tar,
    ):
        for found in chosen:
            try:
                file = tree.opened(found)
            except OSError:
                continue
            with file:
                about = os.fstat(file.fileno())
                left -= about.st_size
                if left < 0:
                    raise _too_many_bytes()
                if found.name.endswith(_DATABASE):
                    databases[found.path] = (about.st_size, about.st_mtime_ns)
                entry = tarfile.TarInfo(found.name)
                entry.size, entry.mtime, entry.mode = about.st_size, int(about.st_mtime), 0o600
                tar.addfile(entry, file)
    for path, before in databases.items():
        about = os.lstat(path)
        if (about.st_size, about.st_mtime_ns) != before:
            # It took in what was in its log: of the two copies neither has all of it, maybe.
            raise OSError(f"{path} changed while it was copied")
    return bytes(sink.data)


def unpack(
    data: bytes,
    roots: Roots,
    *,
    agent: str,
    limit: int = UNPACKED_BYTES,
    skipped: Callable[[str, Exception], None] = lambda name, error: None,
) -> int:
    """Write the files of a snapshot, over those that are there.

    Args:
        data: The snapshot.
        roots: Where to; what belongs to none of them is left out.
        agent: Whose it has to be.
        limit: How many bytes it may grow to.
        skipped: Told of a file that could not be written, and why; the others are.

    Returns:
        How many files were written.

    Raises:
        UnreadableError: It is damaged, or another agent's.
    """
    from worker_wrapper.process.tar_members import DAMAGE, opened

    head, _, body = data.partition(b"\n")
    if head != MAGIC + agent.encode():
        raise UnreadableError(f"it begins with {head[:60]!r}, which is no snapshot of {agent}")
    count, left, entries = 0, limit, 0
    try:
        with opened(io.BytesIO(body)) as tar:
            for entry in tar:
                entries += 1
                if entries > FILES:
                    raise UnreadableError(f"it holds more than {FILES} files")
                left -= entry.size
                if left < 0:
                    raise UnreadableError(f"it holds more than {limit} bytes")
                target = _target(entry.name, roots) if entry.isreg() else None
                source = tar.extractfile(entry) if target else None
                if target is None or source is None:
                    continue
                if entry.name.endswith(_DATABASE):
                    _forget_log(*target)
                try:
                    tree.place(*target, source, entry.mtime)
                except (OSError, ValueError) as error:
                    skipped(entry.name, error)
                    continue
                count += 1
    except UnreadableError:
        raise
    except DAMAGE as error:
        raise UnreadableError(f"it is damaged: {error}") from error
    return count


def forget(roots: Roots, session: str) -> None:
    """Remove the files of one conversation, as far as that can be done."""
    with suppress(TooLargeError):
        for found in tree.files(roots):
            if session.lower() in found.name.lower():
                tree.remove(found.path)


def _chosen(roots: Roots, sessions: Collection[str]) -> list[Found]:
    """The files to keep, by what the disk says of them; none is read for that."""
    wanted = {session.lower() for session in sessions}
    chosen, size = [], 0
    for found in tree.files(roots):
        ids = {each.lower() for each in _ID.findall(found.name)}
        if PurePosixPath(found.name).name in CREDENTIALS or (ids and not ids & wanted):
            continue
        chosen.append(found)
        size += found.size
        if len(chosen) > FILES:
            raise TooLargeError(f"has more than {FILES} files")
        if size > UNPACKED_BYTES:
            raise _too_many_bytes()
    return chosen


def _forget_log(root: Path, parts: tuple[str, ...]) -> None:
    """Remove another database's log, which would be taken for that of the one that comes here."""
    for suffix in _LOGS:
        tree.remove(f"{root.joinpath(*parts)}{suffix}")


def _too_many_bytes() -> TooLargeError:
    return TooLargeError(f"is larger than {UNPACKED_BYTES} bytes")


def _target(name: str, roots: Roots) -> tuple[Path, tuple[str, ...]] | None:
    """Where an entry belongs: a root and where below it; None when that is nowhere."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or path.name in CREDENTIALS or "\0" in name:
        return None
    for prefix, root in roots.items():
        if path.is_relative_to(prefix):
            return root, path.relative_to(prefix).parts
    return None
