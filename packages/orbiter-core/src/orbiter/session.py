"""Where conversations are kept for `run(session=...)`: in this process, or in a SQLite file.

What a run added is one block, which is put behind the conversation whole. Of two runs at once each
has seen what was there when it began; their blocks stand in the order in which they were saved.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from orbiter._misuse import require_name
from orbiter.errors import SessionError
from orbiter.history import from_json, to_json
from orbiter.sqlite_file import open_file
from orbiter.types import Message, OrbiterError

T = TypeVar("T")
LARGEST_SESSION = 256 * 2**20
_SCHEMA = """
CREATE TABLE IF NOT EXISTS session_runs (
  place INTEGER PRIMARY KEY AUTOINCREMENT,
  session TEXT NOT NULL,
  run_id TEXT NOT NULL,
  messages TEXT NOT NULL,
  UNIQUE (session, run_id)
);
"""
_SAVE = """
INSERT INTO session_runs (session, run_id, messages) VALUES (?, ?, ?)
ON CONFLICT (session, run_id) DO UPDATE SET messages = excluded.messages"""
_SIZE = "SELECT coalesce(sum(length(messages)), 0) FROM session_runs WHERE session = ?"
_LOAD = "SELECT messages FROM session_runs WHERE session = ? ORDER BY place"


class MemorySession:
    """A conversation in this process."""

    def __init__(self) -> None:
        self._blocks: dict[str, list[Message]] = {}

    async def load(self) -> list[Message]:
        """Return what was said so far."""
        return [message for block in self._blocks.values() for message in block]

    async def save(self, run_id: str, messages: Sequence[Message]) -> None:
        """Keep what a run added; see Session."""
        self._blocks[run_id] = list(messages)

    async def clear(self) -> None:
        """Forget all of it."""
        self._blocks.clear()


class SqliteSession:
    """A conversation in a SQLite file, which holds any number of them and may hold runs, too.

    The processes of one machine may share the file. There is nothing to close.
    """

    def __init__(self, path: str | Path, name: str) -> None:
        """Name the file, whose directory must exist, and the conversation in it."""
        require_name(name, "SqliteSession(path, name)")
        self.path = Path(path)
        self.name = name

    async def load(self) -> list[Message]:
        """Return what was said so far; see Session."""
        return await self._do(self._load)

    async def save(self, run_id: str, messages: Sequence[Message]) -> None:
        """Keep what a run added; see Session."""
        try:
            text = to_json(messages)
        except (ValueError, RecursionError) as error:
            raise SessionError(f"session '{self.name}' cannot keep a message: {error}") from error
        await self._do(lambda db: db.execute(_SAVE, (self.name, run_id, text)))

    async def clear(self) -> None:
        """Forget all of it."""
        forget = "DELETE FROM session_runs WHERE session = ?"
        await self._do(lambda db: db.execute(forget, (self.name,)))

    def _load(self, db: sqlite3.Connection) -> list[Message]:
        (size,) = db.execute(_SIZE, (self.name,)).fetchone()
        if size > LARGEST_SESSION:
            raise SessionError(
                f"session '{self.name}' has {size:,} characters, and at most "
                f"{LARGEST_SESSION:,} are read: begin another"
            )
        try:
            blocks = [from_json(str(text)) for (text,) in db.execute(_LOAD, (self.name,))]
        except OrbiterError as error:
            raise SessionError(f"session '{self.name}' cannot be read: {error}") from error
        return [message for block in blocks for message in block]

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.to_thread(self._run, work)

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with closing(open_file(self.path)) as db:
                db.executescript(_SCHEMA)
                return work(db)
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise SessionError(
                f"{self.path}: {error}; does its directory exist, is it a SQLite file, and may we "
                "write there?"
            ) from error
