"""The streams of events, read as one consumer of each: what has come waits in `Pending`.

An entry that is no event, or one of a trigger that is not there, is a dead letter with its reason;
all others are left where they are until somebody has decided about them. Who comes after a crash
reads again what was handed out before it.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import structlog
from redis.asyncio import Redis

from orbiter_contracts import InvalidMessageError, decode
from orbiter_contracts.queues import TRIGGERS_GROUP, Keys
from orbiter_contracts.trigger_events import TriggerEvent
from orbiter_operator.kube.names import Key
from orbiter_operator.runtime.supervisor import run_concurrently
from orbiter_operator.streams.client import RETRIED
from orbiter_operator.streams.dead_letters import DeadLetters
from orbiter_operator.streams.reader import Entry, Inbox, read_entry
from orbiter_operator.streams.tenants import Inboxes, create_groups
from orbiter_triggers.controller.observed import Settled
from orbiter_triggers.controller.pending import Pending
from orbiter_triggers.naming import KIND

log = structlog.get_logger(__name__)
CONSUMER: Final = "controller"
REMEMBERED_SECONDS: Final = 30 * 24 * 60 * 60
"""How long it is remembered, beyond the task, that an event of a key has made one."""
_BATCH: Final = 100
_BLOCK_MS: Final = 5000
_PAUSE_SECONDS: Final = 1.0


class Events:
    """All events that wait.

    Args:
        redis: A client for short commands.
        reader: A client for blocking reads.
        uid_of: The uid of the trigger of a key that has events; None when there is none.
        arrived: Called with the key of the trigger for which something has come.
        allowed: Raises unless this replica is the active one.
        dead: Called with the stream for each dead letter.
    """

    def __init__(
        self,
        *,
        redis: Redis,
        reader: Redis,
        uid_of: Callable[[Key], str | None],
        arrived: Callable[[Key], None],
        allowed: Callable[[], None],
        dead: Callable[[str], None],
    ) -> None:
        self._redis = redis
        self._inboxes = Inboxes(redis, reader, TRIGGERS_GROUP, CONSUMER)
        self._uid_of = uid_of
        self._arrived = arrived
        self._allowed = allowed
        self._dead_letters = DeadLetters(redis, dead)
        self._namespaces: set[str] = set()
        self._opened: dict[str, str] = {}
        self._more = asyncio.Event()
        self.pending = Pending()

    def serve(self, namespace: str) -> None:
        """There are triggers with events in this namespace."""
        if namespace not in self._namespaces:
            self._namespaces.add(namespace)
            self._more.set()

    async def run(self) -> None:
        """Read until cancelled, through every failure of Redis."""
        await run_concurrently({"events": self._persist(), "new namespaces": self._follow()})

    async def waiting(self, namespace: str, uid: str) -> list[tuple[str, TriggerEvent, bool]]:
        """The next events of a trigger, each with its entry and whether it was parked.

        Raises:
            RedisError: Redis did not answer.
        """
        stream = _stream(namespace)
        batch, found = self.pending.batch(uid), list[tuple[str, TriggerEvent, bool]]()
        for name in (*batch.parked, *batch.fresh):
            entry = await read_entry(self._redis, stream, name)
            if entry is None:
                await self._redis.xack(stream, TRIGGERS_GROUP, name)
                self.pending.remove(uid, name)  # somebody has deleted it
                continue
            try:
                found.append((name, decode(TriggerEvent, entry.fields), name in batch.parked))
            except InvalidMessageError as error:
                await self._bury(stream, entry, error)
                self.pending.remove(uid, name)
        return found

    async def remembered(self, namespace: str, uid: str, digests: Sequence[str]) -> list[str]:
        """What is remembered of keys: the entry and the task of each, "" for none.

        Raises:
            RedisError: Redis did not answer.
        """
        keys = Keys.of_namespace(namespace)
        names = [keys.trigger_memory(uid, digest) for digest in digests]
        return [str(one or "") for one in await self._redis.mget(names)] if names else []

    async def settle(self, key: Key, uid: str, settled: Iterable[Settled]) -> None:
        """Take events off the stream, and remember in the same step which of them made a task.

        Raises:
            RedisError: Redis did not answer.
            NotLeadingError: Another replica is the active one.
        """
        keys = Keys.of_namespace(key.namespace)
        stream = keys.trigger_events
        for one in settled:
            self._allowed()
            if one.refused:
                entry = await read_entry(self._redis, stream, one.entry)
                if entry is not None:
                    await self._bury(stream, entry, InvalidMessageError(one.refused))
            async with self._redis.pipeline(transaction=True) as pipe:
                if one.task:
                    name = keys.trigger_memory(uid, one.digest)
                    pipe.set(name, f"{one.entry} {one.task}", ex=REMEMBERED_SECONDS)
                pipe.xack(stream, TRIGGERS_GROUP, one.entry)
                pipe.xdel(stream, one.entry)
                await pipe.execute()
            self.pending.remove(uid, one.entry)

    async def dismiss(self, key: Key, uid: str) -> None:
        """The trigger is gone, or has no events any more: what waits for it is nobody's.

        Raises:
            RedisError: Redis did not answer.
        """
        gone = [Settled(entry=one, refused=_no_trigger(key)) for one in self.pending.all_of(uid)]
        await self.settle(key, uid, gone)

    async def remember(self, namespace: str, uid: str, made: Iterable[tuple[str, str]]) -> None:
        """These tasks are there: it is remembered from now on how long.

        Args:
            namespace: The trigger's namespace.
            uid: Its uid.
            made: The digest in each task's name, and what to remember of it.

        Raises:
            RedisError: Redis did not answer.
        """
        keys = Keys.of_namespace(namespace)
        async with self._redis.pipeline(transaction=False) as pipe:
            for digest, text in made:
                pipe.set(keys.trigger_memory(uid, digest), text, ex=REMEMBERED_SECONDS)
            await pipe.execute()

    async def _persist(self) -> None:
        while True:
            try:
                await self._read()
            except RETRIED as error:
                log.warning("events interrupted", error=repr(error))
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _follow(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            await self._inboxes.interrupt()

    async def _read(self) -> None:
        self._opened.clear()
        self.pending.clear()
        async with self._inboxes.connected():
            while True:
                self._allowed()
                await self._open()
                if not self._opened:
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                async for inbox, entries in self._inboxes.read(self._opened, _BATCH, _BLOCK_MS):
                    for entry in entries:
                        await self._take(inbox, entry)

    async def _open(self) -> None:
        """Make the groups of new namespaces, and take what was read before a crash."""
        wanted = {_stream(one): one for one in sorted(self._namespaces)}
        new = [stream for stream in wanted if stream not in self._opened]
        if not new:
            return
        unusable = await create_groups(self._redis, [(name, TRIGGERS_GROUP) for name in new])
        for stream in new:
            if stream in unusable:
                continue
            inbox, after = self._inboxes.of(stream), "0"
            while entries := await inbox.held(after, _BATCH):
                for entry in entries:
                    await self._take(inbox, entry, wanted[stream])
                after = entries[-1].id
            self._opened[stream] = wanted[stream]

    async def _take(self, inbox: Inbox, entry: Entry, namespace: str = "") -> None:
        """Put an entry where it is decided about; one that is of no use goes."""
        stream = inbox.stream
        if not entry.fields:
            await self._redis.xack(stream, TRIGGERS_GROUP, entry.id)
            return
        try:
            entry.check()
            event = decode(TriggerEvent, entry.fields)
            key = Key(namespace or self._opened[stream], event.trigger, KIND)
            if self._uid_of(key) != event.uid:
                raise InvalidMessageError(_no_trigger(key))
        except InvalidMessageError as error:
            await self._bury(stream, entry, error)
            return
        self.pending.add(event.uid, entry.id)
        self._arrived(key)

    async def _bury(self, stream: str, entry: Entry, error: InvalidMessageError) -> None:
        self._allowed()
        await self._dead_letters.add(stream, TRIGGERS_GROUP, entry, error, remove=True)


def _stream(namespace: str) -> str:
    return Keys.of_namespace(namespace).trigger_events


def _no_trigger(key: Key) -> str:
    return f"AgentTrigger {key.name} is not there any more, or has another source"
