"""The rows of TaskStoreSqlite: written and read, and set aside when they cannot be read.

All columns are asked for as hexadecimal digits, so that whatever is in one, SQLite can hand it
over. A row that holds no task is copied to the table `unreadable`, and its task has FAILED.
"""

import json
import logging
import sqlite3
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from orbiter.tasks._internal.changes import state_change
from orbiter.tasks._internal.raised import why
from orbiter.tasks.models import EventType, Task, TaskEvent
from orbiter.tasks.state import TERMINAL_STATES, TaskError, TaskState

logger = logging.getLogger("orbiter.tasks")
# an id or a version of another type would be read and never be found again
COLUMNS = """
place, CASE typeof(id) WHEN 'text' THEN hex(id) END, hex(body), hex(state), hex(owner),
hex(lease_until), CASE typeof(version) WHEN 'integer' THEN hex(version) END
"""
EVENTS = """
(SELECT group_concat(hex(seq) || ':' || hex(body)) FROM
  (SELECT seq, body FROM task_events WHERE task_id = tasks.id ORDER BY seq))
"""
# of a row that holds no JSON there is none, and no error that would cost the page all others
METADATA = """
EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(body) THEN body END, '$.metadata')
  WHERE key = ? AND value = ? AND type = 'text')
"""
SET_ASIDE = """
CREATE TABLE IF NOT EXISTS unreadable (
  found_at TEXT NOT NULL, reason TEXT NOT NULL,
  id, created_at, state, owner, lease_until, version, seq, body
);
"""
Model = TypeVar("Model", bound=BaseModel)
_IN_COLUMNS = {"state", "owner", "lease_until", "version", "events"}


class UnreadableRowError(TaskError):
    """A row holds no task, or no event; the text says why, and not what is in it."""


def columns(task: Task) -> list[Any]:
    """Return what the columns of a task hold: state, owner, lease_until, version, body."""
    until = task.lease_until and task.lease_until.isoformat()
    body = _dumped(task, _IN_COLUMNS)
    return [task.state.value, task.owner, until, task.version, body]


def news(events: Iterable[TaskEvent]) -> str:
    """Return events as the triggers want them."""
    return f"[{','.join(_dumped(event, {'seq'}) for event in events)}]"


def read_row(row: Any) -> Task:
    """Return the task of a row.

    Raises:
        UnreadableRowError: It holds none.
    """
    _, task_id, body, state, owner, lease_until, version, events = row
    read = {
        **_object(body),
        "state": _text(state),
        "owner": _text(owner) or None,
        "lease_until": _text(lease_until) or None,
        "version": _text(version),
        "events": [],
    }
    if read.get("id") != _text(task_id):
        raise UnreadableRowError("it holds another task than its id says")
    task = _valid(Task, read)
    parts = events.split(",") if events else []
    task.events = [read_event(part.partition(":")[2], place) for place, part in enumerate(parts, 1)]
    return task


def read_event(body: str, seq: str | int) -> TaskEvent:
    """Return the event of a row.

    Raises:
        UnreadableRowError: It holds none.
    """
    return _valid(TaskEvent, {**_object(body), "seq": _text(seq) if isinstance(seq, str) else seq})


