"""Read what the workers say: their outputs and their lifecycle, each once and none lost.

An output becomes a pending one and a key on the work queue; it is acknowledged after the
status has it. A lifecycle event is only a hint and acknowledged at once. What the previous leader
had not acknowledged is read first: all leaders are one consumer. Whatever is wrong with an entry
costs that entry: it is a dead letter, and the next is read.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from orbiter_contracts import (
    DeveloperWorkerOutput,
    InvalidMessageError,
    Route,
    WorkerLifecycleEvent,
    decode,
    read_route,
)
from orbiter_contracts.queues import DEVELOPER_OUTPUT, LIFECYCLE, OPERATOR_GROUP
from orbiter_operator.kube.names import Key
from orbiter_operator.runtime.supervisor import (
    HINTS_SECONDS,
    UNHURRIED_SECONDS,
    next_moment,
    run_concurrently,
)
from orbiter_operator.streams.attempts import CONSUMER, Attempts
from orbiter_operator.streams.dead_letters import DeadLetters
from orbiter_operator.streams.pending_outputs import PendingOutput, PendingOutputs
from orbiter_operator.streams.reader import Entry, Inbox

log = structlog.get_logger(__name__)
_BATCH = 200
_BLOCK_MS = 5000
_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0


class Consumer:
    """Reads both streams of the workers for ever.

    Args:
        redis: A client for short commands.
        reader: A client for blocking reads (`client.blocking_client`).
        attempts: Creates the groups where they are missing.
        pending: Where outputs and hints go.
        enqueue: Has a task reconciled.
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
        pending: PendingOutputs,
        enqueue: Callable[[Key], None],
        connected: Callable[[], None],
        dead: Callable[[str], None],
        heard: Callable[[WorkerLifecycleEvent], None] = lambda event: None,
    ) -> None:
        self._redis = redis
        self._outputs, self._events = (
            Inbox(redis, reader, stream, OPERATOR_GROUP, CONSUMER)
            for stream in (DEVELOPER_OUTPUT, LIFECYCLE)
        )
        self._attempts = attempts
        self._pending = pending
        self._enqueue = enqueue
        self._connected = connected
        self._dead_letters = DeadLetters(redis, dead)
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
                await run_concurrently(
                    {
                        "outputs": self._read_new(self._outputs),
                        "lifecycle": self._read_new(self._events, urgent=False),
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

    def settled(self, outputs: tuple[PendingOutput, ...]) -> None:
        """The status has these: they may be acknowledged."""
        for output in outputs:
            self._acknowledge(DEVELOPER_OUTPUT, output.entry)

    async def run_acknowledger(self) -> None:
        """Acknowledge what is done for ever, many at a time.

        Where that fails it is tried again: a primary without its replicas refuses writes on a
        connection that stays, so nobody reads anew what is pending.
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
                for stream, entries in done.items():
                    self._done.setdefault(stream, []).extend(entries)
                await asyncio.sleep(_PAUSE_SECONDS)
                self._some_done.set()

    def _acknowledge(self, stream: str, entry: str) -> None:
        self._done.setdefault(stream, []).append(entry)
        self._some_done.set()

    async def _read_own_pending(self) -> None:
        for inbox in (self._outputs, self._events):
            position = "0"
            while entries := await inbox.held(position, _BATCH):
                for entry in entries:
                    await self._take(inbox, entry)
                position = entries[-1].id

    async def _read_new(self, inbox: Inbox, *, urgent: bool = True) -> None:
        """Read one stream for ever; what is not urgent, at the moments for that."""
        while True:
            for entry in await inbox.wait(_BATCH, _BLOCK_MS):
                await self._take(inbox, entry)
            if not urgent:
                await next_moment(HINTS_SECONDS)

    async def _take(self, inbox: Inbox, entry: Entry) -> None:
        """Deal with one entry: whatever is in it, the next one is read."""
        try:
            if entry.fields and self._deliver(inbox, entry):
                return
        except Exception as error:
            if not isinstance(error, InvalidMessageError):
                log.exception("entry not handled", stream=inbox.stream, entry=entry.id)
            await self._dead_letters.add(
                inbox.stream, inbox.group, entry, error, remove=inbox is self._events
            )
            if inbox is self._outputs:
                self._enqueue_unreadable(entry)
            return
        self._acknowledge(inbox.stream, entry.id)

    def _deliver(self, inbox: Inbox, entry: Entry) -> bool:
        """Hand an entry on. Returns whether it is acknowledged later.

        Raises:
            InvalidMessageError: It is not what this stream is for.
        """
        entry.check()
        route = read_route(entry.fields)
        if inbox is self._events:
            self._lifecycle(route, decode(WorkerLifecycleEvent, entry.fields))
            return False
        output = decode(DeveloperWorkerOutput, entry.fields)
        if route is None:
            return False
        key = Key(route.namespace, route.name)
        self._pending.deliver(key, PendingOutput(entry.id, route.attempt, output, entry.size))
        self._enqueue(key)
        return True

    def _lifecycle(self, route: Route | None, event: WorkerLifecycleEvent) -> None:
        if route is None:
            self._heard(event)
        elif event.event == "busy":
            key = Key(route.namespace, route.name)
            self._pending.busy(key, route.attempt, event.timestamp)
            self._enqueue(key)

    def _enqueue_unreadable(self, entry: Entry) -> None:
        """Have the task reconciled: the attempt's record leads to the entry, it will say so."""
        with suppress(InvalidMessageError):
            if route := read_route(entry.fields):
                key = Key(route.namespace, route.name)
                self._pending.deliver(key, PendingOutput(entry.id, route.attempt, None))
                self._enqueue(key)


def _group_is_gone(error: Exception) -> bool:
    return isinstance(error, ResponseError) and str(error).startswith(("NOGROUP", "UNBLOCKED"))
