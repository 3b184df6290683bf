"""Put aside what nobody can use: a copy with its reason, acknowledged, counted."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import structlog
from redis.asyncio import Redis

from orbiter_contracts import InvalidMessageError, excerpt
from orbiter_contracts.queues import REASON_FIELD, dead_letter
from orbiter_operator.streams import Entry

log = structlog.get_logger(__name__)
KEPT_BYTES = 64 * 1024
"""How much of an entry is kept in its dead letter: there may be ten thousand of them."""
_KEPT_FIELDS = 100
_LETTERS = 10_000


class DeadLetters:
    """The dead letters of the streams that the operator reads.

    Args:
        redis: A client whose texts carry any bytes (`connect`).
        count: Called with the stream for each of them.
    """

    def __init__(self, redis: Redis, count: Callable[[str], None]) -> None:
        self._redis = redis
        self._count = count

    async def bury(
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
        kept = dict(_kept(entry.fields))
        if cut := [name for name in entry.fields if kept.get(name) != _raw(entry.fields[name])]:
            reason = f"{reason} (cut here: {', '.join(map(excerpt, cut[:3]))})"
        self._count(stream)
        log.warning("dead letter", stream=stream, entry=entry.id, reason=reason)
        letter: dict[Any, Any] = {**kept, REASON_FIELD: reason}
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.xadd(dead_letter(stream), letter, maxlen=_LETTERS)
            pipe.xack(stream, group, entry.id)
            if remove or not entry.whole:
                pipe.xdel(stream, entry.id)
            await pipe.execute()


def why(error: Exception) -> str:
    """Why an entry cannot be used, in one printable line."""
    if isinstance(error, InvalidMessageError):
        return str(error)
    return f"it could not be handled: {type(error).__name__}: {excerpt(str(error))}"


def _kept(fields: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    left = KEPT_BYTES
    for name, value in list(fields.items())[:_KEPT_FIELDS]:
        if name != REASON_FIELD and len(_raw(name)) <= left:
            left -= len(_raw(name))
            kept = _raw(value)[:left]
            left -= len(kept)
            yield name, kept


def _raw(text: str) -> bytes:
    """The bytes that a text was in Redis."""
    return text.encode("utf-8", "surrogateescape")
