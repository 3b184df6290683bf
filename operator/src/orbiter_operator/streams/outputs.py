"""Read what the workers of all namespaces say: outputs and lifecycle, each once and none lost.

An output becomes a pending one and a key on the work queue; it is acknowledged after the
status has it. A lifecycle event is only a hint and acknowledged at once. What the previous leader
had not acknowledged is read first: all leaders are one consumer. Whatever is wrong with an entry
costs that entry: it is a dead letter, and the next is read. So is what a stream says of another
namespace's tasks (`tenants`).
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orbiter_contracts import (
    DeveloperWorkerOutput,
    InvalidMessageError,
    Route,
    WorkerLifecycleEvent,
    decode,
    read_route,
)
from orbiter_contracts.queues import DEVELOPER_GROUP, OPERATOR_GROUP, Keys
from orbiter_operator.kube.names import Key
from orbiter_operator.runtime.supervisor import (
    HINTS_SECONDS,
    UNHURRIED_SECONDS,
    next_moment,
    run_concurrently,
)
from orbiter_operator.streams.attempts import CONSUMER
from orbiter_operator.streams.dead_letters import DeadLetters
from orbiter_operator.streams.pending_outputs import PendingOutput, PendingOutputs
from orbiter_operator.streams.reader import Entry, Inbox
from orbiter_operator.streams.tenants import (
    READ_AT_ONCE,
    Inboxes,
    Tenants,
    create_groups,
    group_is_gone,
)

log = structlog.get_logger(__name__)
_BATCH = 200
_BLOCK_MS = 5000
_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_AGAIN_SECONDS = 5.0
"""After how long a namespace is tried again whose keys are no streams."""


class _MoreConnectionsError(Exception):
    """There are more streams than the blocking reads have room for."""


class Consumer:
    """Reads both streams of every namespace's workers for ever.

    Args:
        redis: A client for short commands.
        reader: A client for blocking reads (`client.blocking_client`).
        tenants: Whose streams there are.
        pending: Where outputs and hints go.
        enqueue: Has a task reconciled.
        connected: Called when Redis answers (again).
        dead: Called for every entry that cannot be read.
        heard: Called with the lifecycle events of workers that run no attempt of a task, and with
            the keys whose stream they came by.
    """

    def __init__(
        self,
        *,
        redis: Redis,
        reader: Redis,
        tenants: Tenants,
        pending: PendingOutputs,
        enqueue: Callable[[Key], None],
        connected: Callable[[], None],
        dead: Callable[[str], None],
        heard: Callable[[WorkerLifecycleEvent, Keys], None] = lambda event, keys: None,
    ) -> None:
        self._redis = redis
        self._reader = reader
        self._tenants = tenants
        self._new_tenants = tenants.subscribe()
        self._outputs: list[Inboxes] = []
        self._events: list[Inboxes] = []
        self._open: dict[Keys, None] = {}
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
                self._open.clear()
                await self._open_streams()
                self.reachable = True
                self._connected()
                pause = _PAUSE_SECONDS
                await run_concurrently(
                    {
                        "new namespaces": self._follow_tenants(),
                        **self._reads("outputs", self._outputs, lambda keys: keys.developer_output),
                        **self._reads("lifecycle", self._events, lambda keys: keys.lifecycle),
                    }
                )
            except _MoreConnectionsError:
                log.info("more namespaces than one read has room for", namespaces=len(self._open))
            except (RedisError, OSError) as error:
                self.reachable = False
                if not group_is_gone(error):
                    log.warning("redis does not answer", error=f"{type(error).__name__}: {error}")
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
                else:
                    log.warning("redis has lost its data; the consumer groups are made anew")

    def settled(self, outputs: tuple[PendingOutput, ...]) -> None:
        """The status has these: they may be acknowledged."""
        for output in outputs:
            self._acknowledge(output.stream, output.entry)

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

    async def _open_streams(self) -> None:
        """Make the streams of new namespaces, and read what an earlier leader left of them."""
        self._new_tenants.clear()
        new = [keys for keys in self._tenants.served if keys not in self._open]
        wanted = []
        for keys in new:
            wanted += [(keys.developer_input, DEVELOPER_GROUP)]
            wanted += [(stream, OPERATOR_GROUP) for stream in _read_of(keys)]
        unusable = await create_groups(self._redis, wanted) if wanted else set()
        for keys in new:
            if not unusable.isdisjoint(_read_of(keys)):
                continue
            number = len(self._open) // READ_AT_ONCE
            for kind, stream in zip((self._outputs, self._events), _read_of(keys), strict=True):
                if len(kind) == number:
                    kind.append(Inboxes(self._redis, self._reader, OPERATOR_GROUP, CONSUMER))
                await self._read_held(kind[number].of(stream))
            self._open[keys] = None

    async def _read_held(self, inbox: Inbox) -> None:
        position = "0"
        while entries := await inbox.held(position, _BATCH):
            for entry in entries:
                await self._take(inbox, entry)
            position = entries[-1].id

    async def _follow_tenants(self) -> None:
        """Have new namespaces read too, for ever.

        Raises:
            _MoreConnectionsError: There is one more blocking read to begin.
        """
        connections = len(self._outputs)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_SECONDS):
                    await self._new_tenants.wait()
            known = len(self._open)
            await self._open_streams()
            if len(self._outputs) > connections:
                raise _MoreConnectionsError
            if len(self._open) > known:
                await asyncio.gather(self._outputs[-1].interrupt(), self._events[-1].interrupt())

    def _reads(
        self, name: str, kind: list[Inboxes], stream_of: Callable[[Keys], str]
    ) -> dict[str, Coroutine[Any, Any, None]]:
        """The blocking reads of one kind of streams, each of some namespaces."""

        def some(number: int) -> list[str]:
            first = number * READ_AT_ONCE
            return [stream_of(keys) for keys in [*self._open][first : first + READ_AT_ONCE]]

        return {
            f"{name} {number}": self._read_new(
                inboxes, partial(some, number), kind is self._outputs
            )
            for number, inboxes in enumerate(kind)
        }

    async def _read_new(
        self, inboxes: Inboxes, streams: Callable[[], Iterable[str]], urgent: bool
    ) -> None:
        """Read some streams for ever; what is not urgent, at the moments for that."""
        async with inboxes.connected():
            while True:
                async for inbox, entries in inboxes.read(streams(), _BATCH, _BLOCK_MS):
                    for entry in entries:
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
                inbox.stream, inbox.group, entry, error, remove=inbox.kind == "lifecycle"
            )
            if inbox.kind == "developer_output":
                self._enqueue_unreadable(inbox, entry)
            return
        self._acknowledge(inbox.stream, entry.id)

    def _deliver(self, inbox: Inbox, entry: Entry) -> bool:
        """Hand an entry on. Returns whether it is acknowledged later.

        Raises:
            InvalidMessageError: It is not what this stream is for.
        """
        entry.check()
        route = read_route(entry.fields)
        if route is not None:
            self._tenants.check(inbox.keys, route)
        if inbox.kind == "lifecycle":
            self._lifecycle(inbox, route, decode(WorkerLifecycleEvent, entry.fields))
            return False
        output = decode(DeveloperWorkerOutput, entry.fields)
        if route is None:
            return False
        key = Key(route.namespace, route.name)
        self._pending.deliver(
            key, PendingOutput(entry.id, route.attempt, output, entry.size, inbox.stream)
        )
        self._enqueue(key)
        return True

    def _lifecycle(self, inbox: Inbox, route: Route | None, event: WorkerLifecycleEvent) -> None:
        if route is None:
            self._heard(event, inbox.keys)
        elif event.event in ("busy", "checkpointed"):
            key = Key(route.namespace, route.name)
            if event.event == "busy":
                self._pending.busy(key, route.attempt, event.timestamp)
            else:
                self._pending.checkpointed(key, route.attempt)
            self._enqueue(key)

    def _enqueue_unreadable(self, inbox: Inbox, entry: Entry) -> None:
        """Have the task reconciled: the attempt's record leads to the entry, it will say so."""
        with suppress(InvalidMessageError):
            if route := read_route(entry.fields):
                self._tenants.check(inbox.keys, route)
                key = Key(route.namespace, route.name)
                self._pending.deliver(
                    key, PendingOutput(entry.id, route.attempt, None, stream=inbox.stream)
                )
                self._enqueue(key)


def _read_of(keys: Keys) -> tuple[str, str]:
    """The two streams that are read of a namespace."""
    return keys.developer_output, keys.lifecycle
