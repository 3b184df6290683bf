"""Notice a message for a sleeping session at once, without asking about each session.

A few connections block in XREAD, each over the input streams of a few hundred sessions. A session
is watched from the newest message of the last pass over it, so nothing between pass and watch is
missed. When it has a message it is handed over and no longer watched, until the next pass.

A blocked connection learns of added and removed sessions through CLIENT UNBLOCK. What is missed
all the same (a lost connection, a clock of Redis that went back) the resync repairs.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, NamedTuple, TypeVar, cast

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orbiter_operator.runtime.supervisor import end
from orbiter_operator.streams.reader import own_connection, unblock

log = structlog.get_logger(__name__)
K = TypeVar("K")
SHARD_SIZE = 250
_BLOCK_MS = 10_000
_GATHER_SECONDS = 0.002
_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0


class Watched(NamedTuple):
    """One stream, and the id of the last message that is known."""

    stream: str
    after: str


class Waker(Generic[K]):
    """Watches the input streams of the sessions that sleep.

    Args:
        redis: A client for short commands.
        reader: A client whose timeout is longer than a blocking read.
        woken: Called with a session's key and the id of the message that came.
        shard_size: How many streams one connection watches.
    """

    def __init__(
        self,
        *,
        redis: Redis,
        reader: Redis,
        woken: Callable[[K, str], None],
        shard_size: int = SHARD_SIZE,
    ) -> None:
        self._redis = redis
        self._reader = reader
        self._woken = woken
        self._size = shard_size
        self._shards: list[_Shard[K]] = []
        self._shard_of: dict[K, _Shard[K]] = {}
        self._new = asyncio.Event()

    def __len__(self) -> int:
        return len(self._shard_of)

    def watch(self, key: K, stream: str, after: str) -> None:
        """Have the key handed over at the stream's first message after the id `after`."""
        shard = self._shard_of.get(key)
        if shard is None:
            shard = next((some for some in self._shards if len(some) < self._size), None)
        if shard is None:
            shard = _Shard(self._redis, self._reader, self._came)
            self._shards.append(shard)
            self._new.set()
        self._shard_of[key] = shard
        shard.watch(key, Watched(stream, after))

    def unwatch(self, key: K) -> None:
        """The key is of no interest any more."""
        shard = self._shard_of.pop(key, None)
        if shard is not None:
            shard.unwatch(key)

    async def run(self) -> None:
        """Watch until cancelled, through every failure of Redis."""
        tasks: set[asyncio.Task[None]] = set()
        started = 0
        try:
            while True:
                self._new.clear()
                for shard in self._shards[started:]:
                    tasks |= {_task(shard.read()), _task(shard.interrupt())}
                started = len(self._shards)
                wait = _task(self._new.wait())
                tasks.add(wait)
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done - {wait}:
                    task.result()
        finally:
            await end(tasks)

    def _came(self, key: K, entry: str) -> None:
        self._shard_of.pop(key, None)
        self._woken(key, entry)


class _Shard(Generic[K]):
    """The streams of one connection."""

    def __init__(self, redis: Redis, reader: Redis, came: Callable[[K, str], None]) -> None:
        self._redis = redis
        self._reader = reader
        self._came = came
        self._watched: dict[K, Watched] = {}
        self._changed = asyncio.Event()
        self._stale = False
        self._client: int | None = None

    def __len__(self) -> int:
        return len(self._watched)

    def watch(self, key: K, what: Watched) -> None:
        if self._watched.get(key) != what:
            self._watched[key] = what
            self._change()

    def unwatch(self, key: K) -> None:
        # A stream too many does no harm until the next read: what it has is dropped.
        self._watched.pop(key, None)

    def _change(self) -> None:
        self._stale = True
        self._changed.set()

    async def read(self) -> None:
        """Read for ever."""
        pause = _PAUSE_SECONDS
        while True:
            self._client = None
            try:
                async with own_connection(self._reader) as (connection, self._client):
                    pause = _PAUSE_SECONDS
                    while True:
                        await self._read_once(connection)
            except (RedisError, OSError) as error:
                log.info(
                    "sleeping sessions are not watched", error=f"{type(error).__name__}: {error}"
                )
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def interrupt(self) -> None:
        """End a blocked read that is out of date, for ever."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._changed.clear()
            await unblock(
                self._redis, lambda: self._client if self._stale and self._watched else None
            )

    async def _read_once(self, connection: Redis) -> None:
        while not self._watched:
            self._stale = False
            self._changed.clear()
            await self._changed.wait()
        self._stale = False
        positions: dict[Any, Any] = dict(self._watched.values())
        found = await connection.xread(positions, count=1, block=_BLOCK_MS)
        for stream, entries in cast("list[tuple[str, list[tuple[str, Any]]]]", found or []):
            read = Watched(stream, positions[stream])
            # More than one only while two sessions quarrel about a worker id.
            for key in [key for key, watched in self._watched.items() if watched == read]:
                del self._watched[key]
                self._came(key, entries[0][0])


def _task(part: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.create_task(part)
