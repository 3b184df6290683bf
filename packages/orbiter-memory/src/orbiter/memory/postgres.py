"""Storage in PostgreSQL, for memories that several machines share: `orbiter-memory[postgres]`.

Full-text search uses a GIN index over the same terms the other storages search. Vectors are plain
arrays of floats, so no extension is needed; where pgvector is installed in the database its inner
product is used instead of ours. Either way vectors are compared exactly, one by one, until
somebody asks for an index: of very many vectors it finds nearly all of the nearest, and soon.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from orbiter.memory._internal.pgvector import Pgvector
from orbiter.memory._internal.postgres_tables import make_tables
from orbiter.memory._internal.sql import (
    COLUMNS,
    READ_COLUMNS,
    REPLACED,
    conditions,
    record_of,
    rows_of,
    storable,
)
from orbiter.memory._internal.turns import Turns
from orbiter.memory.text import terms
from orbiter.memory.types import MemoryHit, MemoryRecord, MemoryStorageError, RecordFilter

if TYPE_CHECKING:
    from psycopg import AsyncConnection

EXACT_ROWS = 10_000
"""As many vectors are compared one by one although there is an index: it takes milliseconds."""
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
        self._pgvector = Pgvector()
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
        """Return the records whose vectors are nearest to `vector` (of length 1), best first.

        They are compared exactly, unless there is an index and more than EXACT_ROWS are meant.
        """
        condition, values = _conditions(where)
        async with self._connected() as db:
            space = where.embedder
            indexed = space is not None and space in self._pgvector.indexed
            if space and indexed and await self._beyond(db, condition, values):
                rows = await self._pgvector.nearest(
                    db, READ_COLUMNS, space, vector, condition, values, limit
                )
                if len(rows) >= limit:
                    return _hits(rows)
            # of another length they are no neighbours, and pgvector would refuse all of them
            cursor = await db.execute(
                f"SELECT {READ_COLUMNS}, {self._pgvector.similarity} AS score "  # noqa: S608
                f"FROM memory_records r WHERE cardinality(r.vector) = %s AND {condition} "
                "ORDER BY score DESC LIMIT %s".encode(),
                [list(vector), len(vector), *values, limit],
            )
            return _hits(await cursor.fetchall())

    async def set_vectors(self, records: Sequence[MemoryRecord]) -> None:
        """Give records their vectors and keep their places; those that have changed are left."""
        rows = [(r.vector and list(r.vector), r.embedder, r.id, storable(r.text)) for r in records]
        async with self._transaction() as db, db.cursor() as cursor:
            await cursor.executemany(
                "UPDATE memory_records SET vector = %s, embedder = %s WHERE id = %s AND text = %s",
                rows,
            )

    async def create_vector_index(self) -> list[str]:
        """Index the vectors of each embedder that has none, with pgvector's HNSW.

        Others read and write meanwhile; it takes minutes for a million. Storages that are open
        already learn of it when they connect anew.

        Returns:
            The embedders whose vectors have an index now that had none.

        Raises:
            MemoryStorageError: The database has no pgvector, or the vectors are too long.
        """
        # a connection of its own: nobody waits for it
        db = await self._connect()
        from psycopg import Error

        try:
            return await self._pgvector.create_indexes(db)
        except Error as error:
            raise MemoryStorageError("postgres", f"no index was made: {error}") from error
        finally:
            await db.close()

    async def _beyond(
        self, db: "AsyncConnection[Any]", condition: str, values: Sequence[Any]
    ) -> bool:
        """Whether a filter means more records than are compared one by one."""
        cursor = await db.execute(
            "SELECT count(*) FROM (SELECT 1 FROM memory_records r "  # noqa: S608
            f"WHERE {condition} LIMIT %s) AS counted".encode(),
            [*values, EXACT_ROWS + 1],
        )
        row = await cursor.fetchone()
        return row is not None and row[0] > EXACT_ROWS

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
            await make_tables(db)
            await self._pgvector.look(db)
        except psycopg.Error as error:
            if db is not None:
                await db.close()
            raise MemoryStorageError(
                "postgres", f"cannot be opened: {error}; check the address and the user's rights"
            ) from error
        return db


def _membership(column: str) -> tuple[str, Callable[[Sequence[str]], Any]]:
    return f"{column} = ANY(%s)", list


def _conditions(where: RecordFilter) -> tuple[str, list[Any]]:
    return conditions(where, "%s", _membership)


def _hits(rows: Sequence[Any]) -> list[MemoryHit]:
    return [MemoryHit(record=record_of(row, tuple), score=row[-1]) for row in rows]
