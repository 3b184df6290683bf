"""Which conversation a user's message belongs to: the record `session:user:{user_id}`.

A front end may keep the record; po.py keeps it when none does. A fresh record wins over SESSION_ID.
rotation.py adds the reasons for a new session that lie in the conversation itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError
from redis.exceptions import ResponseError

from orbiter_contracts import RotationReason, SessionRecord
from orbiter_contracts.queues import SESSION_RECORDS, SESSION_TTL_SECONDS, session_record
from worker_wrapper.connection import RedisConnection


@dataclass(frozen=True, slots=True)
class Choice:
    """The session a message belongs to.

    Attributes:
        record: The user's record as it has to be now.
        reason: Why it is another session than before; None when it is not, or there was none.
        previous: The session before, if there was one.
    """

    record: SessionRecord
    reason: RotationReason | None = None
    previous: str | None = None

    def renewed(self, new_id: str, reason: RotationReason) -> "Choice":
        """A new session instead."""
        now = self.record.last_activity
        record = self.record.model_copy(update={"session_id": new_id, "created_at": now})
        return replace(self, record=record, reason=reason, previous=self.record.session_id)


def choose(
    record: SessionRecord | None,
    *,
    asked: RotationReason | None,
    now: datetime,
    idle_seconds: float,
    worker_id: str,
    previous: str | None,
    first_id: str | None,
    new_id: str,
) -> Choice:
    """Decide which session a message belongs to (seeds/001 §6.3).

    Args:
        record: The user's record, if there is one.
        asked: Why a new session was asked for, if it was.
        now: The time.
        idle_seconds: After so long a new session begins by itself.
        worker_id: Us.
        previous: Session of the user's message before this one, if there was one.
        first_id: The id for a user's very first session, if there is one for that.
        new_id: The id of a session that begins with this very message. Always the same for the
            same message: one that is delivered again after a crash does not begin a session twice.
    """

    def new(session_id: str, reason: RotationReason | None) -> Choice:
        fresh = SessionRecord(
            session_id=session_id, worker_id=worker_id, created_at=now, last_activity=now
        )
        return Choice(fresh, reason if previous else None, previous)

    if record is None:
        if previous == new_id:
            return new(new_id, None)
        reason: RotationReason = asked or "Idle"
        return new(new_id if asked or previous else first_id or new_id, reason)
    kept = record.model_copy(update={"worker_id": worker_id, "last_activity": now})
    if record.session_id == new_id:
        return Choice(kept, None, previous)
    if previous is None:
        previous = record.session_id
    if asked:
        return new(new_id, asked)
    if now - _aware(record.last_activity) > timedelta(seconds=idle_seconds):
        return new(new_id, "Idle")
    return Choice(kept, "Record" if record.session_id != previous else None, previous)


def split_command(prompt: str, commands: tuple[str, ...]) -> tuple[bool, str]:
    """Tell whether a prompt starts with one of our commands, and what is left of it.

    >>> split_command("/new fix the login", ("/new",))
    (True, 'fix the login')
    """
    first, _, rest = prompt.strip().partition("\n")
    word, _, after = first.partition(" ")
    if word not in commands:
        return False, prompt
    return True, f"{after}\n{rest}".strip()


class SessionTable:
    """The records in Redis."""

    def __init__(
        self,
        redis: RedisConnection,
        *,
        clock: Callable[[], datetime],
        records: str = SESSION_RECORDS,
    ) -> None:
        self._redis = redis
        self._records = records
        self._clock = clock

    async def touch(self, user_id: int, session_id: str) -> None:
        """Count the end of a turn as activity, unless another session was started meanwhile."""
        record = await self.read(user_id)
        if record is not None and record.session_id == session_id:
            now = self._clock()
            await self._write(user_id, record.model_copy(update={"last_activity": now}))

    async def read(self, user_id: int) -> SessionRecord | None:
        """The record; one that cannot be understood counts as none."""
        key = session_record(user_id, self._records)
        try:
            text = await self._redis.call("GET", key)
            return SessionRecord.model_validate_json(text) if text else None
        except ValidationError:
            return None
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
        return await self._read_hash(key)

    async def _read_hash(self, key: str) -> SessionRecord | None:
        try:
            flat = await self._redis.call("HGETALL", key)
            return SessionRecord.model_validate(dict(zip(flat[::2], flat[1::2], strict=True)))
        except (ValidationError, ResponseError):
            return None

    async def _write(self, user_id: int, record: SessionRecord) -> None:
        await self._redis.call(
            *("SET", session_record(user_id, self._records), record.model_dump_json()),
            *("EX", SESSION_TTL_SECONDS),
        )


def _aware(moment: datetime) -> datetime:
    """A time without a zone is UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
