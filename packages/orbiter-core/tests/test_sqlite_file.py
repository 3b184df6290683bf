"""A SQLite file that several processes share is opened with patience, and with an end of it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.sqlite_writer import SqliteWriter

from orbiter.sqlite_file import open_file, write_ahead


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shared.db"


@pytest.fixture
def writer(path: Path) -> Iterator[SqliteWriter]:
    with closing(SqliteWriter(path)) as writer:
        yield writer


def mode(db: sqlite3.Connection) -> str:
    found: str = db.execute("PRAGMA journal_mode").fetchone()[0]
    return found


def test_a_file_is_made_and_write_ahead_logged(path: Path) -> None:
    with closing(open_file(path)) as db:
        assert mode(db) == "wal"
        assert db.isolation_level is None
        assert db.execute("PRAGMA synchronous").fetchone() == (1,)
        assert db.execute("PRAGMA busy_timeout").fetchone() == (5000,)


def test_a_new_file_that_somebody_is_about_to_write_is_waited_for(
    path: Path, writer: SqliteWriter
) -> None:
    """The clock is asked once at the beginning, and then whenever the file was locked."""
    asked = iter([lambda: None, writer.commit])

    def clock() -> float:
        next(asked, lambda: None)()
        return 0.0

    with closing(sqlite3.connect(path, timeout=60.0)) as db:
        write_ahead(db, clock=clock)
        assert mode(db) == "wal"
        assert next(asked, None) is None, "the file was locked at the first try"
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


def test_the_waiting_has_an_end(path: Path, writer: SqliteWriter) -> None:
    with pytest.raises(sqlite3.OperationalError, match="database is locked"):
        open_file(path, patience=0.1)


def test_those_who_come_in_between_again_and_again_are_not_waited_for_without_end(
    path: Path, writer: SqliteWriter
) -> None:
    times = iter([0.0, 0.2])
    locked = pytest.raises(sqlite3.OperationalError, match="database is locked")
    with closing(sqlite3.connect(path, timeout=0.1)) as db, locked:
        write_ahead(db, clock=lambda: next(times))
    assert next(times, None) is None


def test_what_is_no_database_is_said_at_once(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        open_file(path)


def test_a_missing_directory_is_said_at_once(path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        open_file(path.parent / "nowhere" / "shared.db")
