"""Appends to a transcript in Redis, over a connection of its own: nobody waits behind it."""

from collections.abc import Callable, Sequence
from typing import Final

from redis.exceptions import ResponseError

from orbiter_contracts.transcript import TRANSCRIPT_SECONDS, AnyEvent
from orbiter_contracts.transcript_reading import entry_data
from orbiter_contracts.transcript_scripts import APPEND
from worker_wrapper.queue.connection import RedisConnection, RedisUnavailableError

_ADDED: Final = "added"


class TranscriptStream:
    """The transcript of an attempt, or of a session.

    Its events are numbered here, so those of an earlier pod are gone on from.

    Attributes:
        lost: How many events of earlier turns were not written, and nobody has been told of.

    Args:
        connect: Makes the connection, once there is something to write.
        key: The stream.
        appended: Told what is there, with its numbers.
        expires: Whether its expiry is set with each entry. A worker whose user an operator has made
            has no right to that; the operator sees to it.
    """

    def __init__(
        self,
        connect: Callable[[], RedisConnection],
        key: str,
        *,
        expires: bool,
        appended: Callable[[Sequence[AnyEvent]], None] | None = None,
    ) -> None:
        self._connect = connect
        self._redis: RedisConnection | None = None
        self._key = key
        self._expiry = str(TRANSCRIPT_SECONDS) if expires else ""
        self.lost = self._next = self._total = 0
        self._unsure: Sequence[AnyEvent] | None = None
        self._appended = appended or (lambda events: None)

    async def append(self, events: Sequence[AnyEvent]) -> None:
        """Append some events; unless it is known that they arrived, call it with the same again.

        Raises:
            RedisUnavailableError: Redis is away, or has no memory or no right for it.
            ResponseError: Nor will it take them later.
        """
        self._redis = self._redis or self._connect()
        again = self._unsure is events
        for _ in range(2):
            count, first = len(events), self._next
            numbered = [
                event.model_copy(update={"sequence": first + at}) for at, event in enumerate(events)
            ]
            data = entry_data(numbered)
            words = (data, first, count, self._total, self._expiry)
            self._unsure = events
            try:
                answer, figure = await self._redis.run(APPEND, (self._key,), *words, tries=1)
            except ResponseError:
                self._unsure = None
                raise
            self._unsure = None
            if answer == _ADDED:
                self._next, self._total = first + count, int(figure)
                self._appended(numbered)
                return
            self._next = int(figure)
            if again and self._next == first + count:
                self._appended(numbered)
                return  # They had arrived, and the answer was lost.
        raise RedisUnavailableError(f"another process writes {self._key} at the same time")

    async def close(self) -> None:
        """Close the connection."""
        if self._redis is not None:
            await self._redis.close()
