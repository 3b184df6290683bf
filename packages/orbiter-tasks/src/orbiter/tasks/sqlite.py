"""Tasks in one SQLite file: survives the process, and the processes of one machine may share it.

Every change is a single statement that compares the version and sets; triggers put the events
that came with it into their own table. Write-ahead logging lets readers read while one writes.
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbiter.sqlite_file import open_file
from orbiter.tasks._internal import sqlite_rows as _rows_of
from orbiter.tasks._internal.changes import over
from orbiter.tasks._internal.sqlite_file import advice, begun
from orbiter.tasks._internal.sqlite_rows import (
    UnreadableRowError,
    columns,
    news,
    read_event,
    read_row,
    set_aside,
)
from orbiter.tasks.contract import Change
from orbiter.tasks.models import Task, TaskEvent, utc_now
from orbiter.tasks.paging import TaskPage, cut, read_cursor
from orbiter.tasks.state import TERMINAL_STATES, TaskError, TaskState, TransitionError
from orbiter.tasks.versioned import VersionedStore

if TYPE_CHECKING:
    import aiosqlite

BUSY_TIMEOUT_MS = 10_000
# `news` are the events that came with the last change, on their way into task_events.
SCHEMA = """
CREATE TABLE IF NOT EXISTS tasks (
  place INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  created_at REAL NOT NULL,
  state TEXT NOT NULL,
  owner TEXT,
  lease_until TEXT,
  version INTEGER NOT NULL,
  body TEXT NOT NULL,
  news TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS tasks_by_state ON tasks (state, created_at, place);
CREATE INDEX IF NOT EXISTS tasks_by_time ON tasks (created_at, id);
CREATE TABLE IF NOT EXISTS task_events (
  task_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (task_id, seq)
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS tasks_created AFTER INSERT ON tasks BEGIN
  INSERT INTO task_events SELECT new.id, key + 1, value FROM json_each(new.news);
END;
CREATE TRIGGER IF NOT EXISTS tasks_changed AFTER UPDATE OF news ON tasks BEGIN
  INSERT INTO task_events
  SELECT new.id, key + 1 + coalesce(
    (SELECT max(seq) FROM task_events WHERE task_id = new.id), 0
  ), value
  FROM json_each(new.news);
END;
"""
_TASK = f"SELECT {_rows_of.COLUMNS}, {_rows_of.EVENTS} FROM tasks"  # noqa: S608
_ENDED = ", ".join(f"'{state.value}'" for state in sorted(TERMINAL_STATES))


class TaskStoreSqlite(VersionedStore):
    """Keeps tasks in a SQLite file, which is made when it is first used. Close it in the end."""

    def __init__(self, path: str | Path, *, clock: Callable[[], datetime] = utc_now) -> None:
        """Name the file; nothing is opened yet.

        Args:
            path: The database file; its directory must exist.
            clock: Tells the time, with its zone.
        """
        super().__init__(clock=clock)
        self.path = Path(path)
        self._connection: aiosqlite.Connection | None = None
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        """Close the file; the store opens it anew when it is used again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def add_event(self, task_id: str, event: TaskEvent) -> None:
        """Append an event; see TaskStore. What is there already is not read for it."""
        rows = await self._rows(
            "UPDATE tasks SET news = ?, version = version + 1 "  # noqa: S608
            f"WHERE id = ? AND state NOT IN ({_ENDED}) "
            "RETURNING state",
            [news([event]), task_id],
        )
        if rows:
            self._watchers.tell(Change(task_id, TaskState(rows[0][0]), [event]))
        elif (task := await self._load(task_id)) is not None:
            raise TransitionError(task_id, over(task.state))

    async def events_after(self, task_id: str, seq: int) -> list[TaskEvent]:
        """Return the events with a higher `seq`; see EventLog."""
        rows = await self._rows(
            "SELECT hex(body), hex(seq) FROM task_events WHERE task_id = ? AND seq > ? "
            "ORDER BY seq",
            [task_id, seq],
        )
        try:
            return [read_event(body, at) for body, at in rows]
        except UnreadableRowError:
            # reading the whole task sets its broken part aside
            task = await self._load(task_id)
            return [] if task is None else task.events[seq:]

    async def page(
        self, *, states: Collection[TaskState] | None, limit: int, after: str | None,
        metadata: Mapping[str, str] | None = None,
    ) -> TaskPage:  # fmt: skip
        """Return a page of tasks without their events; see PagedStore."""
        wanted = json.dumps([state.value for state in (TaskState if states is None else states)])
        among = "state IN (SELECT value FROM json_each(?))"
        values: list[Any] = [wanted]
        for key, value in (metadata or {}).items():
            among += f" AND {_rows_of.METADATA}"
            values += [key, value]
        total = await self._rows(f"SELECT count(*) FROM tasks WHERE {among}", values)  # noqa: S608
        behind = ""
        if after is not None:
            behind = "AND (created_at, id) < (?, ?)"
            values += read_cursor(after)
        rows = await self._rows(
            f"SELECT {_rows_of.COLUMNS}, '' FROM tasks "  # noqa: S608
            f"WHERE {among} {behind} ORDER BY created_at DESC, id DESC LIMIT ?",
            [*values, limit + 1],
        )
        return cut(await self._read(rows), limit, total[0][0])

    async def renew(self, task_ids: Collection[str], owner: str, lease: float) -> set[str]:
        """Extend leases; see LeasingStore."""
        if not task_ids:
            return set()
        until = self._clock() + timedelta(seconds=lease)
        rows = await self._rows(
            "UPDATE tasks SET lease_until = ?, version = version + 1 WHERE owner = ? "
            "AND state = 'running' AND id IN (SELECT value FROM json_each(?)) RETURNING id",
            [until.isoformat(), owner, json.dumps(list(task_ids))],
        )
        return {row[0] for row in rows}

    async def _insert(self, task: Task) -> None:
        try:
            await self._rows(
                "INSERT INTO tasks (id, created_at, state, owner, lease_until, version, body, news)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [task.id, task.created_at.timestamp(), *columns(task), news(task.events)],
            )
        except TaskError as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                raise TaskError(
                    f"there is a task {task.id} already; give the new one another id"
                ) from error
            raise

    async def _load(self, task_id: str) -> Task | None:
        tasks = await self._read(await self._rows(f"{_TASK} WHERE id = ?", [task_id]))
        return tasks[0] if tasks else None

    async def _swap(self, old: Task, new: Task) -> bool:
        rows = await self._rows(
            "UPDATE tasks SET state = ?, owner = ?, lease_until = ?, version = ?, body = ?, "
            "news = ? WHERE id = ? AND version = ? RETURNING 1",
            [*columns(new), news(new.events[len(old.events) :]), old.id, old.version],
        )
        return bool(rows)

    async def _first_pending(self) -> Task | None:
        query = f"{_TASK} WHERE state = 'pending' ORDER BY created_at, place LIMIT 1"
        while rows := await self._rows(query, []):
            tasks = await self._read(rows)
            if tasks and tasks[0].state is TaskState.PENDING:
                return tasks[0]
        return None

    async def _in_state(self, state: TaskState) -> list[Task]:
        rows = await self._rows(
            f"{_TASK} WHERE state = ? ORDER BY created_at, place", [state.value]
        )
        return [task for task in await self._read(rows) if task.state is state]

    async def _read(self, rows: list[Any]) -> list[Task]:
        """Read rows; one that cannot be read is its task's failure, and nobody else's."""
        tasks = []
        for row in rows:
            try:
                tasks.append(read_row(row))
            except UnreadableRowError:
                repaired = await self._set_aside(row[0])
                tasks += [] if repaired is None else [repaired]
        return tasks

    async def _set_aside(self, place: int) -> Task | None:
        db = self._connection or await self._open()
        found = f"{_TASK} WHERE place = ?"
        try:
            # one function in the connection's thread: no other statement gets in between
            execute: Any = db._execute
            task: Task | None = await execute(set_aside, db._conn, place, found, self._clock())
        except sqlite3.Error as error:
            raise TaskError(f"{self.path}: {error}") from error
        if task is not None and task.events:
            self._watchers.tell(Change(task.id, task.state, task.events[-1:]))
        return task

    async def _rows(self, query: str, values: Iterable[Any]) -> list[Any]:
        db = self._connection or await self._open()
        try:
            return list(await db.execute_fetchall(query, values))
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise TaskError(f"{self.path}: {error}") from error

    async def _open(self) -> "aiosqlite.Connection":
        async with self._opening:
            if self._connection is None:
                self._connection = await _connect(self.path)
            return self._connection


async def _connect(path: Path) -> "aiosqlite.Connection":
    import aiosqlite

    opened = partial(open_file, path, patience=BUSY_TIMEOUT_MS / 1000)
    connecting = aiosqlite.Connection(opened, iter_chunk_size=64)
    # A forgotten close() must not keep the interpreter from ending.
    connecting._thread.daemon = True
    try:
        db = await begun(connecting)
        await db.executescript(SCHEMA)
        await db.executescript(_rows_of.SET_ASIDE)
    except sqlite3.Error as error:
        await connecting.close()
        raise TaskError(f"{path} cannot be opened: {error}; {advice(path)}") from error
    return db
