"""Another process that is in the middle of a write transaction of a SQLite file."""

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("writing", flush=True)
sys.stdin.readline()
db.execute("CREATE TABLE theirs (id)")
db.execute("COMMIT")
db.close()
"""


class SqliteWriter:
    """A process that writes from when it is made until `commit`."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "writing\n"

    def commit(self) -> None:
        """Let it commit, and wait until it has."""
        self._process.communicate("\n", timeout=60)
        assert self._process.returncode == 0

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.communicate()
