"""Turn queue entries from outside into AgentTasks, fairly: who reads an entry first has it.

Reads the developer input streams as one consumer among the standalone workers: that of a namespace
into tasks of that namespace, the one without a prefix into those of the adoption namespace; each
only while there is room for a Job in its namespace, and none at the others' expense. The task's
name follows from the entry's id, so an entry becomes one task however often it is read, and what
has become one never another. Until the task's Job has the entry, its claim is renewed, lest another
worker takes it for a dead peer's. A bound entry is left to its own Job. One that is no task, or
that the API server refuses, is a dead letter. One with which the API server fails again and again
is put aside, so that those behind it go on, and tried again now and then.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orbiter_contracts import DeveloperWorkerInput, InvalidMessageError, decode, read_route
from orbiter_contracts.queues import DEVELOPER_GROUP, TASK_FIELD, Keys
from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.leader_election import NotLeadingError
from orbiter_operator.kube.resources import AGENT_TASKS
from orbiter_operator.runtime.supervisor import UNHURRIED_SECONDS, next_moment, run_concurrently
from orbiter_operator.streams.attempts import CONSUMER
from orbiter_operator.streams.client import RETRIED, passes_by_itself
from orbiter_operator.streams.dead_letters import DeadLetters, note_adopted
from orbiter_operator.streams.reader import Entry, Inbox, id_before, renew_held
from orbiter_operator.streams.tenants import Inboxes, Tenants, create_groups

log = structlog.get_logger(__name__)
RENEW_SECONDS = 20.0
_BLOCK_MS = 5000
_BATCH = 100
_FULL_SECONDS = 0.5
_FULL_BLOCK_MS = int(_FULL_SECONDS * 1000)
"""While others are full: they may have room again before anything comes."""
_GATHER_SECONDS = 0.1
_PAUSE_SECONDS = 1.0
_TRIES = 3
"""How often the API server may fail with one entry before the next is tried."""
ASIDE_SECONDS = 15.0
"""After how long what was put aside is tried again."""
BuildTask = Callable[[str, DeveloperWorkerInput, str, Keys], dict[str, Any]]


@dataclass
class _Source:
    """The input stream of one namespace, and how far its entries have come.

    Attributes:
        namespace: Where its entries become AgentTasks.
        recovered: Up to which id has been dealt with what was read before a crash and may not have
            become a task; None when that is done.
        rests_until: Until when no task can be made there, by the loop's clock.
        failures: How often the API server has failed with an entry.
    """

    keys: Keys
    namespace: str
    inbox: Inbox
    recovered: str | None = "0"
    rests_until: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)

    def is_aside(self, entry: str) -> bool:
        """Whether an entry was put aside."""
        return self.failures.get(entry, 0) >= _TRIES

    def put_aside(self, entry: str, error: ApiError) -> bool:
        """Count a failure of the API server; whether it is time to go on without this entry."""
        if error.status < 500:
            return False  # what it says is true of every entry
        self.failures[entry] = self.failures.get(entry, 0) + 1
        if self.failures[entry] == _TRIES:
            log.warning("entry put aside", entry=entry, error=str(error))
        return self.is_aside(entry)


class Intake:
    """Adopts entries for ever.

    Args:
        redis: A client for short commands.
        reader: A client for blocking reads (`client.blocking_client`).
        kube: The API client.
        tenants: Whose streams there are.
        namespace: Where entries without a namespace become AgentTasks; empty leaves them alone.
        build: The AgentTask that an entry becomes (`tasks/job`).
        free_slots: How many more Jobs could start in a namespace.
        allowed: Raises unless this replica is the active one.
        dead: Called for every entry that cannot be read.
    """

    def __init__(
        self,
        *,
        redis: Redis,
        reader: Redis,
        kube: Kube,
        tenants: Tenants,
        namespace: str,
        build: BuildTask,
        free_slots: Callable[[str], int],
        allowed: Callable[[], None],
        dead: Callable[[str], None],
    ) -> None:
        self._redis = redis
        self._inboxes = Inboxes(redis, reader, DEVELOPER_GROUP, CONSUMER)
        self._kube = kube
        self._tenants = tenants
        self._new_tenants = tenants.subscribe()
        self._namespace = namespace
        self._build = build
        self._free_slots = free_slots
        self._allowed = allowed
        self._dead_letters = DeadLetters(redis, dead)
        self._sources: dict[str, _Source] = {}

    async def run(self) -> None:
        """Adopt until cancelled, through every failure of Redis and the API server."""
        await run_concurrently(
            {
                "dispatch": self._persist(self._dispatch),
                "new namespaces": self._persist(self._follow_tenants),
                "renewal of claims": self._persist(self._renew),
                "entries put aside": self._persist(self._try_aside),
            }
        )

    async def _persist(self, step: Callable[[], Any]) -> None:
        while True:
            try:
                await step()
            except RETRIED as error:
                log.warning("intake interrupted", error=repr(error))
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _dispatch(self) -> None:
        self._sources.clear()
        async with self._inboxes.connected():
            while True:
                await self._open_sources()
                now = asyncio.get_running_loop().time()
                awake = [one for one in self._sources.values() if one.rests_until <= now]
                for source in awake:
                    if source.recovered is not None:
                        await self._recover_pending(source)
                free = {
                    one.inbox.stream: min(slots, _BATCH)
                    for one in awake
                    if one.recovered is None and (slots := self._free_slots(one.namespace)) > 0
                }
                if free:
                    all_are_read = len(free) == len(self._sources)
                    await self._read_new(free, _BLOCK_MS if all_are_read else _FULL_BLOCK_MS)
                else:
                    await asyncio.sleep(_FULL_SECONDS)

    async def _follow_tenants(self) -> None:
        while True:
            await self._new_tenants.wait()
            self._new_tenants.clear()
            await self._inboxes.interrupt()

    async def _open_sources(self) -> None:
        """Make the input streams of new namespaces."""
        wanted = {
            keys.developer_input: keys
            for keys in self._tenants.served
            if keys.developer_input not in self._sources and (keys.prefix or self._namespace)
        }
        if not wanted:
            return
        unusable = await create_groups(self._redis, [(name, DEVELOPER_GROUP) for name in wanted])
        for stream in wanted.keys() - unusable:
            namespace = wanted[stream].namespace or self._namespace
            self._sources[stream] = _Source(wanted[stream], namespace, self._inboxes.of(stream))

    async def _read_new(self, free: dict[str, int], block: int) -> None:
        """Read once, of each stream no more than it has room for.

        The blocking read asks all for as much as the fullest has room for. Who has more room and
        more to read is asked again, alone.
        """
        count = min(free.values())
        adopted = found = False
        async for inbox, entries in self._inboxes.read(free, count, block):
            found = True
            source, more = self._sources[inbox.stream], free[inbox.stream] - len(entries)
            adopted |= await self._take_all(source, entries)
            if more and len(entries) == count:
                async for _, others in self._inboxes.read([inbox.stream], more, None):
                    adopted |= await self._take_all(source, others)
        if adopted:
            # The new tasks take their slots meanwhile; there may be more to adopt.
            await asyncio.sleep(_GATHER_SECONDS)
        elif found:
            # All were bound, the operator's own: one read for all of a burst.
            await next_moment(UNHURRIED_SECONDS)

    async def _take_all(self, source: _Source, entries: list[Entry]) -> bool:
        """Deal with some entries, or recover them later. Returns whether one was from outside."""
        adopted = False
        for entry in entries:
            try:
                adopted |= await self._take(source, entry)
            except ApiError as error:
                log.warning("no task made", namespace=source.namespace, error=str(error))
                source.rests_until = asyncio.get_running_loop().time() + _PAUSE_SECONDS
                source.recovered = "0"
                return True
        return adopted

    async def _recover_pending(self, source: _Source) -> None:
        """One batch of what was read before a crash and may not have become a task."""
        entries = await source.inbox.held(source.recovered or "0", _BATCH)
        source.recovered = entries[-1].id if entries else None
        known = await self._redis.hgetall(source.keys.adopted)  # goes with its task
        left = [one for one in entries if not source.is_aside(one.id) and one.id not in known]
        await self._take_all(source, left)

    async def _try_aside(self) -> None:
        """Come back to what was put aside, until it is a task or nobody's."""
        while True:
            await asyncio.sleep(ASIDE_SECONDS)
            for source in tuple(self._sources.values()):
                for name in filter(source.is_aside, tuple(source.failures)):
                    if self._free_slots(source.namespace) == 0:
                        break
                    # One at a time: what is held of others may be large.
                    found = await source.inbox.held(id_before(name), 1)
                    if not found or found[0].id != name:
                        del source.failures[name]  # another has it, or it was deleted
                    else:
                        await self._take_all(source, found)

    async def _take(self, source: _Source, entry: Entry) -> bool:
        """Deal with one entry. Returns whether it was from outside.

        Raises:
            ApiError: No task can be made at the moment, of this entry or any other.
        """
        if not entry.fields:
            return False
        stream = source.inbox.stream
        try:
            route = read_route(entry.fields)
            if route is not None:
                self._tenants.check(source.keys, route)
            if route is not None or TASK_FIELD in entry.fields:
                return False
            entry.check()
            self._allowed()
            await self._adopt(source, entry)
        except (RedisError, NotLeadingError, *TRANSPORT_ERRORS):
            raise
        except Exception as error:
            if isinstance(error, ApiError) and passes_by_itself(error):
                if source.put_aside(entry.id, error):
                    return True
                raise
            if not isinstance(error, InvalidMessageError):
                log.exception("entry not handled", stream=stream, entry=entry.id)
            await self._dead_letters.add(stream, DEVELOPER_GROUP, entry, error, remove=True)
        source.failures.pop(entry.id, None)
        return True

    async def _adopt(self, source: _Source, entry: Entry) -> None:
        message = decode(DeveloperWorkerInput, entry.fields)
        body = self._build(entry.id, message, source.namespace, source.keys)
        try:
            await self._kube.create(AGENT_TASKS, source.namespace, body)
        except ApiError as error:
            if error.status != 409:
                if passes_by_itself(error):
                    raise
                raise InvalidMessageError(f"no AgentTask can be made of it: {error}") from None
        task = f"{source.namespace}/{body['metadata']['name']}"
        await note_adopted(self._redis, source.keys, entry.id, task)
        log.info("adopted", entry=entry.id, task=task)

    async def _renew(self) -> None:
        """Tell the other workers that what we still hold is not a dead peer's."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            for stream in tuple(self._sources):
                await renew_held(self._redis, stream, DEVELOPER_GROUP, CONSUMER, self._allowed)
