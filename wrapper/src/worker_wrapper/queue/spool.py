"""An answer that could not be published, on the session's own disk, until it can be.

Redis was away for longer than a worker waits. The message is still on the queue, and whoever starts
next on this disk finds its answer here and does not ask the agent again. The agent can write here,
so the file is sealed with what it cannot know, the worker's URL of Redis: it is what we wrote, an
answer to that very message, or nothing. With a new password the agent is asked again.
"""

import hmac
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orbiter_contracts import InvalidMessageError, POWorkerOutput, SnapshotReport, decode_json
from worker_wrapper.queue.session_state import Bookkeeping, Snapshot

FILE: Final = Path(".worker-wrapper", "outcome")
_BYTES: Final = 64 * 1024 * 1024
_SEAL_BYTES: Final = 32
_OPEN: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN


class _Head(BaseModel):
    """The first line of the file; the snapshot follows."""

    model_config = ConfigDict(frozen=True)
    entry: str
    output: str
    turn: str = ""
    changes: Annotated[dict[str, str], Field(max_length=100)] = Field(default_factory=dict)
    snapshot_key: str | None = None


class Spooled(NamedTuple):
    """An answer that waits, and all that goes with it."""

    output: POWorkerOutput
    bookkeeping: Bookkeeping
    snapshot: Snapshot | None = None


class Spool:
    """Has room for one answer: a session has one message at a time.

    Args:
        home: HOME, where the agent's conversations are too.
        snapshot_key: Where this worker's snapshots go.
        secret: What the agent does not know, and a worker that is started again does.
    """

    def __init__(self, home: Path, snapshot_key: str | None, secret: str) -> None:
        self._path = home / FILE
        self._secret = secret.encode()
        self._snapshot_key = snapshot_key

    def keep(
        self, entry: str, output: str, kept: Bookkeeping | None, snapshot: Snapshot | None
    ) -> bool:
        """Write an answer down; whether that could be done.

        Args:
            entry: Id of the message's entry.
            output: The answer's JSON.
            kept: What the session's state says afterwards.
            snapshot: What the agent remembers.
        """
        data = snapshot.data if snapshot else None
        head = _Head(
            entry=entry,
            output=output,
            turn=kept.turn if kept else "",
            changes=dict(kept.changes) if kept else {},
            snapshot_key=snapshot.key if snapshot and data else None,
        )
        draft = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.unlink(missing_ok=True)
            with os.fdopen(os.open(draft, _CREATE, 0o600), "wb") as file:
                body = head.model_dump_json().encode() + b"\n" + (data or b"")
                file.write(self._seal(body) + body)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        except OSError:
            return False
        return True

    def read(self, entry: str, request_id: str, user_id: int) -> Spooled | None:
        """The answer to a message, if it is here."""
        try:
            with os.fdopen(os.open(self._path, os.O_RDONLY | _OPEN), "rb") as file:
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode) or about.st_size > _BYTES:
                    return None
                sealed = file.read(_BYTES)
            seal, body = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
            if not hmac.compare_digest(seal, self._seal(body)):
                return None
            line, _, data = body.partition(b"\n")
            head = _Head.model_validate_json(line)
            output = decode_json(POWorkerOutput, head.output)
        except (OSError, ValidationError, InvalidMessageError):
            return None
        if (head.entry, output.request_id, output.user_id) != (entry, request_id, user_id):
            return None
        snapshot = None
        if data and head.snapshot_key == self._snapshot_key and head.snapshot_key:
            report = SnapshotReport(stored=True, bytes=len(data))
            snapshot = Snapshot(head.snapshot_key, data, report)
        return Spooled(output, Bookkeeping(head.changes, head.turn), snapshot)

    def waits(self) -> bool:
        """Whether something is here that may be an answer."""
        return self._path.exists()

    def _seal(self, body: bytes) -> bytes:
        return hmac.digest(self._secret, body, "sha256")

    def clear(self) -> None:
        """Have no answer here."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
