"""How far a poll has read, for each trigger: a hash in Redis, as the memory of events is.

It is written behind the events that it counts as read: whoever is killed between reads them again,
and they have the keys that they had.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, TypeVar

from pydantic import AwareDatetime, Field, StringConstraints, ValidationError
from redis.asyncio import Redis

from orbiter_contracts.queues import Keys
from orbiter_operator.kube.models import Frozen
from orbiter_triggers.courier.lists import OVERLAP

KEPT_SECONDS: Final = 30 * 24 * 60 * 60
LOOKBACK: Final = timedelta(hours=1)
"""How far back the first poll of a trigger reads, if that is so old: what was before has been told
by webhooks, or was never waited for."""
MOST_SEEN: Final = 1000
_WHOLE: Final = "whole"
T = TypeVar("T", bound=Frozen)
Identity = Annotated[str, StringConstraints(max_length=64)]


class Reached(Frozen):
    """How far a list was read.

    Attributes:
        after: When the newest item was made that was read.
        seen: The items that were read, of the last minutes before.
        etag: Of the first page, when all of it was read.
    """

    after: AwareDatetime
    seen: Annotated[tuple[tuple[AwareDatetime, Identity], ...], Field(max_length=MOST_SEEN)] = ()
    etag: Annotated[str, StringConstraints(max_length=256)] = ""

    def with_item(self, moment: datetime, identity: str) -> "Reached":
        """The same when an item was read."""
        after = max(self.after, moment)
        recent = [one for one in self.seen if one[0] >= after - OVERLAP]
        # Of more than are kept the oldest go: `since` begins behind them.
        recent = sorted([*recent, (moment, identity)], key=lambda one: one[0])
        return Reached(after=after, seen=tuple(recent[-MOST_SEEN:]))

    @property
    def since(self) -> datetime:
        """From when on the list is read again: never so far back that nobody knows what was read.

        Where more happens than is kept, it would be read anew for ever, and nothing behind it.
        """
        begin = self.after - OVERLAP
        full = len(self.seen) >= MOST_SEEN
        return max(begin, min(moment for moment, _ in self.seen)) if full else begin

    @property
    def identities(self) -> frozenset[str]:
        """Of the items that were read."""
        return frozenset(identity for _, identity in self.seen)


class Whole(Frozen):
    """What is of all lists.

    Attributes:
        repository: Which one they are of.
        begin: Nothing that was made before makes a task.
        polled: When all of them were read last.
        suspended: Whether the trigger was suspended then.
    """

    repository: Annotated[str, StringConstraints(max_length=256)]
    begin: AwareDatetime
    polled: AwareDatetime = datetime(1970, 1, 1, tzinfo=UTC)
    suspended: bool = False


class PollState:
    """The state of one trigger's poll.

    Args:
        fields: What Redis has.
    """

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields
        self.whole = _read(Whole, fields.get(_WHOLE, ""))

    def reached(self, name: str, begin: datetime) -> Reached:
        """How far a list was read.

        Args:
            name: The list's.
            begin: From when on it is read when nobody knows.
        """
        found = _read(Reached, self._fields.get(name, ""))
        return found if found is not None and found.after >= begin else Reached(after=begin)


class PollStates:
    """Those of all triggers.

    Args:
        redis: A client for short commands.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def read(self, namespace: str, uid: str) -> PollState:
        """The state of a trigger's poll.

        Raises:
            RedisError: Redis did not answer.
        """
        key = Keys.of_namespace(namespace).trigger_poll(uid)
        found = await self._redis.hgetall(key)
        return PollState({str(name): str(text) for name, text in found.items()})

    async def write(
        self, namespace: str, uid: str, whole: Whole, reached: Mapping[str, Reached]
    ) -> None:
        """Keep it.

        Raises:
            RedisError: Redis did not answer.
        """
        key = Keys.of_namespace(namespace).trigger_poll(uid)
        fields: dict[Any, Any] = {_WHOLE: whole.model_dump_json()}
        fields |= {name: one.model_dump_json() for name, one in reached.items()}
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping=fields)
            pipe.expire(key, KEPT_SECONDS)
            await pipe.execute()


def _read(model: type[T], text: str) -> T | None:
    try:
        return model.model_validate_json(text) if text else None
    except ValidationError:
        return None
