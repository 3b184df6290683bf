"""The tables of a SQLite file that holds memories, of this version and of earlier ones."""

from typing import TYPE_CHECKING

from orbiter.memory._internal.sql import ADDED

if TYPE_CHECKING:
    import aiosqlite

# `put_order` orders records by when they were put; it is also the row id of the full-text index.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS memory_records (
  put_order INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  text TEXT NOT NULL,
  terms TEXT NOT NULL,
  user_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  agent_name TEXT NOT NULL,
  source TEXT NOT NULL,
  position INTEGER NOT NULL,
  created_at REAL NOT NULL,
  expires_at REAL,
  vector BLOB,
  embedder TEXT NOT NULL DEFAULT '',
  superseded_at REAL,
  superseded_by TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS memory_records_scope
  ON memory_records (user_id, session_id, agent_name, kind);
CREATE VIRTUAL TABLE IF NOT EXISTS memory_terms USING fts5(
  terms, content='memory_records', content_rowid='put_order', tokenize="unicode61"
);
CREATE TRIGGER IF NOT EXISTS memory_records_added AFTER INSERT ON memory_records BEGIN
  INSERT INTO memory_terms (rowid, terms) VALUES (new.put_order, new.terms);
END;
CREATE TRIGGER IF NOT EXISTS memory_records_deleted AFTER DELETE ON memory_records BEGIN
  INSERT INTO memory_terms (memory_terms, rowid, terms)
  VALUES ('delete', old.put_order, old.terms);
END;
"""
_EMBEDDERS = """
CREATE INDEX IF NOT EXISTS memory_records_embedder
  ON memory_records (embedder) WHERE vector IS NOT NULL
"""


async def make_tables(db: "aiosqlite.Connection") -> None:
    """Make the tables that are missing, and add what those of an earlier version lack."""
    await db.executescript(_SCHEMA)
    if await _lacks(db):
        # one process at a time, and the others find that it is done
        await db.execute("BEGIN IMMEDIATE")
        for name in await _lacks(db):
            await db.execute(f"ALTER TABLE memory_records ADD COLUMN {name} {ADDED[name]}")
        await db.commit()
    await db.execute(_EMBEDDERS)


async def _lacks(db: "aiosqlite.Connection") -> list[str]:
    rows = await db.execute_fetchall("SELECT name FROM pragma_table_info('memory_records')")
    known = {row[0] for row in rows}
    return [name for name in ADDED if name not in known]
