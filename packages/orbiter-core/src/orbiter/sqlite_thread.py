"""A SQLite connection with a thread of its own: nothing waits for a lock in the event loop."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class SqliteThread:
    """Runs functions of a connection in the thread that owns it, each in one transaction.

    Attributes:
        path: The file.
    """

    def __init__(
        self, path: Path, connect: Callable[[Path], sqlite3.Connection], *, name: str = "sqlite"
    ) -> None:
        """Open nothing yet.

        Args:
            path: The file.
            connect: Opens it, when it is first used, in the thread. A connection without
                `isolation_level` is one whose functions begin and end transactions themselves.
            name: Of the thread.
        """
        self.path = path
        self._connect = connect
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._connection: sqlite3.Connection | None = None

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` and commit; roll back if it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work)

    async def close(self) -> None:
        """Close the file, behind all that was to be done."""

        def close() -> None:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

        await asyncio.get_running_loop().run_in_executor(self._thread, close)
        self._thread.shutdown()

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._connection is None:
            self._connection = self._connect(self.path)
        with self._connection:
            return work(self._connection)
