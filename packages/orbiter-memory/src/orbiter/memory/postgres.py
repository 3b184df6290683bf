"""Storage in PostgreSQL, for memories that several machines share: `orbiter-memory[postgres]`.

Full-text search uses a GIN index over the same terms the other storages search. Vectors are plain
arrays of floats, so no extension is needed; where pgvector is installed in the database its inner
product is used instead of ours. Either way vectors are compared exactly, one by one.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from orbiter.memory._internal.sql import (
    COLUMNS,
    READ_COLUMNS,
    REPLACED,
    conditions,
    record_of,
    rows_of,
)
from orbiter.memory._internal.turns import Turns
from orbiter.memory.text import terms
from orbiter.memory.types import MemoryHit, MemoryRecord, MemoryStorageError, RecordFilter

if TYPE_CHECKING:
    from psycopg import AsyncConnection

# A number of our own for the advisory lock that lets one process at a time make the tables.
SCHEMA_LOCK = 7_226_541
SCHEMA = """
CREATE TABLE IF NOT EXISTS memory_records (
  put_order BIGINT GENERATED ALWAYS AS IDENTITY,
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  text TEXT NOT NULL,
  terms TEXT NOT NULL,
  user_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  agent_name TEXT NOT NULL,
  source TEXT NOT NULL,
  position INTEGER NOT NULL,
  created_at DOUBLE PRECISION NOT NULL,
  expires_at DOUBLE PRECISION,
  vector REAL[],
  found_by TSVECTOR GENERATED ALWAYS AS (to_tsvector('simple', terms)) STORED
);
CREATE INDEX IF NOT EXISTS memory_records_scope
  ON memory_records (user_id, session_id, agent_name, kind);
CREATE INDEX IF NOT EXISTS memory_records_terms ON memory_records USING GIN (found_by);
CREATE OR REPLACE FUNCTION memory_dot(REAL[], REAL[]) RETURNS DOUBLE PRECISION
  LANGUAGE SQL IMMUTABLE PARALLEL SAFE
  AS 'SELECT sum(a * b) FROM unnest($1, $2) AS pairs(a, b)';
