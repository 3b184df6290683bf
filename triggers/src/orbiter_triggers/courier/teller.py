"""Puts what a poll has found where the controller takes events from, unless nothing comes of it."""

from collections.abc import Callable

import structlog
from redis.asyncio import Redis

from orbiter_contracts.queues import Keys
from orbiter_contracts.trigger_events import sized
from orbiter_triggers.courier.found import Found
from orbiter_triggers.courier.targets import Target
from orbiter_triggers.event_stream import EventStream
from orbiter_triggers.events.filters import verdict
from orbiter_triggers.naming import event_digest

log = structlog.get_logger(__name__)


class Teller:
    """For one trigger, in one round.

    Args:
        redis: A client for short commands.
        target: The trigger.
        now: Seconds since 1970.
        allowed: Raises unless this replica is the active one.
        count: Called with what has become of each event.
    """

    def __init__(
        self,
        redis: Redis,
        target: Target,
        now: float,
        allowed: Callable[[], None],
        count: Callable[[str], None],
    ) -> None:
        self._redis = redis
        self._stream = EventStream(redis)
        self._target = target
        self._now = now
        self._allowed = allowed
        self._count = count
        self._told = set[str]()

    async def tell(self, found: Found, identity: str) -> None:
        """Tell of an event.

        Args:
            found: The event.
            identity: What is the same when it is found again.

        Raises:
            StreamFullError: The namespace has as many as may wait.
            RedisError: Redis did not answer.
            NotLeadingError: Another replica is the active one.
        """
        target, delivery = self._target, f"poll-{identity}"
        event = sized(
            {
                "trigger": target.key.name,
                "uid": target.uid,
                "scheme": "github",
                "identity": delivery,
                "delivery": delivery,
                "received": int(self._now),
            }
            | found.fields
        )
        said = verdict(event, target.spec)
        # What is named by its delivery would be another task than the webhook's.
        if said.why or said.key.startswith("delivery:"):
            self._count("ignored")
            return
        if said.key in self._told or await self._made(said.key):
            self._count("known")
            return
        self._allowed()
        await self._stream.add(target.key.namespace, event)
        self._told.add(said.key)
        self._count("found")
        log.info("event found", trigger=str(target.key), kind=event.kind, key=said.key)

    async def _made(self, key: str) -> bool:
        """Whether an event of that key has made its task."""
        keys, uid = Keys.of_namespace(self._target.key.namespace), self._target.uid
        [found] = await self._redis.mget([keys.trigger_memory(uid, event_digest(uid, key))])
        return found is not None
