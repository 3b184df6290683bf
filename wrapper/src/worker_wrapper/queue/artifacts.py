"""The artifacts of an attempt in Redis: their index, and the small ones where no store has them."""

from collections.abc import Mapping
from typing import Literal

from orbiter_contracts.artifact_scripts import KEEP, keep_keys, keep_words
from orbiter_contracts.queues import Keys
from worker_wrapper.queue.connection import RedisConnection

KeepResult = Literal["kept", "gone", "taken"]
"""`gone`: the attempt is over. `taken`: another process has it."""


class ArtifactRecord:
    """Of one attempt.

    Args:
        redis: The connection.
        keys: The attempt's keys.
        record: Key of its record.
        entry: Id of its entry.
        worker_id: The consumer that holds the entry.
        lease: Key of the lease of that name, and the token we have it with.
        retention_seconds: How long Redis keeps them.
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
        retention_seconds: int,
    ) -> None:
        self._redis = redis
        self._keys = keep_keys(keys, record, lease[0])
        self._words = keep_words(retention_seconds, entry, worker_id, lease[1])

    async def keep(self, fields: Mapping[str, bytes]) -> KeepResult:
        """Write the hash anew.

        Raises:
            RedisUnavailableError: It could not be written.
            ResponseError: Nor will it be later.
        """
        pairs = [word for name, data in fields.items() for word in (name, data)]
        answer: KeepResult = await self._redis.run(KEEP, self._keys, *self._words, *pairs, tries=2)
        return answer
