"""Opens SQLite files that several processes share: write-ahead logged, and patient about it.

Write-ahead logging lets readers read while one writes. A new file has to be switched to it, and of
all statements that one does not wait for a writer: it asks for the writers' lock while it holds the
readers', where waiting could be a deadlock, so that `busy_timeout` says nothing about it.
`BEGIN IMMEDIATE` asks for the same lock, and does wait.
"""

import sqlite3
import time
from collections.abc import Callable
from os import PathLike

PATIENCE_SECONDS = 5.0


def open_file(
    path: str | PathLike[str], *, patience: float = PATIENCE_SECONDS
) -> sqlite3.Connection:
    """Open a file that other processes may use at the same time; it is made if there is none.

    Args:
        path: The database file; its directory must exist.
        patience: Seconds that each statement, and this function, waits for a lock of others.

    Returns:
        A connection for any one thread at a time, which begins no transaction by itself.

    Raises:
        sqlite3.Error: It cannot be opened, or others kept it locked for longer than that.
    """
    db = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        write_ahead(db)
        # What was committed survives the process, whatever kills it; a power failure may cost the
        # last moments.
        db.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        db.close()
        raise
    return db


def write_ahead(db: sqlite3.Connection, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Switch a file to write-ahead logging, for good; waits for those who use it meanwhile.

    Args:
        db: A connection without a transaction. Its `busy_timeout` is how long to wait.
        clock: Tells seconds.

    Raises:
        sqlite3.OperationalError: Others kept the file locked for longer than that.
    """
    (patience_ms,) = db.execute("PRAGMA busy_timeout").fetchone()
    deadline = clock() + patience_ms / 1000
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or clock() > deadline:
                raise
        # Somebody may come in between this and the next try, so that one try is not enough.
        db.execute("BEGIN IMMEDIATE")
        db.execute("ROLLBACK")
