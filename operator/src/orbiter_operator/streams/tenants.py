"""Whose keys are served, and one blocking read over the streams of many.

A namespace is a tenant. With ORBITER_KEY_PREFIXES it has streams of its own, and what is said in
them counts for that namespace alone: nobody forges an output, a `busy` or a verdict for another.
Without, all namespaces share the streams without a prefix, which are always served.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import structlog
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from orbiter_contracts import InvalidMessageError, Route
from orbiter_contracts.queues import BARE, OPERATOR_GROUP, TASK_FIELD, Keys, KeysOf
from orbiter_operator.kube.names import Key
from orbiter_operator.settings import Settings
from orbiter_operator.streams.reader import Entry, Inbox, own_connection, unblock

log = structlog.get_logger(__name__)
READ_AT_ONCE = 250
"""Streams of one blocking read."""


def keys_of(settings: Settings) -> KeysOf:
    """Which keys each namespace has in an installation.

    Those without a prefix are the namespace's that entries are adopted in: who puts entries on
    the queue under the names that a standalone worker reads is that one tenant.
    """

    def keys(namespace: str) -> Keys:
        if not settings.key_prefixes or namespace == settings.adopt_namespace:
            return BARE
        return Keys.of_namespace(namespace)

    return keys


class Tenants:
    """The namespaces that are served, and their keys.

    Args:
        keys: Which keys a namespace has.
        namespaces: Those that are known from the start; others are served once they are seen.
        began_bare: Whether an attempt has begun under the names without a prefix, as all did
            before their namespace had keys of its own.
    """

    def __init__(
        self,
        keys: KeysOf = lambda namespace: BARE,
        namespaces: Iterable[str] = (),
        began_bare: Callable[[Route], bool] = lambda route: False,
    ) -> None:
        self._keys = keys
        self._began_bare = began_bare
        self._seen: dict[str, Keys] = {}
        self._served: dict[Keys, None] = {BARE: None}
        self._subscribers: list[asyncio.Event] = []
        for namespace in namespaces:
            self.see(namespace)

    def see(self, namespace: str) -> None:
        """Something of ours is in this namespace: it is served from now on."""
        if namespace in self._seen:
            return
        keys = self._seen[namespace] = self._keys(namespace)
        if keys not in self._served:
            self._served[keys] = None
            for event in self._subscribers:
                event.set()

    def seeing(self, enqueue: Callable[[Key], None]) -> Callable[[Key], None]:
        """The same, but for the namespace that is seen."""

        def seen(key: Key) -> None:
            self.see(key.namespace)
            enqueue(key)

        return seen

    def subscribe(self) -> asyncio.Event:
        """An event that is set whenever there are more keys; who waits for it clears it."""
        event = asyncio.Event()
        self._subscribers.append(event)
        return event

    def keys(self, namespace: str) -> Keys:
        """The keys of a namespace.

        Raises:
            ValueError: There cannot be a namespace of that name.
        """
        return self._seen.get(namespace) or self._keys(namespace)

    @property
    def served(self) -> tuple[Keys, ...]:
        """All keys that are served, the new ones last."""
        return tuple(self._served)

    def check(self, keys: Keys, route: Route) -> None:
        """Make sure that a stream is one where something may be said of an attempt.

        Args:
            keys: The keys the stream is one of.
            route: The attempt that an entry of it names.

        Raises:
            InvalidMessageError: It is not.
        """
        try:
            if keys == self.keys(route.namespace):
                return
        except ValueError:
            pass
        else:
            if keys == BARE and self._began_bare(route):
                return
        raise of_another_stream(keys, route)


def of_another_stream(keys: Keys, route: Route) -> InvalidMessageError:
    """The reason against an entry that speaks of another namespace's task."""
    whose = f"namespace {keys.namespace}" if keys.prefix else "entries without a namespace"
    return InvalidMessageError(
        f"{TASK_FIELD}: {route.namespace}/{route.name} is no task of this stream, which is of "
        f"{whose}: each namespace is spoken for in its own streams alone"
    )


async def create_groups(redis: Redis, wanted: Sequence[tuple[str, str]]) -> set[str]:
    """Create streams and groups where they are missing, in one round trip.

    Args:
        redis: A client for short commands.
        wanted: Streams, each with its group.

    Returns:
        The streams that cannot be: something else has the name. Who reads leaves those out.

    Raises:
        RedisError: Redis did not answer, or not now.
    """
    async with redis.pipeline(transaction=False) as pipe:
        for stream, group in wanted:
            pipe.xgroup_create(stream, group, id="0", mkstream=True)
        answers = await pipe.execute(raise_on_error=False)
    unusable = set()
    for (stream, _), answer in zip(wanted, answers, strict=True):
        if not isinstance(answer, Exception) or str(answer).startswith("BUSYGROUP"):
            continue
        if not isinstance(answer, ResponseError) or "WRONGTYPE" not in str(answer):
            raise answer
        log.warning("no stream; it is left out", key=stream, error=str(answer))
        unusable.add(stream)
    return unusable


