"""The SQLite file of sessions, runs and events. One thread owns it, so nothing waits for a lock."""

import sqlite3
from pathlib import Path

from orbiter.sqlite_file import open_file
from orbiter.sqlite_thread import SqliteThread
from orbiter.types import OrbiterError

# files that were made before conversations belonged to somebody
_WITHOUT_USER = "SELECT count(*) FROM pragma_table_info('sessions') WHERE name = 'user'"
_ADD_USER = "ALTER TABLE sessions ADD COLUMN user TEXT NOT NULL DEFAULT ''"
# and before anybody could show an agent something
_WITHOUT_IMAGES = "SELECT count(*) FROM pragma_table_info('runs') WHERE name = 'images'"
_ADD_IMAGES = "ALTER TABLE runs ADD COLUMN images TEXT NOT NULL DEFAULT '[]'"
_BY_USER = "CREATE INDEX IF NOT EXISTS sessions_by_user ON sessions (user, updated_at, id)"
SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
  place INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  agent TEXT NOT NULL,
  title TEXT NOT NULL DEFAULT '',
  user TEXT NOT NULL DEFAULT '',
  created_at REAL NOT NULL,
  updated_at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS sessions_by_time ON sessions (updated_at, id);
CREATE TABLE IF NOT EXISTS runs (
  place INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  agent TEXT NOT NULL,
  status TEXT NOT NULL,
  input TEXT NOT NULL,
  created_at REAL NOT NULL,
  ended_at REAL,
  resumes INTEGER NOT NULL DEFAULT 0,
  outcome TEXT NOT NULL DEFAULT '{}',
  messages TEXT NOT NULL DEFAULT '[]',
  images TEXT NOT NULL DEFAULT '[]'
);
CREATE INDEX IF NOT EXISTS runs_of_session ON runs (session_id, place);
-- one conversation, one run at a time; also what finds the runs a dead server left behind
CREATE UNIQUE INDEX IF NOT EXISTS one_active_run ON runs (session_id) WHERE status = 'running';
CREATE TABLE IF NOT EXISTS events (
  run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  data TEXT NOT NULL,
  PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
-- a run that waits for a person; run_id: the one that goes on with it
CREATE TABLE IF NOT EXISTS waits (
  session_id TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
  paused TEXT NOT NULL,
  answers TEXT NOT NULL,
  run_id TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS unseen_messages (
  call_id TEXT PRIMARY KEY,
  created_at REAL NOT NULL,
  messages TEXT NOT NULL
);
"""


class Database(SqliteThread):
    """Runs functions of a connection in the thread that owns it, each in one transaction."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _connect, name="sessions")


def _connect(path: Path) -> sqlite3.Connection:
    try:
        # a power failure may cost the last moments; clients go on from what they have
        db = open_file(path)
        db.execute("PRAGMA foreign_keys = ON")
        db.executescript(SCHEMA)
        if not db.execute(_WITHOUT_USER).fetchone()[0]:
            db.execute(_ADD_USER)
        if not db.execute(_WITHOUT_IMAGES).fetchone()[0]:
            db.execute(_ADD_IMAGES)
        db.execute(_BY_USER)
        # from here on a transaction begins with the first change, and `_run` ends it
        db.isolation_level = "DEFERRED"
    except sqlite3.Error as error:
        raise OrbiterError(
            f"{path} cannot be opened: {error}; does its directory exist and may we write there?"
        ) from error
    return db
