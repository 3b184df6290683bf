"""One process for one name: the lease in Redis that a worker holds while it lives.

Two processes of one name are one consumer to Redis: each would find the other's message among its
own and run it too. worker.py takes the lease before anything else and gives it back at the end.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from redis.exceptions import ResponseError

from orbiter_contracts.exit_codes import name_in_use
from orbiter_contracts.lease_scripts import RELEASE, TAKE
from worker_wrapper.logging import Log
from worker_wrapper.queue.connection import TRIES, RedisConnection, RedisUnavailableError
from worker_wrapper.queue.presence import Presence
from worker_wrapper.shutdown import Shutdown

LEASE_SECONDS: Final = 12
"""How long a lease outlives the last word of its holder; less than anybody waits for it."""
RENEW_SECONDS: Final = 4.0
WAIT_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.5
_RELEASE_SECONDS: Final = 3.0


class NameInUseError(Exception):
    """Another process of this worker's name is at work; the text says where and what to do."""


@dataclass(frozen=True, slots=True)
class _Holder:
    token: str
    beat: str
    place: str
    host: str


class Lease:
    """The lease of this worker's name.

    Args:
        redis: The connection it is taken on.
        key: Its key.
        name: What WORKER_ID is, for what people read.
        log: Told what happens.
        presence: How others on this machine see that we live.
        sleep: Waits.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        redis: RedisConnection,
        key: str,
        *,
        name: str,
        log: Log,
        presence: Presence,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._redis = redis
        self._key = key
        self._name = name
        self._log = log
        self._presence = presence
        self._sleep = sleep
        self._clock = clock or asyncio.get_running_loop().time
        self._beat = 0

    async def acquire(self) -> None:
        """Take the lease; wait for a holder that may be dead.

        Raises:
            NameInUseError: The holder renewed it while we waited.
            RedisUnavailableError: Redis is not to be had.
        """
        first = holder = await self._take(self._redis)
        give_up_at = self._clock() + WAIT_SECONDS
        renewed = False
        while first is not None and holder is not None:
            if self._presence.outlived(holder.token, holder.place):
                holder = await self._take(self._redis, instead_of=holder.token)
                continue
            renewed = renewed or (holder.token, holder.beat) != (first.token, first.beat)
            if renewed and self._clock() >= give_up_at:
                raise NameInUseError(self._in_use(holder))
            if holder is first:
                self._log.warning("name_in_use", holder=first.host, waits_seconds=WAIT_SECONDS)
            await self._sleep(_POLL_SECONDS)
            holder = await self._take(self._redis)

    @asynccontextmanager
    async def kept(self, redis: RedisConnection, shutdown: Shutdown) -> AsyncIterator[None]:
        """Renew the lease meanwhile, and give it back at the end.

        Args:
            redis: A connection of its own: the worker's is busy with waiting for messages.
            shutdown: Told when somebody else has the lease.
        """
        keeper = asyncio.create_task(self._keep(redis, shutdown))
        try:
            yield
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            await redis.close()
            await self._release()

    async def _keep(self, redis: RedisConnection, shutdown: Shutdown) -> None:
        away = False
        while True:
            await self._sleep(RENEW_SECONDS)
            try:
                holder = await self._take(redis, tries=1)
            except (RedisUnavailableError, ResponseError) as error:
                # The work goes on: whoever comes meanwhile cannot reach Redis either.
                if not away:
                    self._log.warning("lease_not_renewed", error=str(error))
                away = True
                continue
            away = False
            if holder is not None:
                self._log.error("lease_lost", error=self._in_use(holder))
                shutdown.supersede()
                return

    def _in_use(self, holder: _Holder) -> str:
        return name_in_use(self._name, holder.host)

    async def _release(self) -> None:
        with suppress(RedisUnavailableError, ResponseError, TimeoutError):
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._redis.run(RELEASE, (self._key,), self._presence.token, tries=1)

    async def _take(
        self, redis: RedisConnection, *, instead_of: str = "", tries: int = TRIES
    ) -> _Holder | None:
        """Take or renew it; say who holds it if we do not."""
        self._beat += 1
        reply = await redis.run(
            TAKE,
            (self._key,),
            *(self._presence.token, instead_of, self._beat),
            *(self._presence.place, socket.gethostname(), LEASE_SECONDS),
            tries=tries,
        )
        return _Holder(*reply) if reply else None
