"""What agents of the cluster say and do, for any number of viewers at once.

Each transcript that somebody looks at is read by one reader, however many look; what it has read
is given to all of them, and to who comes later. Nothing is told twice, and what is missing is said
by a `cut` event: a viewer that comes back goes on behind the last event that it has seen.
"""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.redis_access import Access, connected

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

    from orbiter_contracts.transcript import AnyEvent
    from orbiter_contracts.transcript_reading import TranscriptReader

logger = logging.getLogger("orbiter.server")
MOST_BYTES = 1024 * 1024
"""Of one transcript, as it lies in memory, while somebody looks: all that Redis has of it."""
_BESIDE_TEXT = 100
"""Bytes of an event's number, and of the pair that the two are."""
BATCH_CHARACTERS = 64 * 1024
"""Of the events that one viewer is given at a time: thousands of them may read slowly."""
MOST_FEEDS = 200
BLOCK_MS = 2000
AGAIN_SECONDS = 1.0
CANCEL_AGAIN_SECONDS = 0.25
Batch = list[tuple[int, str]]
Over = Callable[[], Awaitable[bool]]


class Place(NamedTuple):
    """Which transcript: a stream of Redis, as the readers of a namespace see it."""

    namespace: str
    stream: str


class Transcripts:
    """The transcripts that somebody looks at.

    Args:
        access: Says how those of a namespace are reached; raises a RequestError where they are not.
    """

    def __init__(self, access: Callable[[str], Awaitable[Access]]) -> None:
        self._access = access
        self._feeds: dict[Place, _Feed] = {}

    async def follow(
        self, place: Place, after: int, *, idle: float, over: Over
    ) -> AsyncGenerator[Batch, None]:
        """Yield (`seq`, JSON) of each event behind `after`, live, until the work is over.

        An event's `seq` is its sequence and one, so that 0 is before the first.

        Args:
            place: Which transcript.
            after: The `seq` of the last event that is known.
            idle: Seconds after which a silence is told, by an empty batch.
            over: Whether nothing more will come; asked when all that is there was read.

        Raises:
            RequestError: It cannot be read, or too many are read already.
        """
        feed = self._feeds.get(place)
        if feed is None:
            access = await self._access(place.namespace)
            feed = self._feeds.get(place)
            if feed is None:
                if len(self._feeds) >= MOST_FEEDS:
                    raise RequestError(
                        503, f"{MOST_FEEDS} transcripts are shown: try again later", retry_after=5
                    )
                feed = self._feeds[place] = _Feed(place, access, self._access)
        feed.viewers += 1
        asked = False
        try:
            yield []  # it is there: who asked for it knows now
            while True:
                batch = feed.behind(after)
                if batch:
                    after = batch[-1][0]
                    yield batch
                    continue
                if feed.ended:
                    return
                # at the end of what is there, and after each silence: not at each event
                if feed.read and not asked:
                    asked = True
                    if await over() and not feed.behind(after):
                        return
                elif not await feed.more(idle):
                    asked = False
                    yield []
        finally:
            feed.viewers -= 1
            if not feed.viewers:
                self._feeds.pop(place, None)
                await feed.close()

    async def close(self) -> None:
        """End all of them."""
        feeds, self._feeds = list(self._feeds.values()), {}
        for feed in feeds:
            await feed.close()


class _Feed:
    """One transcript, read from its beginning as far as it is there."""

    def __init__(
        self, place: Place, access: Access, anew: Callable[[str], Awaitable[Access]]
    ) -> None:
        self.viewers = 0
        self.read = False
        self.ended = False
        self._place = place
        self._access = access
        self._anew = anew
        self._events: deque[tuple[int, str]] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._leaving = False
        self._reading = asyncio.create_task(self._run())

    def behind(self, after: int) -> Batch:
        """Return the next events behind one; a `cut` stands for those that are kept no longer."""
        if not self._events or self._events[-1][0] <= after:
            return []
        first, size = self._events[0][0], 0
        batch: Batch = [] if first <= after + 1 else [(first - 1, _cut(after, first))]
        for event in self._events:
            if event[0] > after:
                batch.append(event)
                size += len(event[1])
                if size > BATCH_CHARACTERS:
                    break
        return batch

    async def more(self, seconds: float) -> bool:
        """Wait for something new; False when so many seconds were silent."""
        changed = self._changed
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Read no more."""
        self._leaving = True
        # redis-py may swallow a cancellation that comes as an answer does
        while not self._reading.done():
            self._reading.cancel()
            await asyncio.wait([self._reading], timeout=CANCEL_AGAIN_SECONDS)

    async def _run(self) -> None:
        from redis.exceptions import AuthenticationError, RedisError

        from orbiter_contracts.transcript_reading import TranscriptReader

        reader, position = TranscriptReader(), b"0-0"
        while not (self.ended or self._leaving):
            try:
                async with connected(self._access, BLOCK_MS / 1000) as connection:
                    while not (self.ended or self._leaving):
                        position = await self._next(connection, reader, position)
            except (RedisError, OSError) as error:
                logger.warning("transcript %s: %s", self._place.stream, error)
                if isinstance(error, AuthenticationError):
                    await self._ask_anew()
            except Exception:
                # whatever somebody has written there, or into the Secret, ends nothing
                logger.exception("transcript %s", self._place.stream)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _ask_anew(self) -> None:
        """Passwords are made new now and then."""
        try:
            self._access = await self._anew(self._place.namespace)
        except RequestError as error:
            logger.warning("transcript %s: %s", self._place.stream, error)

    async def _next(
        self, connection: "AbstractConnection", reader: "TranscriptReader", position: bytes
    ) -> bytes:
        from orbiter.server._internal.redis_replies import ENTRIES_AT_ONCE
        from orbiter_contracts.transcript_reading import read_entry

        block = ("BLOCK", BLOCK_MS) if self.read else ()
        await connection.send_command(
            "XREAD", "COUNT", ENTRIES_AT_ONCE, *block, "STREAMS", self._place.stream, position
        )
        reply = await connection.read_response()
        entries = reply[0][1] if reply else ()
        for identity, fields in entries:
            position = identity
            names_and_values = fields or ()
            found = dict(zip(names_and_values[::2], names_and_values[1::2], strict=False))
            for event in reader.take(read_entry(found)):
                self._keep(event)
        self.read = self.read or len(entries) < ENTRIES_AT_ONCE
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        return position

    def _keep(self, event: "AnyEvent") -> None:
        seq = event.sequence + 1
        body = event.model_dump_json(exclude_none=True)
        text = f'{{"seq":{seq},{body[1:]}'
        self._events.append((seq, text))
        self._bytes += _size(text)
        while self._bytes > MOST_BYTES:
            self._bytes -= _size(self._events.popleft()[1])
        # a session's turns each have one: only a task's is the last
        self.ended = event.type == "verdict" and event.attempt > 0


def _size(text: str) -> int:
    """What an event takes: of a text one odd character makes four bytes of each."""
    return sys.getsizeof(text) + _BESIDE_TEXT


def _cut(after: int, first: int) -> str:
    return f'{{"seq":{first - 1},"type":"cut","events":{first - 1 - after},"bytes":0}}'
