"""The rows of sessions and runs: how they are asked for, and what they are."""

import json
import sqlite3
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter

from orbiter.server.models import Conversation, RunInfo, SessionInfo

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
SELECT id, session_id, agent, status, input, created_at, ended_at, outcome,
  (SELECT coalesce(max(seq), 0) FROM events WHERE run_id = runs.id)
FROM runs
"""
conversation: TypeAdapter[Conversation] = TypeAdapter(Conversation)


def messages_of(db: sqlite3.Connection, session_id: str) -> Conversation:
    """Return what was said in the finished runs of a session."""
    rows = db.execute(
        "SELECT messages FROM runs WHERE session_id = ? ORDER BY place", (session_id,)
    )
    return [message for (text,) in rows for message in conversation.validate_json(text)]


def session_of(row: Any) -> SessionInfo:
    """Return the session of a row of SESSION."""
    key, agent, title, created, updated, active = row
    return SessionInfo(
        id=key, agent=agent, title=title, created_at=moment(created), updated_at=moment(updated),
        active_run=active,
    )  # fmt: skip


def run_of(row: Any) -> RunInfo:
    """Return the run of a row of RUN."""
    key, session, agent, status, asked, created, ended, outcome, last = row
    return RunInfo(
        id=key, session_id=session, agent=agent, status=status, input=asked,
        created_at=moment(created), ended_at=None if ended is None else moment(ended),
        last_event=last, **json.loads(outcome),
    )  # fmt: skip


def moment(seconds: float) -> datetime:
    """Return a column's time."""
    return datetime.fromtimestamp(seconds, UTC)
