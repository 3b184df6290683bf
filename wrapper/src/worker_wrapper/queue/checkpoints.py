"""The checkpoints of an attempt in Redis: the newest in its record, the parts of two beside it.

checkpoint/ says what is kept and when. What is too large for Redis is kept nowhere.
"""

from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from orbiter_contracts import Checkpoint, read_checkpoint
from orbiter_contracts.checkpoint_scripts import (
    READ,
    RECORD_PART,
    SAVE,
    SESSION_PART,
    WORKSPACE_PART,
    part,
)
from orbiter_contracts.checkpoints import (
    CHECKPOINT_FIELD,
    MAX_CHECKPOINT_JSON_BYTES,
    MAX_PARTS_BYTES,
    SUM_BYTES,
)
from orbiter_contracts.queues import DEVELOPER_GROUP, Keys, checkpoint_of
from orbiter_contracts.scripts import ATTEMPT_TTL_SECONDS
from worker_wrapper.queue.connection import RedisConnection
from worker_wrapper.queue.lifecycle import Lifecycle

SaveResult = Literal["saved", "gone", "taken", "stale"]
"""`gone`: the attempt is over. `taken`: another process has it. `stale`: it has a newer one."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A checkpoint with its parts; b"" for one that it does not have."""

    checkpoint: Checkpoint
    session: bytes = b""
    workspace: bytes = b""


class DamagedError(Exception):
    """A checkpoint is not as it was written; the text says what of it."""


class Checkpoints:
    """Of one attempt.

    Args:
        redis: The connection.
        keys: The attempt's keys.
        record: Key of its record.
        entry: Id of its entry.
        worker_id: The consumer that holds the entry.
        lease: Key of the lease of that name, and the token we have it with.
        lifecycle: Makes the event that tells of one.
        routing: `<namespace>/<name>` of the AgentTask, and the attempt's number.
    """

    def __init__(
        self,
        redis: RedisConnection,
        keys: Keys,
        *,
        record: str,
        entry: str,
        worker_id: str,
        lease: tuple[str, str],
        lifecycle: Lifecycle,
        routing: tuple[str, int],
    ) -> None:
        self._redis = redis
        self._keys = (record, checkpoint_of(record), keys.developer_input, keys.lifecycle, lease[0])
        self._who = (ATTEMPT_TTL_SECONDS, entry, DEVELOPER_GROUP, worker_id, lease[1])
        self._record = record
        self._lifecycle = lifecycle
        self._routing = routing

    async def newest(self) -> Checkpoint | None:
        """What the record says; None when it says nothing.

        Raises:
            DamagedError: What it says is no checkpoint.
        """
        text = await self._field(self._record, CHECKPOINT_FIELD, MAX_CHECKPOINT_JSON_BYTES)
        found = read_checkpoint(text)
        if text and found is None:
            raise DamagedError("what the attempt's record says is no checkpoint")
        return found

    async def discard(self) -> None:
        """Take what is no checkpoint out of the record, where it would be taken for a later one."""
        await self._redis.call("HSET", self._record, CHECKPOINT_FIELD, "")

    async def parts(self, checkpoint: Checkpoint) -> Stored:
        """A checkpoint's parts.

        Raises:
            DamagedError: They are not as they were written, or not there.
        """
        session = await self._part(checkpoint, SESSION_PART)
        workspace = await self._part(checkpoint, WORKSPACE_PART)
        for there, name, data in (
            (checkpoint.session, SESSION_PART, session),
            (checkpoint.workspace == "Stored", WORKSPACE_PART, workspace),
        ):
            if there and not data:
                raise DamagedError(f"its {name} is missing")
        return Stored(checkpoint, session, workspace)

    async def earlier(self, newest: Checkpoint) -> Checkpoint | None:
        """The one before the newest, if its parts are still there."""
        parts = checkpoint_of(self._record)
        for generation in range(newest.generation - 1, max(newest.generation - 4, 0), -1):
            field = part(generation, RECORD_PART)
            with suppress(DamagedError):
                text = await self._field(parts, field, MAX_CHECKPOINT_JSON_BYTES)
                if (found := read_checkpoint(text)) and found.generation == generation:
                    return found
        return None

    async def save(self, stored: Stored, *, beside: int) -> SaveResult:
        """Write one, and tell of it.

        Args:
            stored: The checkpoint.
            beside: The generation that is kept beside it.

        Raises:
            RedisUnavailableError: It could not be written.
        """
        checkpoint = stored.checkpoint
        session, workspace = _sealed(stored.session), _sealed(stored.workspace)
        event = self._lifecycle.event("checkpointed", checkpoint.model_dump(mode="json"))
        answer: SaveResult = await self._redis.run(
            SAVE,
            self._keys,
            *(*self._who, checkpoint.generation, beside),
            *(checkpoint.model_dump_json(), event.model_dump_json(), *self._routing),
            *(session, workspace),
            tries=2,
        )
        return answer

    async def _part(self, checkpoint: Checkpoint, name: str) -> bytes:
        field = part(checkpoint.generation, name)
        sealed = await self._field(checkpoint_of(self._record), field, MAX_PARTS_BYTES)
        return _unsealed(sealed or b"", name)

    async def _field(self, key: str, field: str, most: int) -> bytes | None:
        """A field, whose size is looked at before it leaves Redis.

        Raises:
            DamagedError: The key is of another kind, or the field has more than `most` bytes.
        """
        size, value = await self._redis.run(READ, (key,), field, most, decode=False)
        if size < 0:
            raise DamagedError(f"the key of its {field} is of another kind")
        if size > most:
            raise DamagedError(f"its {field} has {size} bytes, and {most} are the most")
        return value or None


def _sealed(data: bytes) -> bytes:
    """A part with its sum in front: half of one, or one bit, must not become an agent's work."""
    return sha256(data).digest() + data if data else b""


def _unsealed(sealed: bytes, name: str) -> bytes:
    data = sealed[SUM_BYTES:]
    if sealed and sha256(data).digest() != sealed[:SUM_BYTES]:
        raise DamagedError(f"its {name} is damaged")
    return data