def group_is_gone(error: Exception) -> bool:
    """Whether a read has failed because a stream or a group is not there any more."""
    return isinstance(error, ResponseError) and str(error).startswith(("NOGROUP", "UNBLOCKED"))


async def lag(redis: Redis, keys: Iterable[Keys] = (BARE,)) -> int:
    """Outputs and lifecycle events that the operator's group has not been handed yet."""
    async with redis.pipeline(transaction=False) as pipe:
        for some in keys:
            pipe.xinfo_groups(some.developer_output)
            pipe.xinfo_groups(some.lifecycle)
        answers = await pipe.execute(raise_on_error=False)
    unread = 0
    for groups in answers:
        # A namespace that is new may have no streams yet.
        for group in () if isinstance(groups, ResponseError) else groups:
            if group["name"] == OPERATOR_GROUP:
                # Redis answers nil when it cannot tell, after deletions for instance.
                unread += int(group.get("lag") or 0)
    return unread


async def memory(redis: Redis) -> dict[str, float]:
    """What Redis holds and may hold, as gauges; nothing where its user may not ask."""
    try:
        told = await redis.info("memory")
    except ResponseError:
        return {}
    used, most = told.get("used_memory"), told.get("maxmemory")
    found = {"orbiter_redis_memory_bytes": used, "orbiter_redis_memory_max_bytes": most or None}
    return {name: float(bytes_) for name, bytes_ in found.items() if bytes_ is not None}


class Inboxes:
    """Streams of many tenants, read as the one consumer of a group.

    Args:
        redis: A client for short commands.
        reader: A client for blocking reads (`client.blocking_client`).
        group: The group; who reads from it creates it.
        consumer: Name of the consumer.
    """

    def __init__(self, redis: Redis, reader: Redis, group: str, consumer: str) -> None:
        self._redis = redis
        self._reader = reader
        self._group = group
        self._consumer = consumer
        self._inboxes: dict[str, Inbox] = {}
        self._connection: Redis | None = None
        self._client = 0
        self._reads = 0
        self._blocked = False

    def of(self, stream: str) -> Inbox:
        """One of the streams."""
        found = self._inboxes.get(stream)
        if found is None:
            found = Inbox(self._redis, stream, self._group, self._consumer)
            self._inboxes[stream] = found
        return found

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Have a connection of its own, which can be told that there is more to read."""
        async with own_connection(self._reader) as (self._connection, self._client):
            try:
                yield
            finally:
                self._connection = None

    async def read(
        self, streams: Iterable[str], count: int, block: int | None
    ) -> AsyncIterator[tuple[Inbox, list[Entry]]]:
        """New entries, stream by stream; none when nothing has come in time.

        Of a stream with much to read there is one batch, so that no stream keeps the others
        waiting. What was handed out and not returned is among what each inbox has `held`.

        Args:
            streams: Which streams.
            count: How many entries at most of each.
            block: Milliseconds to wait for the first; None for no wait.

        Raises:
            ResponseError: A group is gone.
        """
        inboxes = [self.of(stream) for stream in streams]
        late = [inbox for inbox in inboxes if inbox.behind]
        fresh = {inbox.stream: ">" for inbox in inboxes if not inbox.behind}
        found = await self._ask(fresh, count, None if late else block) if fresh else None
        for stream, new in cast("list[tuple[str, Any]]", found or ()):
            inbox = self._inboxes[stream]
            if entries := inbox.accept(new):
                yield inbox, entries
            else:
                late.append(inbox)
        for inbox in late:
            yield inbox, await inbox.catch_up(count)

    async def interrupt(self) -> None:
        """End a blocked read: there are other streams to read too."""
        read = self._reads
        await unblock(
            self._redis,
            lambda: self._client if self._blocked and self._reads == read else None,
        )

    async def _ask(self, streams: dict[str, str], count: int, block: int | None) -> Any:
        asked: dict[Any, Any] = dict(streams)
        self._reads += 1
        self._blocked = block is not None
        try:
            return await (self._connection or self._reader).xreadgroup(
                self._group, self._consumer, asked, count=count, block=block
            )
        finally:
            self._blocked = False
