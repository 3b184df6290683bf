"""pgvector, where a database has it: its operator for exact searches, and indexes for large ones.

Vectors lie in a column of plain arrays, so that a database without the extension holds the same
table. An index is one of HNSW over the vectors of one embedder, by an expression.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from orbiter.memory.types import MemoryStorageError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

LONGEST = {"vector": 2_000, "halfvec": 4_000}
"""Numbers that an index takes: of four bytes, and of two."""
ITERATIVE = (0, 8)
"""From this version on, an index search goes on until the filter has let enough through."""
LEAST_EF, MOST_EF = 100, 1_000
_PREFIX = "memory_vectors_"
_LOCK = 7_226_542
_PLAIN = "memory_dot(r.vector, %s::real[])"
# pgvector's <#> is the negative inner product
_EXACT = "-(r.vector::vector <#> (%s::real[])::vector)"
_FOUND = """
SELECT to_regtype('vector') IS NOT NULL, to_regtype('halfvec') IS NOT NULL,
  (SELECT extversion FROM pg_extension WHERE extname = 'vector')
"""
_INDEXES = """
SELECT obj_description(indexrelid, 'pg_class'), indexrelid::regclass::text, indisvalid
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = 'memory_records'::regclass AND starts_with(relname, %s)
"""
_EMBEDDERS = "SELECT DISTINCT embedder FROM memory_records WHERE vector IS NOT NULL"


class Pgvector:
    """What a database has of pgvector.

    Attributes:
        similarity: The expression of an exact comparison, with pgvector's operator or without.
        indexed: The embedders whose vectors have an index.
    """

    def __init__(self) -> None:
        self.similarity = _PLAIN
        self.indexed: frozenset[str] = frozenset()
        self._types: tuple[str, ...] = ()
        self._version: tuple[int, ...] = ()

    async def look(self, db: "AsyncConnection[Any]") -> None:
        """Find out what there is."""
        row = await (await db.execute(_FOUND)).fetchone()
        here, half, version = row or (False, False, None)
        self.similarity = _EXACT if here else _PLAIN
        self._types = ("vector", "halfvec") if half else ("vector",)
        self._version = tuple(int(n) for n in (version or "").split(".") if n.isdigit())
        found = await (await db.execute(_INDEXES, [_PREFIX])).fetchall()
        self.indexed = frozenset(name for name, _, valid in found if name and valid)

    async def create_indexes(self, db: "AsyncConnection[Any]") -> list[str]:
        """Make the indexes that are missing, while others read and write.

        Returns:
            The embedders whose vectors have one now that had none before.

        Raises:
            MemoryStorageError: There is no pgvector, vectors are too long for an index, or another
                process makes one.
        """
        from psycopg import sql

        if not self._version:
            raise MemoryStorageError(
                "postgres", "pgvector is not installed in this database: CREATE EXTENSION vector"
            )
        # not waited for: who waits has a snapshot, for which the making of an index waits
        free = await (await db.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK])).fetchone()
        if not (free and free[0]):
            raise MemoryStorageError("postgres", "somebody else makes an index: try again later")
        await self.look(db)
        made = []
        rows = await (await db.execute(_EMBEDDERS)).fetchall()
        for space in sorted(row[0] for row in rows if "/" in row[0]):
            if space in self.indexed:
                continue
            name = sql.Identifier(_PREFIX + blake2b(space.encode(), digest_size=8).hexdigest())
            kind = self._type(space)
            # one that was interrupted is there, and of no use
            await db.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(name))
            await db.execute(
                sql.SQL(
                    "CREATE INDEX CONCURRENTLY {} ON memory_records "
                    "USING hnsw ((vector::{}) {}) WHERE embedder = {}"
                ).format(
                    name,
                    sql.SQL(f"{kind}({_length(space)})"),
                    sql.SQL(f"{kind}_ip_ops"),
                    sql.Literal(space),
                )
            )
            await db.execute(sql.SQL("COMMENT ON INDEX {} IS {}").format(name, sql.Literal(space)))
            made.append(space)
        await self.look(db)
        return made

    async def nearest(
        self,
        db: "AsyncConnection[Any]",
        columns: str,
        space: str,
        vector: Sequence[float],
        condition: str,
        values: Sequence[Any],
        limit: int,
    ) -> list[Any]:
        """Search by the index of an embedder: approximately, and perhaps less than `limit`."""
        from psycopg import sql

        kind = f"{self._type(space)}({_length(space)})"
        near = f"(r.vector::{kind} <#> (%s::real[])::{kind})"
        mine = sql.Literal(space).as_string(db)
        # the literal lets the planner see that it is the index's; `near` has to stand alone to be
        # found there, so that it is computed once more as the score
        query = (
            f"SELECT {columns}, -{near} AS score FROM memory_records r "  # noqa: S608
            f"WHERE r.embedder = {mine.replace('%', '%%')} AND r.vector IS NOT NULL "
            f"AND {condition} ORDER BY {near} LIMIT %s"
        )
        async with db.transaction():
            breadth = min(max(LEAST_EF, 2 * limit), MOST_EF)
            await db.execute(f"SET LOCAL hnsw.ef_search = {breadth}".encode())
            if self._version >= ITERATIVE:
                await db.execute("SET LOCAL hnsw.iterative_scan = strict_order")
            given = [list(vector), *values, list(vector), limit]
            return await (await db.execute(query.encode(), given)).fetchall()

    def _type(self, space: str) -> str:
        for kind in self._types:
            if _length(space) <= LONGEST[kind]:
                return kind
        raise MemoryStorageError(
            "postgres",
            f"vectors of '{space}' are too long for an index, which takes "
            f"{LONGEST[self._types[-1]]} numbers: give the embedder fewer dimensions",
        )


def _length(space: str) -> int:
    return int(space.rpartition("/")[2])