def set_aside(db: sqlite3.Connection, place: int, query: str, now: datetime) -> Task | None:
    """Copy what cannot be read of a task into `unreadable` and mend it; return what it is then.

    Blocking, and one transaction: whoever mended it before is not undone.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        task = _repaired(db, place, query, now)
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
    return task


def _repaired(db: sqlite3.Connection, place: int, query: str, now: datetime) -> Task | None:
    row = db.execute(query, [place]).fetchone()
    if row is None:
        return None
    try:
        return read_row(row)
    except UnreadableRowError as error:
        reason = str(error)
    task_id = _free_id(db, place)
    ended = _repair_events(db, place, task_id, now)
    try:
        task = read_row((*row[:7], ""))
        task.events = ended
    except UnreadableRowError:
        task = Task(id=task_id, input="", created_at=now, updated_at=now, events=ended)
    _keep(db, now, reason, f"{_OWN}, NULL, body FROM tasks WHERE place = ?", [place])
    if task.state not in TERMINAL_STATES:
        seq = len(task.events) + 1
        failed = state_change(task_id, TaskState.FAILED, now).model_copy(update={"seq": seq})
        told = f"its row in the store could not be read: {reason}; submit it again"
        task = task.model_copy(
            update={
                "state": TaskState.FAILED, "error": told, "owner": None, "lease_until": None,
                "updated_at": now, "version": task.version + 1, "events": [*task.events, failed],
            }
        )  # fmt: skip
    db.execute("DELETE FROM task_events WHERE task_id = (SELECT id FROM tasks WHERE place = ?)",
               [place])  # fmt: skip
    db.execute(
        "UPDATE tasks SET id = ?, created_at = ?, state = ?, owner = ?, lease_until = ?, "
        "version = ?, body = ?, news = ? WHERE place = ?",
        [task_id, task.created_at.timestamp(), *columns(task), news(task.events), place],
    )
    logger.error(
        "task %r has a row that cannot be read: %s; the row is kept in the table 'unreadable'",
        task_id, reason,
    )  # fmt: skip
    return task


_OWN = "id, created_at, state, owner, lease_until, version"


def _repair_events(
    db: sqlite3.Connection, place: int, task_id: str, now: datetime
) -> list[TaskEvent]:
    """Copy away the events that cannot be read; return all, with a note in their place."""
    rows = db.execute(
        "SELECT hex(seq), hex(body) FROM task_events "
        "WHERE task_id = (SELECT id FROM tasks WHERE place = ?) ORDER BY seq",
        [place],
    ).fetchall()
    events = []
    for number, (seq, body) in enumerate(rows, 1):
        try:
            events.append(read_event(body, number))
        except UnreadableRowError as error:
            _keep(
                db, now, str(error),
                "task_id, NULL, NULL, NULL, NULL, NULL, seq, body FROM task_events "
                "WHERE task_id = (SELECT id FROM tasks WHERE place = ?) AND hex(seq) = ?",
                [place, seq],
            )  # fmt: skip
            note = {"unreadable": str(error)}
            events.append(
                TaskEvent(
                    task_id=task_id, event_type=EventType.LOG, payload=note, timestamp=now,
                    seq=number,
                )
            )  # fmt: skip
    return events


def _keep(db: sqlite3.Connection, now: datetime, reason: str, what: str, values: list[Any]) -> None:
    query = f"INSERT INTO unreadable SELECT ?, ?, {what}"
    db.execute(query, [now.isoformat(), reason, *values])


def _dumped(model: Task | TaskEvent, without: set[str]) -> str:
    try:
        return model.model_dump_json(exclude=without)
    except (ValueError, TypeError) as error:
        raise TaskError(f"this cannot be written as JSON: {error}") from error


def _object(digits: str) -> dict[str, Any]:
    try:
        found = json.loads(_text(digits))
    except (ValueError, RecursionError) as error:
        raise UnreadableRowError(f"it is no JSON: {type(error).__name__}") from None
    if not isinstance(found, dict):
        raise UnreadableRowError("it is no JSON object")
    return found


def _text(digits: str | None) -> str:
    if digits is None:
        raise UnreadableRowError("its id is no text, or its version no integer")
    try:
        return bytes.fromhex(digits).decode()
    except UnicodeDecodeError:
        raise UnreadableRowError("it is no UTF-8") from None


def _free_id(db: sqlite3.Connection, place: int) -> str:
    """Return the id of a row, whatever it holds, unless another row has that."""
    (digits,) = db.execute("SELECT hex(id) FROM tasks WHERE place = ?", [place]).fetchone()
    task_id = bytes.fromhex(digits).decode("utf-8", "replace")
    query = "SELECT 1 FROM tasks WHERE id = ? AND place <> ?"
    taken = db.execute(query, [task_id, place]).fetchone()
    return f"{task_id}~{place}" if taken else task_id


def _valid(kind: type[Model], values: dict[str, Any]) -> Model:
    try:
        return kind.model_validate(values)
    except (ValidationError, RecursionError) as error:
        said = why(error) if isinstance(error, ValidationError) else "it is nested too deeply"
        raise UnreadableRowError(said) from None
