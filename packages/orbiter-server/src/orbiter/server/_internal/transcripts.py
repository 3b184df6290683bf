"""What agents of the cluster say and do, for any number of viewers at once.

Each transcript that somebody looks at is read by one reader, however many look; what it has read
is given to all of them, and to who comes later. Nothing is told twice, and what is missing is said
by a `cut` event: a viewer that comes back goes on behind the last event that it has seen.
"""

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from orbiter.server._internal.batches import Batch, begin_of, cut_between, size_of
from orbiter.server._internal.errors import RequestError, logged
from orbiter.server._internal.pace import Pace
from orbiter.server._internal.redis_access import Access, connected

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

    from orbiter_contracts.transcript import AnyEvent
    from orbiter_contracts.transcript_reading import TranscriptReader

logger = logging.getLogger("orbiter.server")
MOST_BYTES = 1024 * 1024
"""Of one transcript, as it lies in memory, while somebody looks: all that Redis has of it."""
MOST_FEEDS = 200
OF_A_PERSON = 50
"""Of these, so that nobody keeps all others from looking."""
BLOCK_MS = 2000
AGAIN_SECONDS = 1.0
CANCEL_AGAIN_SECONDS = 0.25
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
        self._paces = defaultdict[str, Pace](Pace)

    async def follow(
        self, place: Place, after: int, *, idle: float, over: Over, by: str | None = None
    ) -> AsyncGenerator[Batch, None]:
        """Yield (`seq`, JSON) of each event behind `after`, live, until the work is over.

        An event's `seq` is its sequence and one, so that 0 is before the first.

        Args:
            place: Which transcript.
            after: The `seq` of the last event that is known.
            idle: Seconds after which a silence is told, by an empty batch.
            over: Whether nothing more will come; asked when all that is there was read.
            by: Whose request it is; None is nobody's in particular.

        Raises:
            RequestError: It cannot be read, or too many are read already.
        """
        if place not in self._feeds:
            access = await self._access(place.namespace)
            if place not in self._feeds:
                self._require_room(by)
                pace = self._paces[place.namespace]
                self._feeds[place] = _Feed(place, access, self._access, pace)
        feed = self._feeds[place]
        feed.viewers[by] += 1
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
            feed.viewers -= Counter([by])
            if not feed.viewers:
                self._feeds.pop(place, None)
                await feed.close()

    def _require_room(self, by: str | None) -> None:
        if len(self._feeds) >= MOST_FEEDS:
            raise RequestError(
                503, f"{MOST_FEEDS} transcripts are shown: try again later", retry_after=5
            )
        theirs = sum(by in feed.viewers for feed in self._feeds.values())
        if by is not None and theirs >= OF_A_PERSON:
            raise RequestError(
                429, f"{by} looks at {theirs} transcripts: close some", retry_after=5
            )

    async def close(self) -> None:
        """End all of them."""
        feeds, self._feeds = list(self._feeds.values()), {}
        for feed in feeds:
            await feed.close()


class _Feed:
    """One transcript, read from its beginning as far as it is there."""

    def __init__(
        self,
        place: Place,
        access: Access,
        anew: Callable[[str], Awaitable[Access]],
        pace: Pace | None = None,
    ) -> None:
        self._pace = pace or Pace()
        self.viewers = Counter[str | None]()
        self.read = False
        self.ended = False
        self._verdict = False
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
        first = self._events[0][0]
        if first <= after + 1:
            return begin_of([event for event in self._events if event[0] > after])
        return begin_of([(first - 1, cut_between(after, first)), *self._events])

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
                logger.warning("transcript %s: %s", self._place.stream, logged(error))
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
            logger.warning("transcript %s: %s", self._place.stream, logged(error))

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
        entries, size = reply[0][1] if reply else (), 0
        for identity, fields in entries:
            position = identity
            names_and_values = fields or ()
            size += sum(map(len, names_and_values))
            found = dict(zip(names_and_values[::2], names_and_values[1::2], strict=False))
            for event in reader.take(read_entry(found)):
                self._keep(event)
        at_end = len(entries) < ENTRIES_AT_ONCE
        self.read = self.read or at_end
        # in the middle of what is there it was not the last: the attempt has gone on
        self.ended = at_end and self._verdict
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        await asyncio.sleep(self._pace.after(size))
        return position

    def _keep(self, event: "AnyEvent") -> None:
        seq = event.sequence + 1
        body = event.model_dump_json(exclude_none=True)
        text = f'{{"seq":{seq},{body[1:]}'
        self._events.append((seq, text))
        self._bytes += size_of(text)
        while self._bytes > MOST_BYTES:
            self._bytes -= size_of(self._events.popleft()[1])
        # a session's turns each have one: only a task's is the last
        self._verdict = event.type == "verdict" and event.attempt > 0
