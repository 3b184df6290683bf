"""The table in PostgreSQL that holds memories, of this version and of earlier ones."""

from typing import TYPE_CHECKING, Any

from orbiter.memory._internal.sql import ADDED

if TYPE_CHECKING:
    from psycopg import AsyncConnection

# A number of our own for the advisory lock that lets one process at a time make the tables.
SCHEMA_LOCK = 7_226_541
_SCHEMA = """
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
  embedder TEXT NOT NULL DEFAULT '',
  superseded_at DOUBLE PRECISION,
  superseded_by TEXT NOT NULL DEFAULT '',
  found_by TSVECTOR GENERATED ALWAYS AS (to_tsvector('simple', terms)) STORED
);
CREATE INDEX IF NOT EXISTS memory_records_scope
  ON memory_records (user_id, session_id, agent_name, kind);
CREATE INDEX IF NOT EXISTS memory_records_terms ON memory_records USING GIN (found_by);
CREATE OR REPLACE FUNCTION memory_dot(REAL[], REAL[]) RETURNS DOUBLE PRECISION
  LANGUAGE SQL IMMUTABLE PARALLEL SAFE
  AS 'SELECT sum(a * b) FROM unnest($1, $2) AS pairs(a, b)';
"""
_EMBEDDERS = """
CREATE INDEX IF NOT EXISTS memory_records_embedder
  ON memory_records (embedder) WHERE vector IS NOT NULL
"""
_COLUMNS = """
SELECT attname FROM pg_attribute
WHERE attrelid = 'memory_records'::regclass AND attnum > 0 AND NOT attisdropped
"""


async def make_tables(db: "AsyncConnection[Any]") -> None:
    """Make the table if it is missing, and add what one of an earlier version lacks."""
    async with db.transaction():
        await db.execute("SELECT pg_advisory_xact_lock(%s)", [SCHEMA_LOCK])
        await db.execute(_SCHEMA)
        # asked first: adding a column that is there would wait for all who read
        found = await db.execute(_COLUMNS)
        known = {row[0] for row in await found.fetchall()}
        for name, kind in ADDED.items():
            if name not in known:
                await db.execute(f"ALTER TABLE memory_records ADD COLUMN {name} {kind}".encode())
        await db.execute(_EMBEDDERS)
