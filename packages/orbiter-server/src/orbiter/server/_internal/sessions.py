"""Sessions and runs as rows of the database."""

import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

from orbiter.server._internal.database import Database
from orbiter.server._internal.errors import RequestError, unknown
from orbiter.server._internal.files import File, files_of, nth
from orbiter.server._internal.images import images_of
from orbiter.server._internal.json_text import messages_json, to_json
from orbiter.server._internal.session_rows import (
    AGENT,
    COUNT,
    RUN,
    RUNNING,
    SESSION,
    THEIR_SESSIONS,
    THEIRS,
    LeftBehind,
    kept_in,
    left_behind,
    messages_of,
    moment,
    run_of,
    said_in,
    session_of,
    shown_of,
)
from orbiter.server._internal.waits import Wait, keep_wait, nothing_waits, wait_of
from orbiter.server.models import (
    Conversation,
    RunInfo,
    RunStatus,
    SessionDetail,
    SessionInfo,
    SessionList,
)
from orbiter.types import UserMessage

TITLE = 80


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
        return SessionInfo(id=key, agent=agent, created_at=moment(now), updated_at=moment(now))

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
                f"{SESSION} WHERE id = :id AND {THEIRS}", {"id": session_id, "user": user}
            ).fetchone()
            if row is None:
                raise unknown("session", session_id)
            runs = db.execute(f"{RUN} WHERE session_id = ? ORDER BY place", (session_id,))
            return SessionDetail(
                **session_of(row).model_dump(),
                runs=[run_of(run) for run in runs],
                messages=shown_of(db, session_id),
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
                f"{SESSION} {behind} ORDER BY updated_at DESC, id DESC LIMIT :limit", values
            ).fetchall()
            more = rows[limit - 1] if len(rows) > limit else None
            return SessionList(
                sessions=[session_of(row) for row in rows[:limit]],
                total=db.execute(f"{COUNT} {where}", values).fetchone()[0],
                next=None if more is None else f"{more[4]!r}~{more[0]}",
            )

        return await self._database.do(work)

    async def delete(self, session_id: str) -> None:
        """Forget a session, in which no run goes on: the events of one could not be written then.

        Raises:
            RequestError: There is none, or a run of it goes on.
        """

        def work(db: sqlite3.Connection) -> None:
            if db.execute(RUNNING, (session_id,)).fetchone():
                raise _still_runs(session_id)
            if db.execute("DELETE FROM sessions WHERE id = ?", (session_id,)).rowcount == 0:
                raise unknown("session", session_id)

        await self._database.do(work)

    async def begin_run(
        self, session_id: str, message: UserMessage, user: str | None, request_id: str | None = None
    ) -> tuple[RunInfo, Conversation, Wait | None]:
        """Write down a new run and return it with the conversation before it.

        Images of the message are kept from its beginning on, for a server that goes on with it. In
        a session that waits for a person the message is the answer to the request that it names,
        and the third thing that is returned is the run that goes on.

        Raises:
            RequestError: There is no such session, a run of it goes on, or the input is no answer.
        """
        now, key, text = self._clock(), new_id("run"), message.content
        images = [image.media_type or "" for image in images_of(message)]
        kept = messages_json([message] if images else [])

        def work(db: sqlite3.Connection) -> tuple[RunInfo, Conversation, Wait | None]:
            row = db.execute(
                f"{AGENT} WHERE id = :id AND {THEIRS}", {"id": session_id, "user": user}
            ).fetchone()
            if row is None:
                raise unknown("session", session_id)
            before = messages_of(db, session_id)
            wait = wait_of(db, session_id)
            if wait is not None and not wait.run_id:
                wait = replace(wait.take(text, user or "", request_id), run_id=key)
            elif request_id is not None and wait is None:
                raise nothing_waits(request_id)
            try:
                db.execute(
                    "INSERT INTO runs (id, session_id, agent, status, input, created_at, messages, "
                    "images) VALUES (?, ?, ?, 'running', ?, ?, ?, ?)",
                    (key, session_id, row[0], text, now, kept, json.dumps(images)),
                )
            except sqlite3.IntegrityError:
                raise _still_runs(session_id) from None
            keep_wait(db, session_id, wait)
            db.execute(
                "UPDATE sessions SET updated_at = ?, title = CASE title WHEN '' THEN ? ELSE title "
                "END WHERE id = ?",
                (now, " ".join(text.split())[:TITLE] or "Image", session_id),
            )
            run = RunInfo(
                id=key, session_id=session_id, agent=row[0], status=RunStatus.RUNNING,
                input=text, images=images, created_at=moment(now),
            )  # fmt: skip
            return run, before, wait

        return await self._database.do(work)

    async def run(self, run_id: str, user: str | None) -> RunInfo:
        """Return a run.

        Raises:
            RequestError: There is none.
        """

        def work(db: sqlite3.Connection) -> RunInfo:
            row = db.execute(
                f"{RUN} WHERE id = :id AND session_id IN {THEIR_SESSIONS}",
                {"id": run_id, "user": user},
            ).fetchone()
            if row is None:
                raise unknown("run", run_id)
            return run_of(row)

        return await self._database.do(work)

    async def image(self, run_id: str, number: str, user: str | None) -> File:
        """Return an image of what was said; they count from 0.

        Raises:
            RequestError: There is none.
        """
        run = await self.run(run_id, user)
        said = await self._database.do(lambda db: said_in(db, run))
        return nth(files_of([said]), number, "image")

    async def file(self, run_id: str, number: str, user: str | None) -> File:
        """Return a file of what a run has added, whoever said it; as `image`."""
        run = await self.run(run_id, user)
        kept = await self._database.do(lambda db: kept_in(db, run.id))
        return nth(files_of(kept), number, "file")

    def end_run(
        self,
        info: RunInfo,
        status: RunStatus,
        outcome: dict[str, Any],
        messages: Conversation,
        wait: Wait | None,
    ) -> Callable[[sqlite3.Connection], None]:
        """Return what writes down the end of a run, for the transaction of its last event."""
        now = self._clock()
        said, told = messages_json(messages), to_json(outcome)

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE runs SET status = ?, ended_at = ?, outcome = ?, messages = ? WHERE id = ?",
                (status.value, now, told, said, info.id),
            )
            keep_wait(db, info.session_id, wait)

        return work

    async def left_behind(self) -> list[LeftBehind]:
        """Return the runs a dead server was at."""
        return await self._database.do(left_behind)


def _still_runs(session_id: str) -> RequestError:
    why = f"a run of session {session_id} still goes on: wait for it or cancel it"
    return RequestError(409, why, code="run_active")
