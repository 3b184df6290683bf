"""The record `session:user:{user_id}` in Redis: read whatever stands there, and written with care.

A front end may keep the record, as JSON or as a hash and with fields of its own. It gets back the
type it chose and every field we do not know; a record it changed between our look and our word
stays as it has it. What is neither JSON object nor hash is somebody else's and left alone: then the
worker goes by its own state (po.py).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from orbiter_contracts import POState, SessionRecord
from orbiter_contracts.queues import SESSION_TTL_SECONDS
from orbiter_contracts.worker_scripts import READ_RECORD, WRITE_RECORD
from worker_wrapper.queue.changes import RecordArguments
from worker_wrapper.queue.connection import RedisConnection

RECORD_BYTES: Final = 64 * 1024
"""A record, or one of a hash's fields, larger than that is not read."""
_ID_CHARACTERS: Final = 200
_FIELDS: Final = tuple(SessionRecord.model_fields)


@dataclass(frozen=True, slots=True)
class Found:
    """What stands in a user's record.

    Attributes:
        record: The record; None when there is none, or it cannot be understood.
        ours: Whether we may write there.
        text: The JSON as it was read; of a hash its session_id; "" for neither.
        others: The JSON's fields that are a front end's own.
    """

    record: SessionRecord | None = None
    ours: bool = True
    text: bytes = b""
    others: dict[str, Any] | None = None

    def record_or_state(self, user_id: int, state: POState, worker_id: str) -> SessionRecord | None:
        """The record; what our own state says where the record is not ours to keep."""
        if self.ours or state.user_id != user_id or not (state.session_id and state.last_activity):
            return self.record
        return SessionRecord(
            session_id=state.session_id,
            worker_id=worker_id,
            created_at=state.last_activity,
            last_activity=state.last_activity,
        )

    def rewritten(self, record: SessionRecord) -> RecordArguments:
        """What WRITE_RECORD needs to put another record in this one's place."""
        own = record.model_dump_json()
        whole = json.dumps({**self.others, **json.loads(own)}) if self.others else own
        return SESSION_TTL_SECONDS, self.text, whole, own


class SessionTable:
    """The records of all users."""

    def __init__(
        self,
        redis: RedisConnection,
        *,
        clock: Callable[[], datetime],
        records: str,
    ) -> None:
        self._redis = redis
        self._records = records
        self._clock = clock

    def key(self, user_id: int) -> str:
        """Where a user's record is."""
        return f"{self._records}{user_id}"

    async def read(self, user_id: int) -> Found:
        """Look at a record; never raises for what stands there."""
        kind, *values = await self._redis.run(
            READ_RECORD, (self.key(user_id),), RECORD_BYTES, *_FIELDS, decode=False
        )
        if kind == b"string":
            return _from_json(values[0])
        if kind == b"hash":
            fields = zip(_FIELDS, values, strict=True)
            known = {name: v.decode("utf-8", "replace") for name, v in fields if v is not None}
            return Found(_record(known), text=values[_FIELDS.index("session_id")] or b"")
        return Found(ours=kind == b"none")

    async def touch(self, user_id: int, session_id: str) -> None:
        """Count the end of a turn as activity, unless another session was started meanwhile."""
        found = await self.read(user_id)
        if not found.ours or found.record is None or found.record.session_id != session_id:
            return
        record = found.record.model_copy(update={"last_activity": self._clock()})
        await self._redis.run(WRITE_RECORD, (self.key(user_id),), *found.rewritten(record))


def _from_json(text: bytes) -> Found:
    try:
        fields = json.loads(text.decode())
        others = {name: value for name, value in fields.items() if name not in _FIELDS}
        json.dumps(others, allow_nan=False)  # 1e999 could not be given back as it was.
    except (ValueError, AttributeError, RecursionError):
        return Found(ours=False)
    return Found(_record(fields), text=text, others=others)


def _record(fields: dict[str, Any]) -> SessionRecord | None:
    try:
        record = SessionRecord.model_validate(fields)
    except (ValidationError, OverflowError):
        return None
    # The id becomes an argument of the agent.
    id_ = record.session_id
    usable = id_.isprintable() and 0 < len(id_) <= _ID_CHARACTERS and not id_.startswith("-")
    return record if usable else None
