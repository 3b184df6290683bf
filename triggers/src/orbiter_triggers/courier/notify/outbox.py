"""What is still to be told, and what was, in Redis: who is killed neither loses nor repeats.

One hash for each object, with a field for each event and receiver: the whole notification while it
waits, a word afterwards. It is there for three days after the last change, and nothing is begun
that is older than one: so a word is remembered for as long as anybody could come and tell it again.
A set has the objects of which something waits, for who begins anew, because an object may be gone
before everybody knows what became of it. What is in memory is what is in Redis, a step later.
"""

import asyncio
from bisect import insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final

import structlog
from pydantic import ValidationError
from redis.asyncio import Redis

from orbiter_contracts.dead_letters import dead_letter_fields
from orbiter_contracts.queues import Keys, dead_letter
from orbiter_triggers.courier.notify.models import Lane, Notification
from orbiter_triggers.courier.notify.retries import Verdict

log = structlog.get_logger(__name__)
KEPT: Final = timedelta(days=3)
MOST_WAITING: Final = 5000
"""Of one namespace; what is beyond them is a dead letter."""
MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
"""The same of their events: they are in memory, and Redis is everybody's."""
LETTERS_KEPT: Final = 1000
LETTERS_BYTES: Final = 8 * 1024 * 1024
"""Dead letters of one namespace; when they are more, the older half of them goes."""
_LETTERS_SECONDS: Final = 30 * 24 * 60 * 60
_REMEMBERED: Final = 50_000
_SENT: Final = "sent"
_DEAD: Final = "dead"
_FULL: Final = (
    f"{MOST_WAITING} notifications of this namespace wait already, or more than "
    f"{MOST_WAITING_BYTES >> 20} MiB of them"
)


