"""An input stream as one consumer sees it: joining its group, reading, claiming, recovering.

developer.py and po.py get their entries here; claims.py says what happens to an entry afterwards.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from redis.exceptions import NoPermissionError, ResponseError

from orbiter_contracts import InvalidMessageError, decode
from orbiter_contracts.bounds import MAX_ENTRY_BYTES
from orbiter_contracts.messages import Message
from orbiter_contracts.redis_replies import Cut
from worker_wrapper.queue.connection import RedisConnection, RedisUnavailableError

M = TypeVar("M", bound=Message)

BLOCK_SECONDS: Final = 30.0
"""How long one blocking read waits. A connection that died silently is noticed at its end."""
ABANDONED_SECONDS: Final = 60.0
"""A claim not renewed for so long belongs to a dead consumer."""
_SCANNED: Final = 100


@dataclass(frozen=True, slots=True)
class Entry:
    """A stream entry that was delivered to us.

    Attributes:
        id: Its id.
        fields: Its fields as text; bytes that are not UTF-8 as `surrogateescape` has them.
        deliveries: How often it was delivered to anybody.
        whole: Whether the fields are all there; of an entry that is too large they are not.
    """

    id: str
    fields: Mapping[str, str]
    deliveries: int = 1
    whole: bool = True

    def message(self, kind: type[M]) -> M:
        """Read the message in it; total, like `decode`.

        Raises:
            InvalidMessageError: There is none of that kind in it.
        """
        if not self.whole:
            raise InvalidMessageError(
                f"{kind.__name__}: the entry is too large, it has more than {MAX_ENTRY_BYTES} bytes"
            )
        return decode(kind, self.fields)


class InputStream:
    """A stream, its consumer group, and this worker as a consumer of it.

    Args:
        redis: The connection.
        key: The stream.
        group: Its consumer group.
        consumer: This worker's name in the group.
        held: Whether to take no new entry now; it may wait a moment before it says yes.
    """

    def __init__(
        self,
        redis: RedisConnection,
        key: str,
        group: str,
        consumer: str,
        *,
        held: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self.redis = redis
        self.key = key
        self.group = group
        self.consumer = consumer
        self._held = held
        self._seen_generation = -1
        self._cursor = "0"
        self._own_pending = True

    async def join(self) -> None:
        """Create the group, at the stream's beginning, unless it exists.

        Where an operator makes users, they may not create any: it makes the groups, too.
        """
        create = ("XGROUP", "CREATE", self.key, self.group, "0", "MKSTREAM")
        refusals = 0
        while True:
            try:
                await self.redis.call(*create, needed=False)
            except NoPermissionError as error:
                if await self._exists():
                    return
                refusals += 1
                await self.redis.wait_for(f"the group {self.group} of {self.key}", refusals, error)
            except ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise
                return
            else:
                return

    async def next(self) -> Entry | None:
        """The next entry for us, or None when none came within BLOCK_SECONDS.

        What was delivered to us earlier and is still unsettled comes first: at start, and after
        every new connection, because a reply may have been lost with the old one. New ones are not
        taken while `held` says so.
        """
        try:
            if entry := await self._own():
                return entry
            if self._held is not None and await self._held():
                return None
            return await self._new()
        except ResponseError as error:
            # The stream was deleted under us, or Redis came back empty.
            if not str(error).startswith(("NOGROUP", "UNBLOCKED")):
                raise
            await self.join()
            return None

    async def held_before(self, entry_id: str) -> bool:
        """Whether a worker of our name has taken the entry before, and not settled it."""
        try:
            pending = await self.redis.call(
                "XPENDING", self.key, self.group, entry_id, entry_id, 1, self.consumer
            )
        except ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
            return False
        return bool(pending)

    async def claim(self, entry_id: str) -> Entry | None:
        """Take one entry, delivered or not, whoever holds it; None when it no longer exists."""
        reply = await self.redis.call(
            "XCLAIM", self.key, self.group, self.consumer, 0, entry_id, "FORCE"
        )
        return _entry(reply[0]) if reply and reply[0] else None

    async def abandoned(self) -> AsyncIterator[Entry]:
        """Find entries whose consumer has not renewed its claim for ABANDONED_SECONDS.

        Yields:
            Each such entry. Nothing is claimed yet.
        """
        idle, start = int(ABANDONED_SECONDS * 1000), "-"
        while pending := await self.redis.call(
            "XPENDING", self.key, self.group, "IDLE", idle, start, "+", _SCANNED
        ):
            for entry_id, _, _, deliveries in pending:
                reply = await self.redis.call("XRANGE", self.key, entry_id, entry_id)
                if reply:
                    yield _entry(reply[0], deliveries)
                else:
                    await self.redis.call("XACK", self.key, self.group, entry_id)
            if len(pending) < _SCANNED:
                return  # nothing can be after the largest id, and Redis refuses to look
            start = f"({pending[-1][0]}"

    async def take_over(self, entry: Entry) -> Entry | None:
        """Claim an abandoned entry; None when another consumer was quicker."""
        idle = int(ABANDONED_SECONDS * 1000)
        reply = await self.redis.call("XCLAIM", self.key, self.group, self.consumer, idle, entry.id)
        return replace(entry, deliveries=entry.deliveries + 1) if reply else None

    async def leave(self) -> None:
        """Take this consumer off the group's list unless it still holds something.

        Jobs come and go, so the list would grow for ever. A name that stays on it harms nobody,
        so this gives up early.
        """
        with suppress(RedisUnavailableError, ResponseError):
            held = await self.redis.call(
                *("XPENDING", self.key, self.group, "-", "+", 1, self.consumer), tries=2
            )
            if not held:
                await self.redis.call(
                    *("XGROUP", "DELCONSUMER", self.key, self.group, self.consumer), tries=2
                )

    async def _exists(self) -> bool:
        try:
            await self.redis.call("XPENDING", self.key, self.group)
        except ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
            return False
        return True

    async def _own(self) -> Entry | None:
        if self._lost_touch():
            self._cursor, self._own_pending = "0", True
        while self._own_pending:
            reply = await self._read(self._cursor)
            self._seen_generation = self.redis.generation
            if not reply:
                self._own_pending = False
                return None
            self._cursor = reply[0][0]
            if reply[0][1]:
                return _entry(reply[0], await self._deliveries(self._cursor))
            await self.redis.call("XACK", self.key, self.group, self._cursor)
        return None

    async def _new(self) -> Entry | None:
        reply = await self._read(">", block_seconds=BLOCK_SECONDS, generation=self._seen_generation)
        return _entry(reply[0]) if reply else None

    async def _read(
        self, after: str, *, block_seconds: float = 0, generation: int | None = None
    ) -> list[Any]:
        block = ("BLOCK", int(block_seconds * 1000)) if block_seconds else ()
        command = ("XREADGROUP", "GROUP", self.group, self.consumer, "COUNT", 1, *block)
        reply = await self.redis.call(
            *command, "STREAMS", self.key, after, block_seconds=block_seconds, generation=generation
        )
        return list(reply[0][1]) if reply else []

    async def _deliveries(self, entry_id: str) -> int:
        pending = await self.redis.call("XPENDING", self.key, self.group, entry_id, entry_id, 1)
        return int(pending[0][3]) if pending else 1

    def _lost_touch(self) -> bool:
        return self._seen_generation != self.redis.generation


def _entry(raw: list[Any], deliveries: int = 1) -> Entry:
    entry_id, flat = raw
    texts = [_text(text) for text in flat]
    whole = not any(isinstance(text, Cut) for text in flat)
    return Entry(
        entry_id, dict(zip(texts[::2], texts[1::2], strict=whole)), int(deliveries), whole=whole
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
