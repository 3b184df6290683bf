"""Read what the workers say: their outputs and their lifecycle, each once and none lost.

An output becomes a letter in `news` and a key on the work queue; it is acknowledged after the
status has it. A lifecycle event is only a hint and acknowledged at once. What the previous leader
had not acknowledged is read first: all leaders are one consumer.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from orbiter_contracts import (
    DeveloperWorkerOutput,
    InvalidMessageError,
    WorkerLifecycleEvent,
    decode,
)
from orbiter_contracts.queues import (
    ATTEMPT_FIELD,
    DEVELOPER_OUTPUT,
    LIFECYCLE,
    OPERATOR_GROUP,
    REASON_FIELD,
    TASK_FIELD,
    dead_letter,
)
from orbiter_operator.attempts import CONSUMER, Attempts
from orbiter_operator.children import Key
from orbiter_operator.news import Letter, News
from orbiter_operator.pace import HINTS_SECONDS, UNHURRIED_SECONDS, next_moment
from orbiter_operator.streams import Entry, read_group, read_pending
from orbiter_operator.together import run_together

log = structlog.get_logger(__name__)
_BATCH = 200
_BLOCK_MS = 5000
_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_DEAD_LETTERS = 10_000


class Consumer:
    """Reads both streams of the workers for ever.

    Args:
        redis: A client for short commands.
        reader: A client whose timeout is longer than a blocking read.
        attempts: Creates the groups where they are missing.
        news: Where letters and hints go.
        enqueue: Has a task looked at.
        connected: Called when Redis answers (again).
        dead: Called for every entry that cannot be read.
        heard: Called with the lifecycle events of workers that run no attempt of a task.
    """

    def __init__(
        self,
        *,
        redis: Redis,
        reader: Redis,
        attempts: Attempts,
        news: News,
        enqueue: Callable[[Key], None],
        connected: Callable[[], None],
        dead: Callable[[str], None],
        heard: Callable[[WorkerLifecycleEvent], None] = lambda event: None,
    ) -> None:
        self._redis = redis
        self._reader = reader
        self._attempts = attempts
        self._news = news
        self._enqueue = enqueue
        self._connected = connected
        self._dead = dead
        self._heard = heard
        self.reachable = False
        self._done: dict[str, list[str]] = {}
        self._some_done = asyncio.Event()

    async def run(self) -> None:
        """Read until cancelled, through every failure of Redis."""
        pause = _PAUSE_SECONDS
        while True:
            try:
                await self._attempts.create_groups()
                await self._read_own_pending()
                self.reachable = True
                self._connected()
                pause = _PAUSE_SECONDS
                await run_together(
                    {
                        "outputs": self._read_new(DEVELOPER_OUTPUT),
                        "lifecycle": self._read_new(LIFECYCLE, urgent=False),
                    }
                )
            except (RedisError, OSError) as error:
                self.reachable = False
                if not _group_is_gone(error):
                    log.warning("redis does not answer", error=f"{type(error).__name__}: {error}")
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
                else:
                    log.warning("redis has lost its data; the consumer groups are made anew")

    def settled(self, letters: tuple[Letter, ...]) -> None:
        """The status has these: they may be acknowledged."""
        for letter in letters:
            self._acknowledge(DEVELOPER_OUTPUT, letter.entry)

    async def run_acknowledger(self) -> None:
        """Acknowledge what is done for ever, many at a time.

        What is lost here is read again one day and found to be done.
        """
        while True:
            await self._some_done.wait()
            await next_moment(UNHURRIED_SECONDS)
            self._some_done.clear()
            done, self._done = self._done, {}
            try:
                async with self._redis.pipeline(transaction=False) as pipe:
                    for stream, entries in done.items():
                        pipe.xack(stream, OPERATOR_GROUP, *entries)
                    await pipe.execute()
            except (RedisError, OSError) as error:
                log.info("not acknowledged", entries=done, error=str(error))

    def _acknowledge(self, stream: str, entry: str) -> None:
        self._done.setdefault(stream, []).append(entry)
        self._some_done.set()

    async def _read_own_pending(self) -> None:
        for stream in (DEVELOPER_OUTPUT, LIFECYCLE):
            position = "0"
            while entries := await read_pending(
                self._redis, OPERATOR_GROUP, CONSUMER, stream, position, _BATCH
            ):
                await self._take(stream, entries)
                position = entries[-1][0]

    async def _read_new(self, stream: str, *, urgent: bool = True) -> None:
        """Read one stream for ever; what is not urgent, at the moments for that."""
        while True:
            for _, entries in await read_group(
                self._reader,
                OPERATOR_GROUP,
                CONSUMER,
                {stream: ">"},
                count=_BATCH,
                block=_BLOCK_MS,
            ):
                await self._take(stream, entries)
            if not urgent:
                await next_moment(HINTS_SECONDS)

    async def _take(self, stream: str, entries: list[Entry]) -> None:
        for entry, fields in entries:
            key, attempt = _route(fields or {})
            try:
                if stream == LIFECYCLE:
                    self._lifecycle(key, attempt, fields)
                elif key is not None:
                    self._output(entry, key, attempt, fields)
                    continue
            except InvalidMessageError as error:
                await self._bury(stream, fields, str(error))
            self._acknowledge(stream, entry)

    def _lifecycle(self, key: Key | None, attempt: int, fields: dict[str, str]) -> None:
        event = decode(WorkerLifecycleEvent, fields)
        if key is None:
            self._heard(event)
        elif event.event == "busy":
            self._news.busy(key, attempt, event.timestamp)
            self._enqueue(key)

    def _output(self, entry: str, key: Key, attempt: int, fields: dict[str, str]) -> None:
        output: DeveloperWorkerOutput | None = None
        try:
            output = decode(DeveloperWorkerOutput, fields)
        except InvalidMessageError as error:
            # The attempt's record leads to it; the task will say what is wrong.
            log.warning("unreadable output", task=str(key), attempt=attempt, error=str(error))
            self._dead(DEVELOPER_OUTPUT)
        self._news.deliver(key, Letter(entry, attempt, output))
        self._enqueue(key)

    async def _bury(self, stream: str, fields: dict[str, str], reason: str) -> None:
        self._dead(stream)
        log.warning("dead letter", stream=stream, reason=reason)
        letter: dict[Any, Any] = {**fields, REASON_FIELD: reason}
        await self._redis.xadd(dead_letter(stream), letter, maxlen=_DEAD_LETTERS)


def _route(fields: dict[str, str]) -> tuple[Key | None, int]:
    namespace, _, name = fields.get(TASK_FIELD, "").partition("/")
    attempt = fields.get(ATTEMPT_FIELD, "")
    if not name or not attempt.isdigit():
        return None, 0
    return Key(namespace, name), int(attempt)


def _group_is_gone(error: Exception) -> bool:
    return isinstance(error, ResponseError) and str(error).startswith(("NOGROUP", "UNBLOCKED"))
