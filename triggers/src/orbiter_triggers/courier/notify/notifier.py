"""The loop of notifications: objects as they change, noted; what was noted, sent in its order.

A change of an object puts its notifications on one queue, and whoever takes them off it has them
noted in Redis. A lane (one object, one receiver) is on the other, and whoever takes it off sends
its head and writes down what came of that. Both queues let namespaces take turns.
"""

import asyncio
import hashlib
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any, Final, Protocol

import structlog
from redis.exceptions import RedisError

from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.events import EventPoster
from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.leader_election import NotLeadingError
from orbiter_operator.kube.models import Event
from orbiter_operator.kube.names import Key
from orbiter_operator.kube.resources import AGENT_BUDGETS, AGENT_TASKS, PO_SESSIONS, Resource
from orbiter_operator.runtime.reconciler import WorkQueue, run_pass
from orbiter_operator.runtime.supervisor import Part, every, run_concurrently
from orbiter_triggers.courier.notify.budgets import Budgets
from orbiter_triggers.courier.notify.facts import BUDGET, SESSION, TASK, Kind
from orbiter_triggers.courier.notify.models import Lane, Notification
from orbiter_triggers.courier.notify.outbox import Outbox
from orbiter_triggers.courier.notify.retries import Answer, Verdict, verdict
from orbiter_triggers.courier.notify.turns import Turns
from orbiter_triggers.courier.notify.watched import Watched, planned

log = structlog.get_logger(__name__)
Object = dict[str, Any]
_SENDERS: Final = 16
_NOTERS: Final = 4
_PAUSE_SECONDS: Final = 1.0
_RETRIED: Final = (RedisError, ApiError, NotLeadingError, *TRANSPORT_ERRORS)
_SHOWN: Final = 400
FAILED, DELAYED = "NotificationFailed", "NotificationDelayed"
"""Reasons of Events."""


class Sends(Protocol):
    """What sends one notification."""

    async def send(self, told: Notification) -> Answer: ...  # noqa: D102


def _now() -> datetime:
    return datetime.now(UTC)


