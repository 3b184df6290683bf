"""The wrapper's one connection to Redis, which outlives Redis restarts and frozen containers.

Everything that talks to Redis (streams.py, claims.py, lifecycle.py, session/record.py) does it
through `RedisConnection.call`. It retries with exponential backoff and jitter and gives up after
five failed tries in a row, ten behind Sentinels, or when nobody insists any more; so every caller
must be content with "at least once".
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    ClusterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from orbiter_contracts.redis_connection import connection_to
from orbiter_contracts.redis_replies import BoundedParser
from orbiter_contracts.redis_url import read_redis_url
from orbiter_contracts.scripts import Script
from worker_wrapper.logging import Log
from worker_wrapper.queue.refusals import explain, missing

TRIES: Final = 5
"""Failed tries in a row after which Redis counts as gone."""
SENTINEL_TRIES: Final = 10
"""Behind Sentinels, which take half a minute to believe that a primary is gone unless they are told
otherwise: with delays of 13.5 s from the fourth on they have more than a minute."""
FIRST_DELAY_SECONDS: Final = 0.5
DELAY_GROWTH: Final = 3.0
"""Delays of 0.5, 1.5, 4.5 and 13.5 s, give or take a fifth: a restart of 15 s is survived."""
LONGEST_DELAY_SECONDS: Final = 13.5
JITTER: Final = 0.2
_UNTIL_GRANTED: Final = 3
"""Pauses no longer than after so many failures while a user, a right or a function is missing."""
CONNECT_SECONDS: Final = 5.0
REPLY_SECONDS: Final = 10.0

_PASSING: Final = (ReadOnlyError, OutOfMemoryError, ClusterDownError, TryAgainError)
_PASSING_CODES: Final = ("MISCONF", "NOREPLICAS", "BUSY ")
_OUT_OF_IDS: Final = "exhausted the last possible ID"
"""Somebody has used up a stream's ids; the operator mends that within seconds."""
_TROUBLE: Final = (OSError, EOFError, TimeoutError, RedisConnectionError, RedisTimeoutError)


class RedisUnavailableError(Exception):
    """Redis cannot be used; the text says which, why and what to do."""


def delay_after(failures: int, luck: float) -> float:
    """Seconds to wait after that many failures in a row; `luck` in [0, 1) spreads them."""
    growth = DELAY_GROWTH ** min(failures - 1, TRIES)
    delay = min(FIRST_DELAY_SECONDS * growth, LONGEST_DELAY_SECONDS)
    return float(delay * (1 - JITTER + 2 * JITTER * luck))


def _never() -> bool:
    return False


def _may_pass(error: Exception) -> bool:
    """Whether trying again later, unchanged, can mend it."""
    text = str(error)
    return isinstance(error, _PASSING) or text.startswith(_PASSING_CODES) or _OUT_OF_IDS in text


