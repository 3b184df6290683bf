"""Put aside what nobody can use: a copy with its reason, acknowledged, counted."""

from collections.abc import Callable
from typing import Any

import structlog
from redis.asyncio import Redis

from orbiter_contracts import InvalidMessageError, excerpt
from orbiter_contracts.bounds import DEAD_LETTERS_KEPT
from orbiter_contracts.dead_letters import dead_letter_fields
from orbiter_contracts.queues import dead_letter
from orbiter_operator.streams.reader import Entry

log = structlog.get_logger(__name__)


class DeadLetters:
    """The dead letters of the streams that the operator reads.

    Args:
        redis: A client whose texts carry any bytes (`client`).
        count: Called with the stream for each of them.
    """

    def __init__(self, redis: Redis, count: Callable[[str], None]) -> None:
        self._redis = redis
        self._count = count

    async def add(
        self, stream: str, group: str, entry: Entry, error: Exception, *, remove: bool
    ) -> None:
        """Keep an entry with the reason why it cannot be used, and acknowledge it.

        Args:
            stream: Where it was read.
            group: In which group.
            entry: The entry.
            error: What came of reading it.
            remove: Whether to take it off the stream. One too large always goes.
        """
        reason = why(error)
        self._count(stream)
        log.warning("dead letter", stream=stream, entry=entry.id, reason=reason)
        fields: dict[Any, Any] = {**dead_letter_fields(entry.fields, reason)}
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.xadd(dead_letter(stream), fields, maxlen=DEAD_LETTERS_KEPT, approximate=False)
            pipe.xack(stream, group, entry.id)
            if remove or not entry.whole:
                pipe.xdel(stream, entry.id)
            await pipe.execute()


def why(error: Exception) -> str:
    """Why an entry cannot be used, in one printable line."""
    if isinstance(error, InvalidMessageError):
        return str(error)
    return f"it could not be handled: {type(error).__name__}: {excerpt(str(error))}"