class Outbox:
    """Notifications by lane.

    Args:
        redis: A client for short commands.
        waiting: Key of the set of objects of which something waits.
        dead: Called with the stream for each dead letter.
    """

    def __init__(
        self, redis: Redis, waiting: str, dead: Callable[[str], None] = lambda stream: None
    ) -> None:
        self._redis, self._dead = redis, dead
        self._index = waiting
        self._lanes: dict[Lane, list[Notification]] = {}
        self._objects: Counter[tuple[str, str]] = Counter()
        self._namespaces: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        # What a hash has, and whether its object is in the set, change one after the other.
        self._writing = asyncio.Lock()

    def __len__(self) -> int:
        return sum(self._namespaces.values())

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Those in which something waits."""
        return tuple(self._lanes)

    def oldest(self, now: datetime) -> float:
        """For how many seconds the one has waited that has waited longest."""
        heads = [lane[0].noted for lane in self._lanes.values()]
        return max(((now - noted).total_seconds() for noted in heads), default=0.0)

    def head(self, lane: Lane) -> Notification | None:
        """What is to be told next in a lane; None when nothing waits there."""
        found = self._lanes.get(lane)
        return found[0] if found else None

    async def load(self) -> None:
        """Have in memory what waits, as whoever was here before has left it.

        Raises:
            RedisError: Redis did not answer.
        """
        self._lanes.clear()
        self._objects.clear()
        self._namespaces.clear()
        self._bytes.clear()
        for member in await self._redis.smembers(self._index):
            namespace, _, uid = str(member).partition("/")
            try:
                key = Keys.of_namespace(namespace).notified(uid)
            except ValueError:
                await self._redis.srem(self._index, member)
                continue
            fields = await self._redis.hgetall(key)
            read = [one for text in fields.values() if (one := _read(str(text))) is not None]
            # Whose Secret signs follows from the namespace: it is the key's, whatever is in there.
            whose = namespace, uid
            found = [one for one in read if (one.subject.namespace, one.subject.uid) == whose]
            for told in found:
                self._add(told)
            if not found:
                await self._redis.srem(self._index, member)

    async def note(
        self, told: Sequence[Notification]
    ) -> tuple[tuple[Notification, ...], tuple[Notification, ...]]:
        """Keep what is to be told of one object, unless it was noted before.

        Returns:
            What is new and waits, and what is new and has no room.

        Raises:
            RedisError: Redis did not answer.
        """
        unknown = [one for one in told if (one.subject.uid, one.field) not in self._known]
        if not unknown:
            return (), ()
        namespace, uid = unknown[0].subject.namespace, unknown[0].subject.uid
        key = Keys.of_namespace(namespace).notified(uid)
        async with self._writing:
            full = self._is_full(namespace)
            async with self._redis.pipeline(transaction=True) as pipe:
                for one in unknown:
                    pipe.hsetnx(key, one.field, _DEAD if full else one.model_dump_json())
                pipe.expire(key, KEPT)
                if not full:
                    pipe.sadd(self._index, f"{namespace}/{uid}")
                done = await pipe.execute()
            new = [one for one, fresh in zip(unknown, done, strict=False) if fresh]
            for one in unknown:
                self._remember(one)
            if not full:
                for one in new:
                    self._add(one)
                return tuple(new), ()
        lost = [one.model_copy(update={"why": _FULL}) for one in new]
        for one in lost:
            await self._bury(one)
        return (), tuple(lost)

    async def settle(self, decided: Verdict) -> None:
        """Write down what has become of a notification.

        Raises:
            RedisError: Redis did not answer; what is in memory is as before.
        """
        told = decided.notification
        namespace, uid = told.subject.namespace, told.subject.uid
        key = Keys.of_namespace(namespace).notified(uid)
        async with self._writing:
            if decided.state == "waiting":
                async with self._redis.pipeline(transaction=True) as pipe:
                    pipe.hset(key, told.field, told.model_dump_json())
                    pipe.expire(key, KEPT)
                    await pipe.execute()
                # Not the first any more, perhaps: an earlier one may have come meanwhile.
                lane = self._lanes[told.lane]
                self._lanes[told.lane] = [told if one.field == told.field else one for one in lane]
                return
            if decided.state == "dead":
                await self._bury(told)
            last = self._objects[namespace, uid] <= 1
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.hset(key, told.field, _SENT if decided.state == "sent" else _DEAD)
                pipe.expire(key, KEPT)
                if last:
                    pipe.srem(self._index, f"{namespace}/{uid}")
                await pipe.execute()
            self._remove(told)

    async def _bury(self, told: Notification) -> None:
        """Write the dead letter; before its end is written, so that a crash writes it twice."""
        name = dead_letter(Keys.of_namespace(told.subject.namespace).notifications)
        fields = {
            "id": told.identifier,
            "object": f"{told.subject.plural}/{told.subject.name}",
            "receiver": told.sink.place,
            "tries": str(told.tries),
            "data": told.event,
        }
        letter: dict[Any, Any] = {**dead_letter_fields(fields, told.why)}
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.xlen(name)
            # All of it: by its first few entries alone, small ones would hide large ones.
            pipe.memory_usage(name, samples=0)
            length, size = await pipe.execute()
        most = LETTERS_KEPT if int(size or 0) < LETTERS_BYTES else int(length) // 2 + 1
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.xadd(name, letter, maxlen=most, approximate=False)
            pipe.expire(name, _LETTERS_SECONDS)
            await pipe.execute()
        self._dead(name)

    def _add(self, told: Notification) -> None:
        insort(self._lanes.setdefault(told.lane, []), told, key=attrgetter("order"))
        self._objects[told.subject.namespace, told.subject.uid] += 1
        self._namespaces[told.subject.namespace] += 1
        self._bytes[told.subject.namespace] += len(told.event.encode())
        self._remember(told)

    def _remove(self, told: Notification) -> None:
        left = [one for one in self._lanes[told.lane] if one.field != told.field]
        self._lanes[told.lane] = left
        if not left:
            del self._lanes[told.lane]
        namespace = told.subject.namespace
        _less(self._objects, (namespace, told.subject.uid))
        _less(self._namespaces, namespace)
        _less(self._bytes, namespace, len(told.event.encode()))

    def _is_full(self, namespace: str) -> bool:
        many = self._namespaces[namespace] >= MOST_WAITING
        return many or self._bytes[namespace] >= MOST_WAITING_BYTES

    def _remember(self, told: Notification) -> None:
        self._known[told.subject.uid, told.field] = None
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


def _less(counter: "Counter[Any]", name: Any, number: int = 1) -> None:
    counter[name] -= number
    if not counter[name]:
        del counter[name]


def _read(text: str) -> Notification | None:
    """What waits in a field; None for a word about what does not."""
    if text in (_SENT, _DEAD):
        return None
    try:
        return Notification.model_validate_json(text)
    except ValidationError:
        log.warning("a notification cannot be read", text=text[:80])
        return None