class RedisConnection:
    """One connection, made when first needed and made anew when lost.

    Args:
        url: The server, and who we are there.
        log: Told of every failure.
        waits: For a worker whose user and functions an operator makes: whether what is missing of
            those is waited for, however long it takes. None for any other: it sends its scripts.
        sleep: Waits.
        luck: Spreads the pauses, in [0, 1).

    Attributes:
        generation: How many connections there have been. A change means that an answer may have
            been lost on the way, so what was delivered has to be looked up.
        where: The server as logs may show it, without user and password.
        insists: Asked after the last of all tries whether there shall be one more: for a worker
            whose attempt fails when it leaves.
    """

    def __init__(
        self,
        url: str,
        log: Log,
        *,
        waits: Callable[[], bool] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        luck: Callable[[], float] = random.random,
    ) -> None:
        target = read_redis_url(url)
        kind, options = connection_to(target)
        self._class: Callable[..., AbstractConnection] = kind
        self._options = options | {
            "protocol": 2,
            "driver_info": None,
            "decode_responses": True,
            "encoding_errors": "replace",
            "parser_class": BoundedParser,
            "socket_timeout": None,
            "socket_connect_timeout": CONNECT_SECONDS,
        }
        self._patience = SENTINEL_TRIES if target.sentinels else TRIES
        self.where = options.get("path") or (
            target.shown
            if target.sentinels
            else f"{options['host']}:{options.get('port', 6379)}/{options.get('db', 0)}"
        )
        self.generation = 0
        self.insists: Callable[[], bool] = _never
        self._user = options.get("username") or "default"
        self._log = log
        self._waits = waits
        self._sleep = sleep
        self._luck = luck
        self._lock = asyncio.Lock()
        self._connection: AbstractConnection | None = None

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        *arguments: str | int | bytes,
        tries: int = TRIES,
        decode: bool = True,
    ) -> Any:
        """Have a script run: as the operator's function of that name, or as it is.

        Args:
            script: The script.
            keys: Its KEYS.
            *arguments: Its ARGV.
            tries: See `call`, for the rest too.
            decode: See `call`.
        """
        how = ("EVAL", script.text) if self._waits is None else ("FCALL", script.function)
        return await self.call(*how, len(keys), *keys, *arguments, tries=tries, decode=decode)

    async def call(
        self,
        *command: str | int | bytes,
        block_seconds: float = 0,
        generation: int | None = None,
        tries: int = TRIES,
        decode: bool = True,
        needed: bool = True,
    ) -> Any:
        """Run one command.

        Args:
            *command: Its name and arguments.
            block_seconds: How long the server itself may take, for blocking reads.
            generation: Send it on this connection only; on a newer one the reply is None.
            tries: After how many failures in a row to give up; `TRIES` are more behind Sentinels.
            decode: Whether the reply is text.
            needed: Whether there is no way without it: the right to anything else is not waited
                for.

        Returns:
            The reply as RESP2 has it, with text instead of bytes unless told otherwise; what is in
            an entry is always bytes (replies.py).

        Raises:
            RedisUnavailableError: So many tries failed, or the user may not do this; with `waits`
                and all tries, only once that says no.
            NoPermissionError: The user may not do this, and it is not needed.
            ResponseError: Redis answered with an error that trying again does not mend.
        """
        failures = refusals = 0
        patient = tries == TRIES
        if patient:
            tries = self._patience
        while True:
            try:
                return await self._once(command, block_seconds, generation, decode)
            except (*_TROUBLE, ResponseError) as error:
                if isinstance(error, NoPermissionError) and not needed:
                    raise
                lacking = missing(error, command, self._user) if self._waits else None
                if lacking:
                    refusals += 1
                    await self.wait_for(lacking, refusals, error, patient=tries >= TRIES)
                    continue
                if isinstance(error, NoPermissionError):
                    text = f"Redis at {self.where}: {explain(error)}"
                    raise RedisUnavailableError(text) from error
                if isinstance(error, ResponseError) and not _may_pass(error):
                    raise
                failures += 1
                insists = patient and self.insists()
                if failures >= tries and not insists:
                    raise RedisUnavailableError(
                        f"Redis at {self.where} cannot be used, {failures} tries in a row failed: "
                        f"{explain(error)}"
                    ) from error
                delay = delay_after(failures, self._luck())
                self._log.warning(
                    "redis_retry",
                    redis=self.where,
                    error=explain(error),
                    failures=failures,
                    # no limit holds while somebody insists: "6 of 5" would be a wrong count
                    **({} if insists else {"of": tries}),
                    delay_seconds=round(delay, 2),
                )
            await self._sleep(delay)

    async def wait_for(
        self, lacking: str, refusals: int, error: Exception, *, patient: bool = True
    ) -> None:
        """Say what Redis lacks, and wait a moment before the next try.

        Args:
            lacking: What is missing.
            refusals: How often in a row.
            error: What Redis answered.
            patient: Whether there is time to wait.

        Raises:
            RedisUnavailableError: Nobody makes it, or nobody may wait for it any more.
        """
        if not (patient and self._waits and self._waits()):
            raise RedisUnavailableError(f"Redis at {self.where} lacks {lacking}") from error
        delay = delay_after(min(refusals, _UNTIL_GRANTED), self._luck())
        self._log.warning(
            "redis_waits", redis=self.where, missing=lacking, delay_seconds=round(delay, 2)
        )
        await self._sleep(delay)

    async def close(self) -> None:
        """Close the connection; the next call opens one again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _once(
        self,
        command: tuple[str | int | bytes, ...],
        block_seconds: float,
        generation: int | None,
        decode: bool,
    ) -> Any:
        async with self._lock:
            try:
                connection = self._connection
                if connection is not None and await connection.can_read():
                    # Nobody has asked, so it is the end: the server closes what is idle for long.
                    await self.close()
                    connection = None
                connection = connection or await self._connect()
                if generation is not None and generation != self.generation:
                    return None
                async with asyncio.timeout(REPLY_SECONDS + block_seconds):
                    await connection.send_command(*command, check_health=False)
                    return await connection.read_response(
                        timeout=math.inf, disable_decoding=not decode
                    )
            except ResponseError as error:
                if _may_pass(error):
                    await self.close()  # another server may answer to the same name by now
                raise
            except BaseException:
                # Cancelled, too: the reply that is still to come must not answer the next command.
                await self.close()
                raise

    async def _connect(self) -> AbstractConnection:
        connection = self._class(**self._options)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command("PING", check_health=False)
                await connection.read_response(timeout=math.inf)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self.generation += 1
        self._connection = connection
        return connection
