"""Storage in one SQLite file: survives the process, and several processes may use it at once.

Full-text search is FTS5 with its BM25, kept in step with the table by triggers; vectors are
compared one by one inside SQLite's thread. Write-ahead logging lets readers read while one writes.
"""

import asyncio
import json
import sqlite3
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbiter.memory._internal.sql import (
    COLUMNS,
    READ_COLUMNS,
    conditions,
    record_of,
    rows_of,
    storable,
)
from orbiter.memory._internal.sqlite_tables import make_tables
from orbiter.memory._internal.turns import Turns
from orbiter.memory.embedding import dot
from orbiter.memory.text import terms
from orbiter.memory.types import MemoryHit, MemoryRecord, MemoryStorageError, RecordFilter
from orbiter.sqlite_file import open_file

if TYPE_CHECKING:
    import aiosqlite

BUSY_TIMEOUT_MS = 5_000
MARKS = ", ".join("?" * len(COLUMNS.split(",")))


class SqliteStorage:
    """Keeps records in a SQLite file, which is made when it is first used."""

    def __init__(self, path: str | Path) -> None:
        """Name the file; nothing is opened yet.

        Args:
            path: The database file; its directory must exist.
        """
        self.path = Path(path)
        self._connection: aiosqlite.Connection | None = None
        self._turns = Turns()

    async def put(self, records: Sequence[MemoryRecord]) -> None:
        """Keep records, all or none; one with a known id replaces the old one."""
        rows = rows_of(records, _blob)
        async with self._transaction() as db:
            # Deleting first moves a replaced record to the newest place.
            await db.executemany(
                "DELETE FROM memory_records WHERE id = ?", [(row[0],) for row in rows]
            )
            await db.executemany(
                f"INSERT INTO memory_records ({COLUMNS}) VALUES ({MARKS})",  # noqa: S608
                rows,
            )

    async def select(self, where: RecordFilter, *, limit: int | None = None) -> list[MemoryRecord]:
        """Return the records that fit, oldest put first; with `limit` only the newest so many."""
        condition, values = _conditions(where)
        rows = await self._rows(
            f"SELECT {READ_COLUMNS} FROM memory_records r WHERE {condition} "  # noqa: S608
            "ORDER BY r.put_order DESC LIMIT ?",
            [*values, -1 if limit is None else limit],
        )
        return [record_of(row, _vector) for row in reversed(rows)]

    async def search_text(self, query: str, where: RecordFilter, *, limit: int) -> list[MemoryHit]:
        """Return the best matches of the query's words, best first."""
        words = dict.fromkeys(terms(query))
        if not words:
            return []
        condition, values = _conditions(where)
        rows = await self._rows(
            f"SELECT {READ_COLUMNS}, -bm25(memory_terms) AS score "  # noqa: S608
            "FROM memory_terms JOIN memory_records r ON r.put_order = memory_terms.rowid "
            f"WHERE memory_terms MATCH ? AND {condition} ORDER BY score DESC LIMIT ?",
            [" OR ".join(f'"{word}"' for word in words), *values, limit],
        )
        return _hits(rows)

    async def search_vector(
        self, vector: Sequence[float], where: RecordFilter, *, limit: int
    ) -> list[MemoryHit]:
        """Return the records whose vectors are nearest to `vector` (of length 1), best first."""
        condition, values = _conditions(where)
        rows = await self._rows(
            f"SELECT {READ_COLUMNS}, dot(r.vector, ?) AS score "  # noqa: S608
            f"FROM memory_records r WHERE length(r.vector) = ? AND {condition} "
            "ORDER BY score DESC LIMIT ?",
            [_blob(vector), len(_blob(vector)), *values, limit],
        )
        return _hits(rows)

    async def set_vectors(self, records: Sequence[MemoryRecord]) -> None:
        """Give records their vectors and keep their places; those that have changed are left."""
        async with self._transaction() as db:
            await db.executemany(
                "UPDATE memory_records SET vector = ?, embedder = ? WHERE id = ? AND text = ?",
                [
                    (r.vector and _blob(r.vector), r.embedder, r.id, storable(r.text))
                    for r in records
                ],
            )

    async def delete(self, where: RecordFilter) -> int:
        """Delete the records that fit and return how many they were."""
        condition, values = _conditions(where)
        async with self._transaction() as db:
            cursor = await db.execute(
                f"DELETE FROM memory_records AS r WHERE {condition}",  # noqa: S608
                values,
            )
            return cursor.rowcount

    async def trim(self, where: RecordFilter, *, keep: int) -> None:
        """Delete all but the newest `keep` of the records that fit."""
        condition, values = _conditions(where)
        async with self._transaction() as db:
            await db.execute(
                "DELETE FROM memory_records WHERE put_order IN (SELECT r.put_order "  # noqa: S608
                f"FROM memory_records r WHERE {condition} "
                "ORDER BY r.put_order DESC LIMIT -1 OFFSET ?)",
                [*values, keep],
            )

    async def close(self) -> None:
        """Close the file; the storage opens it anew when it is used again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _rows(self, query: str, values: Iterable[Any]) -> list[Any]:
        db = await self._open()
        try:
            return list(await db.execute_fetchall(query, values))
        except sqlite3.Error as error:
            raise MemoryStorageError(str(self.path), f"{error}") from error

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator["aiosqlite.Connection"]:
        db = await self._open()
        async with self._turns.mine():
            try:
                await db.execute("BEGIN IMMEDIATE")
                yield db
                await db.commit()
            except BaseException as error:
                await db.rollback()
                if isinstance(error, sqlite3.Error):
                    raise MemoryStorageError(str(self.path), f"{error}") from error
                raise

    async def _open(self) -> "aiosqlite.Connection":
        if self._connection is None:
            async with self._turns.mine():
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
        db = await connecting
        await make_tables(db)
        await db.create_function("dot", 2, _dot, deterministic=True)
    except sqlite3.Error as error:
        await connecting.close()
        # Its thread still reports to this loop; the loop must not be gone by then.
        await asyncio.to_thread(connecting._thread.join)
        raise MemoryStorageError(
            str(path),
            f"cannot be opened: {error}; does its directory exist and may we write there?",
        ) from error
    return db


def _membership(column: str) -> tuple[str, Callable[[Sequence[str]], Any]]:
    return f"{column} IN (SELECT value FROM json_each(?))", json.dumps  # noqa: S608


def _conditions(where: RecordFilter) -> tuple[str, list[Any]]:
    return conditions(where, "?", _membership)


def _blob(vector: Sequence[float]) -> bytes:
    return array("f", vector).tobytes()


def _vector(blob: bytes) -> tuple[float, ...]:
    return tuple(array("f", blob))


def _dot(left: bytes, right: bytes) -> float:
    return dot(array("f", left), array("f", right))


def _hits(rows: Sequence[Any]) -> list[MemoryHit]:
    return [MemoryHit(record=record_of(row, _vector), score=row[-1]) for row in rows]
