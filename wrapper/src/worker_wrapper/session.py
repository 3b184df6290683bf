"""Which conversation a user's message belongs to: the record `session:user:{user_id}`.

A front end may keep the record; po.py keeps it when none does. A fresh record wins over SESSION_ID,
thirty idle minutes start a new session, and so do `session_continue=false` and a command.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from pydantic import ValidationError
from redis.exceptions import ResponseError

from orbiter_contracts import SessionRecord
from orbiter_contracts.queues import SESSION_TTL_SECONDS, session_record
from worker_wrapper.connection import RedisConnection

IDLE_MINUTES: Final = 30

Rotation = Literal["continued", "first", "idle", "asked"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The session a message belongs to, and why it is that one."""

    record: SessionRecord
    why: Rotation


def choose(
    record: SessionRecord | None,
    *,
    fresh: bool,
    now: datetime,
    worker_id: str,
    first_id: str | None,
    new_id: Callable[[], str],
) -> Choice:
    """Decide which session a message belongs to.

    Args:
        record: The user's record, if there is one.
        fresh: A new session was asked for.
        now: The time.
        worker_id: Us.
        first_id: The id for a user without a record, if there is one for that.
        new_id: Makes an id.
    """

    def new(session_id: str, why: Rotation) -> Choice:
        return Choice(
            SessionRecord(
                session_id=session_id, worker_id=worker_id, created_at=now, last_activity=now
            ),
            why,
        )

    if fresh:
        return new(new_id(), "asked")
    if record is None:
        return new(first_id or new_id(), "first")
    if now - _aware(record.last_activity) > timedelta(minutes=IDLE_MINUTES):
        return new(new_id(), "idle")
    kept = record.model_copy(update={"worker_id": worker_id, "last_activity": now})
    return Choice(kept, "continued")


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
    """The records in Redis. `first_id` (SESSION_ID) starts a user's first record once."""

    def __init__(
        self,
        redis: RedisConnection,
        *,
        worker_id: str,
        first_id: str | None,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
    ) -> None:
        self._redis = redis
        self._worker_id = worker_id
        self._first_id = first_id
        self._clock = clock
        self._new_id = new_id

    async def open(self, user_id: int, *, fresh: bool) -> Choice:
        """Decide which session a message belongs to, and write it down as active now."""
        choice = choose(
            await self._read(user_id),
            fresh=fresh,
            now=self._clock(),
            worker_id=self._worker_id,
            first_id=self._first_id,
            new_id=self._new_id,
        )
        self._first_id = None
        await self._write(user_id, choice.record)
        return choice

    async def touch(self, user_id: int, session_id: str) -> None:
        """Count the end of a turn as activity, unless another session was started meanwhile."""
        record = await self._read(user_id)
        if record is not None and record.session_id == session_id:
            now = self._clock()
            await self._write(user_id, record.model_copy(update={"last_activity": now}))

    async def _read(self, user_id: int) -> SessionRecord | None:
        """The record; one that cannot be understood counts as none."""
        key = session_record(user_id)
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
            *("SET", session_record(user_id), record.model_dump_json()),
            *("EX", SESSION_TTL_SECONDS),
        )


def _aware(moment: datetime) -> datetime:
    """A time without a zone is UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
