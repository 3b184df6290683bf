"""Sessions and runs as rows of the database."""

import json
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter

from orbiter.server._internal.database import Database
from orbiter.server._internal.errors import RequestError
from orbiter.server.models import (
    Conversation,
    RunInfo,
    RunStatus,
    SessionDetail,
    SessionInfo,
    SessionList,
)

TITLE = 80
_THEIRS = "(:user IS NULL OR user = :user)"
_THEIR_SESSIONS = "(SELECT id FROM sessions WHERE :user IS NULL OR user = :user)"
_COUNT = "SELECT count(*) FROM sessions"
_AGENT = "SELECT agent FROM sessions"
_conversation: TypeAdapter[Conversation] = TypeAdapter(Conversation)
_SESSION = """
SELECT id, agent, title, created_at, updated_at,
  (SELECT id FROM runs WHERE session_id = sessions.id AND status = 'running')
FROM sessions
"""
_RUN = """
SELECT id, session_id, agent, status, input, created_at, ended_at, outcome,
  (SELECT coalesce(max(seq), 0) FROM events WHERE run_id = runs.id)
FROM runs
"""


def new_id(kind: str) -> str:
    """Return an id nobody else has, which says what it is of."""
    return f"{kind}_{uuid4().hex}"


class Sessions:
    """Reads and writes sessions and runs; events are the Journal's."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def create(self, agent: str, user: str | None) -> SessionInfo:
        """Begin a session; it belongs to that user, or to nobody."""
        now = self._clock()
        key = new_id("session")
        await self._database.do(
            lambda db: db.execute(
                "INSERT INTO sessions (id, agent, user, created_at, updated_at) "
                "VALUES (?, ?, ?, ?, ?)",
                (key, agent, user or "", now, now),
            )
        )
        return SessionInfo(id=key, agent=agent, created_at=_time(now), updated_at=_time(now))

    async def get(self, session_id: str, user: str | None) -> SessionDetail:
        """Return a session with its runs and what was said.

        Args:
            session_id: Which one.
            user: Who asks: what belongs to others is not there. None sees all, here as below.

        Raises:
            RequestError: There is none.
        """

        def work(db: sqlite3.Connection) -> SessionDetail:
            row = db.execute(
                f"{_SESSION} WHERE id = :id AND {_THEIRS}", {"id": session_id, "user": user}
            ).fetchone()
            if row is None:
                raise unknown("session", session_id)
            runs = db.execute(f"{_RUN} WHERE session_id = ? ORDER BY place", (session_id,))
            return SessionDetail(
                **_session(row).model_dump(),
                runs=[_run(run) for run in runs],
                messages=_messages(db, session_id),
            )

        return await self._database.do(work)

    async def page(self, limit: int, after: str | None, user: str | None) -> SessionList:
        """Return sessions, the latest first, behind a cursor."""
        where = "" if user is None else "WHERE user = :user"
        behind = where
        values: dict[str, Any] = {"user": user, "limit": limit + 1}
        if after is not None:
            updated, _, key = after.partition("~")
            behind += f" {'AND' if where else 'WHERE'} (updated_at, id) < (:updated, :id)"
            values |= {"updated": float(updated), "id": key}

        def work(db: sqlite3.Connection) -> SessionList:
            rows = db.execute(
                f"{_SESSION} {behind} ORDER BY updated_at DESC, id DESC LIMIT :limit", values
            ).fetchall()
            more = rows[limit - 1] if len(rows) > limit else None
            return SessionList(
                sessions=[_session(row) for row in rows[:limit]],
                total=db.execute(f"{_COUNT} {where}", values).fetchone()[0],
                next=None if more is None else f"{more[4]!r}~{more[0]}",
            )

        return await self._database.do(work)

    async def delete(self, session_id: str) -> None:
        """Forget a session; its run must have ended.

        Raises:
            RequestError: There is none.
        """

        def work(db: sqlite3.Connection) -> None:
            if db.execute("DELETE FROM sessions WHERE id = ?", (session_id,)).rowcount == 0:
                raise unknown("session", session_id)

        await self._database.do(work)

    async def begin_run(
        self, session_id: str, input: str, user: str | None
    ) -> tuple[RunInfo, Conversation]:
        """Write down a new run and return it with the conversation before it.

        Raises:
            RequestError: There is no such session, or a run of it goes on.
        """
        now = self._clock()
        key = new_id("run")

        def work(db: sqlite3.Connection) -> tuple[RunInfo, Conversation]:
            row = db.execute(
                f"{_AGENT} WHERE id = :id AND {_THEIRS}", {"id": session_id, "user": user}
            ).fetchone()
            if row is None:
                raise unknown("session", session_id)
            before = _messages(db, session_id)
            try:
                db.execute(
                    "INSERT INTO runs (id, session_id, agent, status, input, created_at) "
                    "VALUES (?, ?, ?, 'running', ?, ?)",
                    (key, session_id, row[0], input, now),
                )
            except sqlite3.IntegrityError:
                raise RequestError(
                    409,
                    f"a run of session {session_id} still goes on: wait for it or cancel it",
                    code="run_active",
                ) from None
            db.execute(
                "UPDATE sessions SET updated_at = ?, title = CASE title WHEN '' THEN ? ELSE title "
                "END WHERE id = ?",
                (now, " ".join(input.split())[:TITLE], session_id),
            )
            run = RunInfo(
                id=key, session_id=session_id, agent=row[0], status=RunStatus.RUNNING,
                input=input, created_at=_time(now),
            )  # fmt: skip
            return run, before

        return await self._database.do(work)

    async def run(self, run_id: str, user: str | None) -> RunInfo:
        """Return a run.

        Raises:
            RequestError: There is none.
        """

        def work(db: sqlite3.Connection) -> RunInfo:
            row = db.execute(
                f"{_RUN} WHERE id = :id AND session_id IN {_THEIR_SESSIONS}",
                {"id": run_id, "user": user},
            ).fetchone()
            if row is None:
                raise unknown("run", run_id)
            return _run(row)

        return await self._database.do(work)

    def end_run(
        self, run_id: str, status: RunStatus, outcome: dict[str, Any], messages: Conversation
    ) -> Callable[[sqlite3.Connection], None]:
        """Return what writes down the end of a run, for the transaction of its last event."""
        now = self._clock()
        said = _conversation.dump_json(messages).decode()

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE runs SET status = ?, ended_at = ?, outcome = ?, messages = ? WHERE id = ?",
                (status.value, now, json.dumps(outcome), said, run_id),
            )

        return work

    async def left_behind(self) -> list[tuple[RunInfo, Conversation, list[dict[str, Any]], int]]:
        """Return the runs a dead server was at: the run, what was said before it, its events and
        how often it was gone on with, this time included.
        """  # noqa: D205

        def work(
            db: sqlite3.Connection,
        ) -> list[tuple[RunInfo, Conversation, list[dict[str, Any]], int]]:
            db.execute("UPDATE runs SET resumes = resumes + 1 WHERE status = 'running'")
            found = []
            for row in db.execute(f"{_RUN} WHERE status = 'running' ORDER BY place").fetchall():
                run = _run(row)
                events = db.execute(
                    "SELECT data FROM events WHERE run_id = ? ORDER BY seq", (run.id,)
                )
                (times,) = db.execute("SELECT resumes FROM runs WHERE id = ?", (run.id,)).fetchone()
                history = _messages(db, run.session_id)
                found.append((run, history, [json.loads(data) for (data,) in events], times))
            return found

        return await self._database.do(work)


def unknown(kind: str, key: str) -> RequestError:
    """Return the error of an id that means nothing."""
    return RequestError(404, f"there is no {kind} '{key[:100]}'", code=f"{kind}_not_found")


def _messages(db: sqlite3.Connection, session_id: str) -> Conversation:
    rows = db.execute(
        "SELECT messages FROM runs WHERE session_id = ? ORDER BY place", (session_id,)
    )
    return [message for (text,) in rows for message in _conversation.validate_json(text)]


def _session(row: Any) -> SessionInfo:
    key, agent, title, created, updated, active = row
    return SessionInfo(
        id=key, agent=agent, title=title, created_at=_time(created), updated_at=_time(updated),
        active_run=active,
    )  # fmt: skip


def _run(row: Any) -> RunInfo:
    key, session, agent, status, asked, created, ended, outcome, last = row
    return RunInfo(
        id=key, session_id=session, agent=agent, status=status, input=asked,
        created_at=_time(created), ended_at=None if ended is None else _time(ended),
        last_event=last, **json.loads(outcome),
    )  # fmt: skip


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
