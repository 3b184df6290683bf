"""The rows of sessions and runs: how they are asked for, and what they are."""

import json
import sqlite3
from datetime import UTC, datetime
from typing import Any, NamedTuple

from orbiter.server._internal.files import shown
from orbiter.server._internal.json_text import conversation
from orbiter.server._internal.waits import Wait, wait_of
from orbiter.server.models import Conversation, RunInfo, SessionInfo
from orbiter.types import UserMessage

THEIRS = "(:user IS NULL OR user = :user)"
THEIR_SESSIONS = "(SELECT id FROM sessions WHERE :user IS NULL OR user = :user)"
COUNT = "SELECT count(*) FROM sessions"
AGENT = "SELECT agent FROM sessions"
SESSION = """
SELECT id, agent, title, created_at, updated_at,
  (SELECT id FROM runs WHERE session_id = sessions.id AND status = 'running')
FROM sessions
"""
RUN = """
SELECT id, session_id, agent, status, input, images, created_at, ended_at, outcome,
  (SELECT coalesce(max(seq), 0) FROM events WHERE run_id = runs.id)
FROM runs
"""
RUNNING = "SELECT 1 FROM runs WHERE session_id = ? AND status = 'running'"


class LeftBehind(NamedTuple):
    """A run a dead server was at.

    Attributes:
        run: The run.
        said: What the user said.
        history: What was said before.
        events: What it told, oldest first.
        times: How often it was gone on with, this time included.
        wait: What it was to go on with, if it was an answer to what waited.
    """

    run: RunInfo
    said: UserMessage
    history: Conversation
    events: list[str]
    times: int
    wait: Wait | None


def messages_of(db: sqlite3.Connection, session_id: str) -> Conversation:
    """Return what was said in the finished runs of a session."""
    rows = db.execute(
        "SELECT messages FROM runs WHERE session_id = ? AND status != 'running' ORDER BY place",
        (session_id,),
    )
    return [message for (text,) in rows for message in conversation.validate_json(text)]


def shown_of(db: sqlite3.Connection, session_id: str) -> list[dict[str, Any]]:
    """Return what was said in the finished runs of a session, without the bytes of its files."""
    rows = db.execute(
        "SELECT id, messages FROM runs WHERE session_id = ? AND status != 'running' ORDER BY place",
        (session_id,),
    )
    return [one for key, text in rows for one in shown(key, conversation.validate_json(text))]


def kept_in(db: sqlite3.Connection, run_id: str) -> Conversation:
    """Return what a run has added to its session; while it goes on, what it was shown."""
    (text,) = db.execute("SELECT messages FROM runs WHERE id = ?", (run_id,)).fetchone()
    return conversation.validate_json(text)


def said_in(db: sqlite3.Connection, run: RunInfo) -> UserMessage:
    """Return what the user said, which its text alone does not tell where images came with it."""
    if run.images:
        for message in kept_in(db, run.id):
            if isinstance(message, UserMessage):
                return message
    return UserMessage(content=run.input)


def left_behind(db: sqlite3.Connection) -> list[LeftBehind]:
    """Return the runs a dead server was at, and count that they are gone on with."""
    db.execute("UPDATE runs SET resumes = resumes + 1 WHERE status = 'running'")
    found = []
    for row in db.execute(f"{RUN} WHERE status = 'running' ORDER BY place").fetchall():
        run = run_of(row)
        events = db.execute("SELECT data FROM events WHERE run_id = ? ORDER BY seq", (run.id,))
        told = [data for (data,) in events]
        (times,) = db.execute("SELECT resumes FROM runs WHERE id = ?", (run.id,)).fetchone()
        history = messages_of(db, run.session_id)
        wait = wait_of(db, run.session_id)
        if wait is not None and wait.run_id != run.id:
            wait = None
        found.append(LeftBehind(run, said_in(db, run), history, told, times, wait))
    return found


def session_of(row: Any) -> SessionInfo:
    """Return the session of a row of SESSION."""
    key, agent, title, created, updated, active = row
    return SessionInfo(
        id=key, agent=agent, title=title, created_at=moment(created), updated_at=moment(updated),
        active_run=active,
    )  # fmt: skip


def run_of(row: Any) -> RunInfo:
    """Return the run of a row of RUN."""
    key, session, agent, status, asked, images, created, ended, outcome, last = row
    return RunInfo(
        id=key, session_id=session, agent=agent, status=status, input=asked,
        images=json.loads(images),
        created_at=moment(created), ended_at=None if ended is None else moment(ended),
        last_event=last, **json.loads(outcome),
    )  # fmt: skip


def moment(seconds: float) -> datetime:
    """Return a column's time."""
    return datetime.fromtimestamp(seconds, UTC)
