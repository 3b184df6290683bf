"""The lock of a run that is kept in a file: held by one, gone with its process."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from orbiter.errors import JournalError, RunBusyError

LONGEST_OWNER = 20


class RunLock:
    """Holds a run's lock until it is released.

    The lock is a file beside the store's. A process that is killed leaves it behind, unlocked.
    """

    def __init__(self, store: Path, run_id: str) -> None:
        """Take the lock.

        Raises:
            RunBusyError: Another has it.
            JournalError: There can be no such file.
        """
        digest = hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()
        # one file has one lock, whichever links lead to it
        real = Path(os.path.realpath(store))
        self.path = real.with_name(f"{real.name}-run-{digest[:24]}")
        try:
            import fcntl
        except ImportError as error:
            raise JournalError("runs in a file need flock, which this system has not") from error
        while True:
            try:
                self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            except OSError as error:
                raise JournalError(
                    f"{self.path}: {error}; does its directory exist and may we write there?"
                ) from error
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(self._file, LONGEST_OWNER, 0)
                os.close(self._file)
                where = f"process {int(owner)}" if owner.isdigit() else "another process"
                raise RunBusyError(run_id, where) from None
            except OSError as error:
                os.close(self._file)
                raise JournalError(f"{self.path} cannot be locked: {error}") from error
            if self._is_there():
                break
            # whoever had it removed it between our opening and locking it
            os.close(self._file)
        with suppress(OSError):
            # on a full disk nobody is told whose it is, and it is held all the same
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def _is_there(self) -> bool:
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False
        ours = os.fstat(self._file)
        return (there.st_ino, there.st_dev) == (ours.st_ino, ours.st_dev)

    def release(self) -> None:
        """Let others have it."""
        with suppress(OSError):
            self.path.unlink()
        os.close(self._file)
