"""The stream of a namespace's events, as others add to it: never beyond its bounds."""

from typing import Any, Final

from redis.asyncio import Redis

from orbiter_contracts import encode
from orbiter_contracts.queues import Keys
from orbiter_contracts.trigger_events import MAX_QUEUED_BYTES, MAX_QUEUED_EVENTS, TriggerEvent

KEPT_SECONDS: Final = 30 * 24 * 60 * 60
"""How long a stream stays that nobody adds to: of a namespace that has no triggers any more."""


class StreamFullError(Exception):
    """There is no room for one more event."""


class EventStream:
    """Adds events to the streams of namespaces.

    What is full is asked before, so that a stream may be over its bounds by as many events as are
    added at a time.

    Args:
        redis: A client for short commands.
        most: How many events of a namespace may wait.
        most_bytes: How many bytes they may take.
    """

    def __init__(
        self, redis: Redis, most: int = MAX_QUEUED_EVENTS, most_bytes: int = MAX_QUEUED_BYTES
    ) -> None:
        self._redis = redis
        self._most = most
        self._most_bytes = most_bytes

    async def add(self, namespace: str, event: TriggerEvent) -> None:
        """Add an event; when this returns Redis has it, as durably as everything else.

        Raises:
            StreamFullError: The namespace has as much as it may.
            RedisError: Redis did not take it.
        """
        stream = Keys.of_namespace(namespace).trigger_events
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.xlen(stream)
            # All of it: by its first few entries alone, small ones would hide large ones.
            pipe.memory_usage(stream, samples=0)
            length, size = await pipe.execute()
        if int(length) >= self._most or int(size or 0) >= self._most_bytes:
            raise StreamFullError(namespace)
        fields: dict[Any, Any] = {**encode(event)}
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.xadd(stream, fields)
            pipe.expire(stream, KEPT_SECONDS)
            await pipe.execute()
