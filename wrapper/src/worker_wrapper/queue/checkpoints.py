"""The checkpoints of an attempt in Redis: the newest in its record, the parts of two beside it.

checkpoint/ says what is kept and when. What is too large for Redis goes into a `CheckpointStore`,
where an installation has one.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, Protocol

from redis.exceptions import ResponseError

from orbiter_contracts import Checkpoint, read_checkpoint
from orbiter_contracts.checkpoint_scripts import (
    RECORD_PART,
    SAVE,
    SESSION_PART,
    WORKSPACE_PART,
    part,
)
from orbiter_contracts.checkpoints import CHECKPOINT_FIELD
from orbiter_contracts.queues import DEVELOPER_GROUP, Keys, checkpoint_of
from orbiter_contracts.scripts import ATTEMPT_TTL_SECONDS
from worker_wrapper.queue.connection import RedisConnection
from worker_wrapper.queue.lifecycle import Lifecycle

_SUM_BYTES: Final = 32
SaveResult = Literal["saved", "gone", "taken", "stale"]
"""`gone`: the attempt is over. `taken`: another process has it. `stale`: it has a newer one."""


class CheckpointStore(Protocol):
    """Where the parts are that are too large for Redis."""

    async def put(self, name: str, data: bytes) -> None:
        """Store a part; whole, or not at all.

        Raises:
            OSError: It could not be stored.
        """

    async def get(self, name: str) -> bytes:
        """Read a part.

        Raises:
            OSError: It cannot be had.
        """


@dataclass(frozen=True, slots=True)
class Stored:
    """A checkpoint with its parts; b"" for one that it does not have."""

    checkpoint: Checkpoint
    session: bytes = b""
    workspace: bytes = b""


class DamagedError(Exception):
    """The parts of a checkpoint are not as they were written; the text says which."""


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
        store: For parts that are too large for Redis.
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
        store: CheckpointStore | None = None,
    ) -> None:
        self._redis = redis
        self._keys = (record, checkpoint_of(record), keys.developer_input, keys.lifecycle, lease[0])
        self._who = (ATTEMPT_TTL_SECONDS, entry, DEVELOPER_GROUP, worker_id, lease[1])
        self._record = record
        self._lifecycle = lifecycle
        self._routing = routing
        self.store = store

    async def newest(self) -> Checkpoint | None:
        """What the record says."""
        return read_checkpoint(await self._field(self._record, CHECKPOINT_FIELD))

    async def parts(self, checkpoint: Checkpoint) -> Stored:
        """A checkpoint's parts.

        Raises:
            DamagedError: They are not as they were written, or not there.
            OSError: The store cannot give them.
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
            text = await self._field(parts, part(generation, RECORD_PART))
            if found := read_checkpoint(text):
                return found
        return None

    async def save(self, stored: Stored, *, beside: int) -> SaveResult:
        """Write one, and tell of it.

        Args:
            stored: The checkpoint.
            beside: The generation that is kept beside it.

        Raises:
            RedisUnavailableError: It could not be written.
            OSError: Nor could it be put into the store.
        """
        checkpoint = stored.checkpoint
        session, workspace = _sealed(stored.session), _sealed(stored.workspace)
        if checkpoint.place == "store" and self.store is not None:
            await self.store.put(self._name(checkpoint, SESSION_PART), session)
            await self.store.put(self._name(checkpoint, WORKSPACE_PART), workspace)
            session = workspace = b""
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
        if checkpoint.place == "store":
            if self.store is None:
                raise OSError("it is in a store that this worker was not told of")
            return _unsealed(await self.store.get(self._name(checkpoint, name)), name)
        field = part(checkpoint.generation, name)
        return _unsealed(await self._field(checkpoint_of(self._record), field) or b"", name)

    async def _field(self, key: str, field: str) -> bytes | None:
        try:
            value: bytes | None = await self._redis.call("HGET", key, field, decode=False)
        except ResponseError:  # A key of another kind.
            return None
        return value

    def _name(self, checkpoint: Checkpoint, name: str) -> str:
        return f"{self._record}/{checkpoint.generation}/{name}"


def _sealed(data: bytes) -> bytes:
    """A part with its sum in front: half of one, or one bit, must not become an agent's work."""
    return sha256(data).digest() + data if data else b""


def _unsealed(sealed: bytes, name: str) -> bytes:
    data = sealed[_SUM_BYTES:]
    if sealed and sha256(data).digest() != sealed[:_SUM_BYTES]:
        raise DamagedError(f"its {name} is damaged")
    return data