class Notifier:
    """Tells of the objects of all namespaces.

    Args:
        kube: The API client.
        outbox: What is to be told.
        sender: Sends.
        namespaces: Which namespaces; empty for all.
        identity: This replica's name, in Events.
        allowed: Raises unless this replica is the active one.
        count: Called with what came of each try: `sent`, `retried` or `dead`.
        base: What tells this cluster from others in an event's source.
        resync_seconds: Seconds between two full comparisons with the cluster.
        clock: The time.
        chance: From 0 to 1, for the pauses between tries.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        outbox: Outbox,
        sender: Sends,
        namespaces: Sequence[str],
        identity: str,
        allowed: Callable[[], None],
        count: Callable[[str], None],
        base: str = "",
        resync_seconds: float = 600,
        clock: Callable[[], datetime] = _now,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.outbox = outbox
        self._sender, self._allowed, self._count = sender, allowed, count
        self._clock, self._chance, self._resync_seconds = clock, chance, resync_seconds
        self._events = EventPoster(kube, identity)
        self._seen: dict[Key, tuple[Notification, ...]] = {}
        self._decided: dict[Lane, Verdict] = {}
        self._turns = Turns()
        self.objects: WorkQueue[Key] = WorkQueue(time.monotonic, attrgetter("namespace"))
        self.lanes: WorkQueue[Lane] = WorkQueue(time.monotonic, attrgetter("namespace"))

        plan = partial(planned, Budgets(), now=clock, base=base)

        def informer(resource: Resource, kind: Kind) -> Informer:
            watched = Watched(kind, plan, self._saw)
            return Informer(kube, resource, watched, namespaces=namespaces)

        kinds: tuple[tuple[Resource, Kind], ...]
        kinds = ((AGENT_TASKS, TASK), (PO_SESSIONS, SESSION), (AGENT_BUDGETS, BUDGET))
        self._informers = tuple(informer(resource, kind) for resource, kind in kinds)

    async def run(self) -> None:
        """Tell until cancelled, through every failure of Redis and the API server."""
        await self._load()
        pass_of = partial(run_pass, retried=_RETRIED, measure=lambda seconds, ok: None)
        parts: dict[str, Part] = {one.plural: one.follow for one in self._informers}
        note = partial(pass_of, self.objects, work=self._note)
        tell = partial(pass_of, self.lanes, work=self._tell)
        parts["resync"] = self._resync
        parts |= every(_NOTERS, "noting", partial(self.objects.work, note))
        parts |= every(_SENDERS, "telling", partial(self.lanes.work, tell))
        await run_concurrently({name: part() for name, part in parts.items()})

    def gauges(self) -> dict[str, float]:
        """What waits, for the metrics."""
        return {
            "orbiter_notifications_waiting": float(len(self.outbox)),
            "orbiter_notifications_oldest_seconds": self.outbox.oldest(self._clock()),
        }

    def problem(self) -> str | None:
        """Which watches are interrupted; None when none is."""
        kinds = [one.plural for one in self._informers if not one.synced]
        return f"the watch of {', '.join(kinds)} is interrupted" if kinds else None

    async def _resync(self) -> None:
        """Make up for lost events: list everything, and plan for it again."""
        while True:
            await asyncio.sleep(self._resync_seconds)
            try:
                for informer in self._informers:
                    await informer.compare()
            except (ApiError, *TRANSPORT_ERRORS, ValueError) as error:
                log.warning("cannot compare", error=repr(error))
            for lane in self.outbox.lanes:
                self.lanes.add(lane)

    async def _load(self) -> None:
        while True:
            try:
                self._allowed()
                await self.outbox.load()
            except (RedisError, OSError) as error:
                log.warning("what waits cannot be read", error=repr(error))
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                break
        self._turns = Turns()
        self._decided = {
            lane: one
            for lane, one in self._decided.items()
            if (head := self.outbox.head(lane)) and head.field == one.notification.field
        }
        for lane in self.outbox.lanes:
            self.lanes.add(lane)

    def _saw(self, key: Key, told: tuple[Notification, ...]) -> None:
        known = {one.field: one for one in (*self._seen.get(key, ()), *told)}
        self._seen[key] = tuple(known.values())
        self.objects.add(key)

    async def _note(self, key: Key) -> str | None:
        told = self._seen.get(key, ())
        if told:
            self._allowed()
            new, lost = await self.outbox.note(told)
            for one in new:
                self.lanes.add(one.lane)
            for one in lost:
                self._count("dead")
                await self._post_event(one, FAILED, "")
            if self._seen.get(key) == told:
                del self._seen[key]
        return None

    async def _tell(self, lane: Lane) -> str | None:
        """Send the head of a lane if it is due, and write down what came of it."""
        head, now = self.outbox.head(lane), self._clock()
        if head is None:
            return None
        if lane not in self._decided:
            if head.due > now:
                self._again(lane, (head.due - now).total_seconds())
                return None
            if not self._turns.enter(lane):
                return None
            try:
                await self._try(lane, head)
            finally:
                if (following := self._turns.leave(lane)) is not None:
                    self.lanes.add(following)
        # What was sent and could not be written down is not sent again, only written.
        decided = self._decided[lane]
        self._allowed()
        await self.outbox.settle(decided)
        del self._decided[lane]
        if decided.state == "dead":
            await self._post_event(decided.notification, FAILED, "")
        if self.outbox.head(lane) is not None:
            self.lanes.add(lane)
        return None

    async def _try(self, lane: Lane, head: Notification) -> None:
        self._allowed()
        answer = await self._sender.send(head)
        decided = verdict(head, answer, self._clock(), self._chance())
        self._decided[lane] = decided
        told = decided.notification
        self._count("retried" if decided.state == "waiting" else decided.state)
        log.info(
            "notification",
            id=told.identifier,
            receiver=told.sink.place,
            state=decided.state,
            tries=told.tries,
            why="" if decided.state == "sent" else told.why,
        )
        if answer.setup and decided.state == "waiting":
            await self._post_event(told, DELAYED, "; it is tried again for a day")

    async def _post_event(self, told: Notification, reason: str, more: str) -> None:
        """Say so where people look; that nobody can is no reason to stop."""
        subject = told.subject
        meta = {"name": subject.name, "namespace": subject.namespace, "uid": subject.uid}
        text = f"{told.occasion} was not told to {told.sink.place}: {told.why}{more}"
        digest = hashlib.sha256(told.field.encode()).digest()
        event = Event(
            kind="Warning",
            reason=reason,
            message=text[:_SHOWN],
            attempt=told.tries if reason == FAILED else 0,
            number=int.from_bytes(digest[:4]),
        )
        try:
            self._allowed()
            await self._events.post({"kind": subject.kind, "metadata": meta}, event, self._clock())
        except (ApiError, *TRANSPORT_ERRORS) as error:
            log.warning("no Event", object=subject.name, error=str(error))

    def _again(self, lane: Lane, seconds: float) -> None:
        self.lanes.requeue_at(lane, time.monotonic() + seconds)
