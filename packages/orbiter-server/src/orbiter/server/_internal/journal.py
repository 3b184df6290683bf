"""The events of runs: written to the disk first, shown to readers then.

What a client has seen is therefore still there after a crash, and "everything behind event 17"
always has the same answer. All runs share one writer, which takes whatever has come in since its
last transaction: one run pays a commit an event, five hundred pay a commit for all of them.
"""

import asyncio
import logging
import sqlite3
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from orbiter.server._internal.database import Database
from orbiter.server._internal.json_text import to_json

logger = logging.getLogger("orbiter.server")
Then = Callable[[sqlite3.Connection], object]
# events of a live run kept in memory; who is further behind reads them from the disk
RECENT = 256
PAGE = 500
MOST_WAITING = 10_000
RETRY_SECONDS = 1.0


class _Live:
    """A run that goes on: its latest events and who waits for more."""

    __slots__ = ("changed", "committed", "ended", "recent", "written")

    def __init__(self, last: int) -> None:
        self.written = last
        self.committed = last
        self.ended = False
        self.recent: deque[tuple[int, str]] = deque(maxlen=RECENT)
        self.changed: asyncio.Future[None] | None = None

    def wait(self) -> "asyncio.Future[None]":
        if self.changed is None:
            self.changed = asyncio.get_running_loop().create_future()
        return self.changed

    def tell(self) -> None:
        changed, self.changed = self.changed, None
        if changed is not None and not changed.done():
            changed.set_result(None)


@dataclass(slots=True)
class _Entry:
    run_id: str
    seq: int
    data: str
    then: Then | None
    last: bool


class Journal:
    """Appends events and lets any number of readers follow them.

    Attributes:
        failing: Why nothing can be written at the moment.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._live: dict[str, _Live] = {}
        self._waiting: list[_Entry] = []
        self._wake = asyncio.Event()
        self._settled: asyncio.Future[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._closed = False
        self.failing: str | None = None

    def start(self) -> None:
        """Begin to write."""
        self._writer = asyncio.create_task(self._write())

    async def close(self) -> None:
        """Write what is left; readers end."""
        self._closed = True
        self._wake.set()
        if self._writer is not None:
            await self._writer
        for live in self._live.values():
            live.tell()

    def open(self, run_id: str, last: int = 0) -> None:
        """Say that a run goes on; `last` is the `seq` of its latest event."""
        self._live[run_id] = _Live(last)

    async def append(
        self, run_id: str, event: dict[str, Any], *, then: Then | None = None, last: bool = False
    ) -> None:
        """Give an event its `seq` and line it up to be written.

        Args:
            run_id: A run that goes on.
            event: Its `type` and what belongs to it.
            then: Done in the same transaction.
            last: The run is over.
        """
        live = self._live[run_id]
        live.written += 1
        told = {"seq": live.written, "at": round(self._clock(), 3), **event}
        self._waiting.append(_Entry(run_id, live.written, to_json(told), then, last))
        self._wake.set()
        if len(self._waiting) > MOST_WAITING:
            await self.flush()

    async def flush(self) -> None:
        """Wait until everything appended so far is on the disk."""
        if self._writer is None or self._writer.done():
            return
        self._wake.set()
        if self._settled is None:
            self._settled = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._settled)

    async def read(
        self, run_id: str, after: int, *, idle: float | None = None
    ) -> AsyncGenerator[list[tuple[int, str]], None]:
        """Yield (`seq`, JSON) behind `after`, live, in batches, until the run is over.

        A server that stops ends it early; what is missing can be read from the next one.

        Args:
            run_id: The run.
            after: The last event already seen.
            idle: Seconds after which a silence is told, by an empty batch.
        """
        while True:
            live = self._live.get(run_id)
            batch = self._recent(live, after) if live is not None else None
            if batch is None:
                batch = await self.page(run_id, after)
            if batch:
                after = batch[-1][0]
                yield batch
            elif live is None or live.ended or self._closed:
                return
            elif live.committed <= after:
                # not the future itself: a reader that leaves would cancel it for the others
                _, silent = await asyncio.wait([live.wait()], timeout=idle)
                if silent:
                    yield []

    async def page(self, run_id: str, after: int, limit: int = PAGE) -> list[tuple[int, str]]:
        """Return up to `limit` events behind `after` from the disk."""
        return await self._database.do(
            lambda db: db.execute(
                "SELECT seq, data FROM events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?",
                (run_id, after, limit),
            ).fetchall()
        )

    @staticmethod
    def _recent(live: _Live, after: int) -> list[tuple[int, str]] | None:
        """Return what is in memory behind `after`; None when some of it is not."""
        if after >= live.committed:
            return []
        recent = live.recent
        if not recent or recent[0][0] > after + 1:
            return None
        first = after + 1 - recent[0][0]
        return [recent[i] for i in range(first, len(recent))]

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch, self._waiting = self._waiting, []
            settled, self._settled = self._settled, None
            if batch:
                await self._commit(batch)
            if settled is not None:
                settled.set_result(None)
            if self._closed and not self._waiting and self._settled is None:
                return

    async def _commit(self, batch: Sequence[_Entry]) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.executemany(
                "INSERT INTO events VALUES (?, ?, ?)",
                [(entry.run_id, entry.seq, entry.data) for entry in batch],
            )
            for entry in batch:
                if entry.then is not None:
                    entry.then(db)

        while True:
            try:
                await self._database.do(work)
                break
            except sqlite3.Error as error:
                # nothing is shown that is not kept; a full disk may have room again in a second
                self.failing = f"{self._database.path}: {error}"
                logger.error("events cannot be written, trying again: %s", self.failing)
                await asyncio.sleep(RETRY_SECONDS)
        self.failing = None
        told = set()
        for entry in batch:
            live = self._live[entry.run_id]
            live.recent.append((entry.seq, entry.data))
            live.committed = entry.seq
            if entry.last:
                live.ended = True
                del self._live[entry.run_id]
            told.add(live)
        for live in told:
            live.tell()
