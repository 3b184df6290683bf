"""Checkpoints in a SQLite file: another process restores what this one saved.

Saving is rare, so each operation opens the file, does its work in a thread and closes it; there is
nothing to close afterwards.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from orbiter.context._internal.checkpoint_json import from_json, to_json
from orbiter.context.checkpoint import KEEP_AUTOMATIC, Checkpoint, CheckpointContent
from orbiter.context.errors import CheckpointError

T = TypeVar("T")
BUSY_SECONDS = 5.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS checkpoints (
  task_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  automatic INTEGER NOT NULL,
  content TEXT NOT NULL,
  PRIMARY KEY (task_id, version)
)"""
ADD = """
INSERT INTO checkpoints
SELECT ?1, coalesce(max(version), 0) + 1, ?2, ?3, ?4 FROM checkpoints WHERE task_id = ?1
RETURNING version"""
READ = """
SELECT version, created_at, automatic, content FROM checkpoints
WHERE task_id = ? ORDER BY version"""
PRUNE = """
DELETE FROM checkpoints WHERE task_id = ?1 AND version IN (
  SELECT version FROM checkpoints WHERE task_id = ?1 AND automatic
  ORDER BY version DESC LIMIT -1 OFFSET ?2
)"""


class SqliteCheckpointStore:
    """Keeps checkpoints in a SQLite file, which is made when it is first used."""

    def __init__(self, path: str | Path) -> None:
        """Name the file; its directory must exist."""
        self.path = Path(path)

    async def save(
        self, task_id: str, content: CheckpointContent, *, created_at: datetime, automatic: bool
    ) -> Checkpoint:
        """Keep a checkpoint under the task's next version and return it.

        Raises:
            CheckpointError: The state holds what JSON cannot, or the file cannot be written.
        """
        text = to_json(task_id, content)

        def add(db: sqlite3.Connection) -> int:
            values = (task_id, created_at.isoformat(), automatic, text)
            row = db.execute(ADD, values).fetchone()
            db.execute(PRUNE, (task_id, KEEP_AUTOMATIC))
            return int(row[0])

        version = await self._in_thread(task_id, add)
        return Checkpoint(task_id, version, created_at, automatic, content, self)

    async def delete(self, task_id: str) -> int:
        """Delete the checkpoints of a task and return how many they were."""

        def remove(db: sqlite3.Connection) -> int:
            return db.execute("DELETE FROM checkpoints WHERE task_id = ?", (task_id,)).rowcount

        return await self._in_thread(task_id, remove)

    async def _in_thread(self, task_id: str, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return await asyncio.to_thread(self._run, work)
        except sqlite3.Error as error:
            raise CheckpointError(
                task_id, f"{self.path}: {error}; does its directory exist and may we write there?"
            ) from error

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with closing(sqlite3.connect(self.path, timeout=BUSY_SECONDS)) as db:
            db.isolation_level = None
            db.execute(SCHEMA)
            db.execute("BEGIN IMMEDIATE")
            try:
                done = work(db)
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")
            return done

    # Annotations below this method would take `list` for it: keep it the last one.
    async def list(self, task_id: str) -> list[Checkpoint]:
        """Return the checkpoints of a task, oldest first."""

        def read(db: sqlite3.Connection) -> list[tuple[int, str, int, str]]:
            return db.execute(READ, (task_id,)).fetchall()

        return [
            Checkpoint(
                task_id,
                version,
                datetime.fromisoformat(created_at),
                bool(automatic),
                from_json(text),
                self,
            )
            for version, created_at, automatic, text in await self._in_thread(task_id, read)
        ]
