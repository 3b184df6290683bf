"""Where runs are kept: in this process, or in a SQLite file that outlives it.

A run in a file is taken by a lock of the operating system, which is gone with the process that had
it, whatever killed that. So the same call goes on at once, and who comes meanwhile is refused.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from orbiter._run_lock import RunLock
from orbiter.durable import RunLog
from orbiter.errors import JournalError, RunBusyError
from orbiter.journal import LARGEST_RUN, LONGEST_ENTRY, MOST_ENTRIES
from orbiter.sqlite_file import open_file
from orbiter.sqlite_thread import SqliteThread

__all__ = ["MemoryRunStore", "SqliteRunStore"]

T = TypeVar("T")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS run_entries (
  place INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id TEXT NOT NULL,
  data TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS entries_of_run ON run_entries (run_id, place);
"""
_SIZES = """
SELECT count(*), coalesce(max(length(data)), 0), coalesce(sum(length(data)), 0)
FROM run_entries WHERE run_id = ?"""


class MemoryRunStore:
    """Keeps runs in this process: for tests, and for runs that fail without a crash."""

    def __init__(self) -> None:
        self._runs: dict[str, list[str]] = {}
        self._open: set[str] = set()

    async def open(self, run_id: str) -> RunLog:
        """Take a run; see RunStore."""
        if run_id in self._open:
            raise RunBusyError(run_id, "this process")
        self._open.add(run_id)
        return _MemoryLog(self._runs.setdefault(run_id, []), partial(self._open.discard, run_id))

    async def delete(self, run_id: str) -> bool:
        """Forget a run; False when there was none.

        Raises:
            RunBusyError: It goes on.
        """
        if run_id in self._open:
            raise RunBusyError(run_id, "this process")
        return self._runs.pop(run_id, None) is not None


class _MemoryLog:
    def __init__(self, kept: list[str], release: "partial[None]") -> None:
        self._kept = kept
        self._release = release
        self.entries: Sequence[str] = tuple(kept)

    async def append(self, entry: str) -> None:
        self._kept.append(entry)

    async def close(self) -> None:
        self._release()


class SqliteRunStore:
    """Keeps runs in a SQLite file, which is made when it is first used.

    Each entry is on the disk when the run goes on, so neither `kill -9` nor a power failure makes a
    tool run twice. The processes of one machine may share the file. There is nothing to close.
    """

    def __init__(self, path: str | Path) -> None:
        """Name the file; its directory must exist."""
        self.path = Path(path)

    async def open(self, run_id: str) -> RunLog:
        """Take a run; see RunStore."""
        return await self._take(run_id)

    async def _take(self, run_id: str) -> "_SqliteLog":
        opening = asyncio.ensure_future(_opened(self.path, run_id))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # nobody else would close it
            with suppress(JournalError):
                await (await opening).close()
            raise

    async def delete(self, run_id: str) -> bool:
        """Forget a run; False when there was none.

        Raises:
            RunBusyError: It goes on.
            JournalError: The file cannot be written.
        """
        log = await self._take(run_id)
        try:
            return await log.delete()
        finally:
            await log.close()


class _SqliteLog:
    """A run that is taken; it has a thread of its own."""

    def __init__(self, path: Path, run_id: str) -> None:
        self.entries: Sequence[str] = ()
        self._run_id = run_id
        self._lock = RunLock(path, run_id)
        self._thread = SqliteThread(path, _connect, name="run")

    async def read(self) -> None:
        self.entries = await self._do(partial(_read, run_id=self._run_id))

    async def append(self, entry: str) -> None:
        add = "INSERT INTO run_entries (run_id, data) VALUES (?, ?)"
        await self._do(lambda db: db.execute(add, (self._run_id, entry)))

    async def delete(self) -> bool:
        remove = "DELETE FROM run_entries WHERE run_id = ?"
        return await self._do(lambda db: db.execute(remove, (self._run_id,)).rowcount > 0)

    async def close(self) -> None:
        try:
            await self._thread.close()
        finally:
            self._lock.release()

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return await self._thread.do(work)
        except sqlite3.Error as error:
            raise JournalError(
                f"{self._thread.path}: {error}; does its directory exist, is it a SQLite file, and "
                "may we write there?"
            ) from error


async def _opened(path: Path, run_id: str) -> _SqliteLog:
    log = await asyncio.to_thread(_SqliteLog, path, run_id)
    try:
        await log.read()
    except BaseException:
        await log.close()
        raise
    return log


def _connect(path: Path) -> sqlite3.Connection:
    db = open_file(path)
    # a tool that began must be known after a power failure, too
    db.execute("PRAGMA synchronous = FULL")
    db.executescript(_SCHEMA)
    return db


def _read(db: sqlite3.Connection, run_id: str) -> list[str]:
    count, longest, total = db.execute(_SIZES, (run_id,)).fetchone()
    if count > MOST_ENTRIES or longest > LONGEST_ENTRY or total > LARGEST_RUN:
        raise JournalError(
            f"run '{run_id}' has {count:,} entries of {total:,} characters, and at most "
            f"{MOST_ENTRIES:,} of {LARGEST_RUN:,} are read: begin another with another run_id"
        )
    rows = db.execute("SELECT data FROM run_entries WHERE run_id = ? ORDER BY place", (run_id,))
    return [data for (data,) in rows]