"""
PLAIN_SIMILARITY = "memory_dot(r.vector, %s::real[])"
# pgvector's <#> is the negative inner product.
PGVECTOR_SIMILARITY = "-(r.vector::vector <#> (%s::real[])::vector)"
MARKS = ", ".join(["%s"] * len(COLUMNS.split(",")))
PUT = (
    f"INSERT INTO memory_records ({COLUMNS}) VALUES ({MARKS}) "  # noqa: S608
    f"ON CONFLICT (id) DO UPDATE SET put_order = DEFAULT, {REPLACED}"
)
# ts_rank's flag 1 divides by the logarithm of the length, as BM25 also favours short texts.
SHORTER_IS_BETTER = 1


class PostgresStorage:
    """Keeps records in a table `memory_records`, which is made when it is missing."""

    def __init__(self, dsn: str) -> None:
        """Name the database; nothing is opened yet.

        Args:
            dsn: A connection string or URL. It may hold a password and is never shown.
        """
        self._dsn = dsn
        self._connection: AsyncConnection[Any] | None = None
        self._similarity = PLAIN_SIMILARITY
        self._turns = Turns()

    async def put(self, records: Sequence[MemoryRecord]) -> None:
        """Keep records, all or none; one with a known id replaces the old one."""
        async with self._transaction() as db, db.cursor() as cursor:
            await cursor.executemany(
                PUT.encode(),
                rows_of(records, list),
            )

    async def select(self, where: RecordFilter, *, limit: int | None = None) -> list[MemoryRecord]:
        """Return the records that fit, oldest put first; with `limit` only the newest so many."""
        condition, values = _conditions(where)
        rows = await self._rows(
            f"SELECT {READ_COLUMNS} FROM memory_records r WHERE {condition} "  # noqa: S608
            "ORDER BY r.put_order DESC LIMIT %s",
            [*values, limit],
        )
        return [record_of(row, tuple) for row in reversed(rows)]

    async def search_text(self, query: str, where: RecordFilter, *, limit: int) -> list[MemoryHit]:
        """Return the best matches of the query's words, best first."""
        words = dict.fromkeys(terms(query))
        if not words:
            return []
        asked = " | ".join("'" + word.replace("'", "''") + "'" for word in words)
        condition, values = _conditions(where)
        rows = await self._rows(
            f"SELECT {READ_COLUMNS}, "  # noqa: S608
            f"ts_rank(r.found_by, asked, {SHORTER_IS_BETTER}) AS score "
            "FROM memory_records r, to_tsquery('simple', %s) asked "
            f"WHERE r.found_by @@ asked AND {condition} ORDER BY score DESC LIMIT %s",
            [asked, *values, limit],
        )
        return _hits(rows)

    async def search_vector(
        self, vector: Sequence[float], where: RecordFilter, *, limit: int
    ) -> list[MemoryHit]:
        """Return the records whose vectors are nearest to `vector` (of length 1), best first."""
        condition, values = _conditions(where)
        await self._open()
        rows = await self._rows(
            f"SELECT {READ_COLUMNS}, {self._similarity} AS score "  # noqa: S608
            f"FROM memory_records r WHERE r.vector IS NOT NULL AND {condition} "
            "ORDER BY score DESC LIMIT %s",
            [list(vector), *values, limit],
        )
        return _hits(rows)

    async def delete(self, where: RecordFilter) -> int:
        """Delete the records that fit and return how many they were."""
        condition, values = _conditions(where)
        async with self._transaction() as db:
            cursor = await db.execute(
                f"DELETE FROM memory_records r WHERE {condition}".encode(),  # noqa: S608
                values,
            )
            return cursor.rowcount

    async def trim(self, where: RecordFilter, *, keep: int) -> None:
        """Delete all but the newest `keep` of the records that fit."""
        condition, values = _conditions(where)
        async with self._transaction() as db:
            await db.execute(
                "DELETE FROM memory_records WHERE id IN (SELECT r.id "  # noqa: S608
                f"FROM memory_records r WHERE {condition} "
                "ORDER BY r.put_order DESC OFFSET %s)".encode(),
                [*values, keep],
            )

    async def close(self) -> None:
        """Close the connection; the storage connects anew when it is used again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _rows(self, query: str, values: Sequence[Any]) -> list[Any]:
        async with self._connected() as db:
            cursor = await db.execute(query.encode(), values)
            return await cursor.fetchall()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator["AsyncConnection[Any]"]:
        async with self._connected() as db, db.transaction():
            yield db

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator["AsyncConnection[Any]"]:
        db = await self._open()
        from psycopg import Error

        async with self._turns.mine():
            try:
                yield db
            except Error as error:
                raise MemoryStorageError("postgres", f"{error}") from error

    async def _open(self) -> "AsyncConnection[Any]":
        if self._connection is None or self._connection.closed:
            async with self._turns.mine():
                if self._connection is None or self._connection.closed:
                    self._connection = await self._connect()
        return self._connection

    async def _connect(self) -> "AsyncConnection[Any]":
        try:
            import psycopg
        except ImportError as error:
            raise MemoryStorageError(
                "postgres", "psycopg is not installed; install orbiter-memory[postgres]"
            ) from error
        db = None
        try:
            db = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)
            async with db.transaction():
                await db.execute("SELECT pg_advisory_xact_lock(%s)", [SCHEMA_LOCK])
                await db.execute(SCHEMA)
            found = await db.execute("SELECT to_regtype('vector') IS NOT NULL")
        except psycopg.Error as error:
            if db is not None:
                await db.close()
            raise MemoryStorageError(
                "postgres", f"cannot be opened: {error}; check the address and the user's rights"
            ) from error
        row = await found.fetchone()
        self._similarity = PGVECTOR_SIMILARITY if row and row[0] else PLAIN_SIMILARITY
        return db


def _membership(column: str) -> tuple[str, Callable[[Sequence[str]], Any]]:
    return f"{column} = ANY(%s)", list


def _conditions(where: RecordFilter) -> tuple[str, list[Any]]:
    return conditions(where, "%s", _membership)


def _hits(rows: Sequence[Any]) -> list[MemoryHit]:
    return [MemoryHit(record=record_of(row, tuple), score=row[-1]) for row in rows]
