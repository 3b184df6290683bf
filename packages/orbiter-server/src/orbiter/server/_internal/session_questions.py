"""What sessions ask, as the ends of their transcripts say: read when something was said since.

A worker writes there that it asks and then that its turn is over, before anybody hears its answer;
what comes behind that, whoever has said it, takes the question away.
"""

import asyncio
import importlib
import logging
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from orbiter.server._internal.cluster_detail import TEXT_CHARS
from orbiter.server._internal.errors import RequestError, logged
from orbiter.server._internal.redis_access import Access, connected
from orbiter.server._internal.transcripts import Place
from orbiter.server._internal.waiting import MayAsk

if TYPE_CHECKING:
    from orbiter_contracts.transcript import InputRequestEvent

logger = logging.getLogger("orbiter.server")
AT_ONCE = 8
"""Namespaces."""
READ_SECONDS = 5.0
"""What one of them may take; its Redis may be anybody's."""
ALL_SECONDS = 8.0
CANCEL_SECONDS = 0.5
AWAY_SECONDS = 20.0
"""For so long one that could not be read is not tried again."""
SILENT_SECONDS = 60.0
"""For so long a session that asks nothing is believed: its transcript may come late."""
MOST_KNOWN = 5000
_ENTRIES = 2
"""What ends a turn is written at once, and may begin a new entry."""


class _Known(NamedTuple):
    version: str
    asks: "InputRequestEvent | None"
    until: float


class SessionQuestions:
    """The questions of the cluster's sessions.

    Args:
        access: Says how the readers of a namespace's transcripts reach Redis; raises a RequestError
            where they do not.
        clock: Seconds.
    """

    def __init__(
        self,
        access: Callable[[str], Awaitable[Access]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._clock = clock
        self._known: OrderedDict[Place, _Known] = OrderedDict()
        self._away: dict[str, float] = {}
        self._loaded = False
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def of(
        self, sessions: Sequence[MayAsk]
    ) -> "tuple[dict[Place, InputRequestEvent], list[str]]":
        """Return what sessions ask, and the namespaces that cannot be read now."""
        unread = defaultdict[str, list[MayAsk]](list)
        for each in sessions:
            if self._kept(each) is None:
                unread[each.place.namespace].append(each)
        if unread and not self._loaded:
            # not in the time that a namespace has, nor on the event loop
            await asyncio.to_thread(_load)
            self._loaded = True
        reading = [asyncio.create_task(self._read(*found)) for found in unread.items()]
        try:
            if reading:
                await asyncio.wait(reading, timeout=ALL_SECONDS)
        finally:
            late = [task for task in reading if not task.done() and task.cancel()]
            if late:
                # redis-py may swallow a cancellation: nobody waits for that
                await asyncio.wait(late, timeout=CANCEL_SECONDS)
        asked = {}
        left_out = set[str]()
        for each in sessions:
            known = self._kept(each)
            if known is None:
                left_out.add(each.place.namespace)
            elif known.asks is not None:
                asked[each.place] = known.asks
        return asked, sorted(left_out)

    def answered(self, session: MayAsk) -> None:
        """Note that a session was answered: its status says so a moment later."""
        self._keep(session, None)

    def _kept(self, session: MayAsk) -> _Known | None:
        known = self._known.get(session.place)
        if known is None or known.version != session.version or known.until < self._clock():
            return None
        self._known.move_to_end(session.place)
        return known

    def _keep(self, session: MayAsk, asks: "InputRequestEvent | None") -> None:
        until = self._clock() + SILENT_SECONDS if asks is None else float("inf")
        self._known[session.place] = _Known(session.version, asks, until)
        self._known.move_to_end(session.place)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    async def _read(self, namespace: str, sessions: list[MayAsk]) -> None:
        from redis.exceptions import RedisError, ResponseError

        async with self._slots:
            # another viewer may have read them meanwhile, or found out that nobody can
            sessions = [each for each in sessions if self._kept(each) is None]
            if not sessions or self._clock() < self._away.get(namespace, 0.0):
                return
            try:
                async with asyncio.timeout(READ_SECONDS):
                    access = await self._access(namespace)
                    async with connected(access, READ_SECONDS) as connection:
                        for each in sessions:
                            await connection.send_command(
                                "XREVRANGE", each.place.stream, "+", "-", "COUNT", _ENTRIES
                            )
                            try:
                                reply = await connection.read_response()
                            except ResponseError:
                                reply = None  # no stream, or not the readers': that session's
                            self._keep(each, asked_at_the_end(reply))
            except (RedisError, OSError, RequestError) as error:
                # also what took too long: a TimeoutError is an OSError
                self._leave(namespace, error)
            except Exception as error:
                # whatever somebody has written there, or into the Secret, is that namespace's
                logger.exception("questions of the sessions of %s", namespace)
                self._leave(namespace, error)

    def _leave(self, namespace: str, error: Exception) -> None:
        logger.warning("questions of the sessions of %s: %s", namespace, logged(error))
        now = self._clock()
        self._away = {name: until for name, until in self._away.items() if now < until}
        self._away[namespace] = now + AWAY_SECONDS


def _load() -> None:
    from kubernetes.aio import client

    for name in (
        "orbiter.server._internal.redis_replies",
        "orbiter_contracts.redis_connection",
        "orbiter_contracts.transcript_reading",
        client.CoreV1Api.__module__,
    ):
        importlib.import_module(name)


def asked_at_the_end(reply: Any) -> "InputRequestEvent | None":
    """Return the question with which a transcript ends, as much of it as is shown.

    It is None when the transcript ends otherwise.

    Args:
        reply: Its last entries, the newest first.
    """
    from orbiter_contracts.transcript import AnyEvent, InputRequestEvent, VerdictEvent
    from orbiter_contracts.transcript_reading import read_entry

    events = list[AnyEvent]()
    for _, fields in reversed(reply or ()):
        flat = fields or ()
        events += read_entry(dict(zip(flat[::2], flat[1::2], strict=False))).events
    if not events:
        return None
    end = events[-1]
    if not isinstance(end, VerdictEvent) or end.status != "input_required" or not end.request_id:
        return None
    questions = [
        event
        for event in events
        if isinstance(event, InputRequestEvent) and event.request_id == end.request_id
    ]
    if not questions:
        return None
    shown = questions[-1].question[:TEXT_CHARS]
    return questions[-1].model_copy(update={"question": shown})  # thousands of them are kept
