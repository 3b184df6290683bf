"""A PO's turn that was cut off because its pod had to go: what is kept of it, and how it goes on.

The message stays on the queue. The session's state says where its turn was cut, written in one step
with the agent's memory in the middle of it; whoever starts next under the worker's name goes on
under the same request_id, and answers once. What the cut turn has cost is in that answer.

For pods that are killed without a word it is written from time to time, too, for agents that go on
from a copy made in the middle of their work. A delivery that was kept says nothing against its
message: what it took of the turn's time, turns and money is gone, so that this has an end. So it is
with one that was cut off before anything was heard of the model, but nothing is copied of that: the
conversation may not have the message yet, and the agent is given it again.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Final

from pydantic import Field
from redis.exceptions import ResponseError

from orbiter_contracts import Checkpoint, InvalidMessageError, Usage, decode_json
from orbiter_contracts.bounds import MAX_TIMEOUT_SECONDS, Id
from orbiter_contracts.checkpoint_scripts import READ
from orbiter_contracts.checkpoints import (
    MAX_CHECKPOINT_BYTES,
    MAX_CHECKPOINT_JSON_BYTES,
    MAX_GENERATION,
)
from orbiter_contracts.message_base import Message
from orbiter_contracts.queues import PO_GROUP
from orbiter_contracts.worker_scripts import KEEP_TURN
from worker_wrapper.agents.base import Session
from worker_wrapper.checkpoint.meter import Meter, own_cost
from worker_wrapper.checkpoint.resume import Earlier, prompts
from worker_wrapper.checkpoint.schedule import from_time_to_time, meanwhile
from worker_wrapper.handlers.message_handler import Worker
from worker_wrapper.queue.checkpoints import Stored
from worker_wrapper.queue.connection import RedisUnavailableError
from worker_wrapper.queue.session_state import Snapshot
from worker_wrapper.session.conversations import Conversations
from worker_wrapper.session.copies import SessionCopies
from worker_wrapper.session.snapshot import SnapshotStore
from worker_wrapper.turn.usage import priced, together

FIELD: Final = "interrupted"
"""Of a PO's state: the JSON of a `CutTurn`; there while its message waits to be gone on with."""


class CutTurn(Message):
    """Where a turn was cut off.

    Attributes:
        entry: Its message's entry.
        session_id: The session it belongs to.
        cuts: In how many deliveries it was kept; so many say nothing against its message.
        checkpoint: When, and what it has cost by then.
    """

    entry: Id
    session_id: Id
    cuts: Annotated[int, Field(ge=1, le=MAX_GENERATION)]
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Begun:
    """A turn under way.

    Attributes:
        entry: Its message's entry.
        session: The conversation as it began with it.
        at: When, on the event loop's clock.
        cut: Where an earlier pod was cut off in it.
    """

    entry: str
    session: Session
    at: float
    cut: CutTurn | None


class CutTurns:
    """Those of one worker.

    Args:
        worker: The worker.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._copies = SessionCopies(worker.settings.agent, worker.environ, worker.home)

    async def of(self, entry: str) -> CutTurn | None:
        """Where the turn of this entry was cut off; None when it was not, or nobody can say."""
        size, text = await self._worker.redis.run(
            READ, (self._worker.state_key,), FIELD, MAX_CHECKPOINT_JSON_BYTES, decode=False
        )
        try:
            found = decode_json(CutTurn, text) if size > 0 and text else None
        except InvalidMessageError:
            return None
        return found if found is not None and found.entry == entry else None

    async def any(self) -> bool:
        """Whether there is a turn that was cut off and kept, of whichever entry."""
        size, _ = await self._worker.redis.run(READ, (self._worker.state_key,), FIELD, 0)
        return bool(size > 0)

    async def session(self, session: Session) -> Session:
        """The conversation to go on with; what it costs from here on is counted from there."""
        totals = await self._copies.recorded(session) or session.totals or Usage()
        return replace(session, totals=totals)

    def prompts(self, prompt: str, cut: CutTurn) -> tuple[str, str | None]:
        """What the agent is told, and what it is told when its CLI knows of no conversation."""
        earlier = Earlier(cut.checkpoint, Stored(cut.checkpoint))
        # Where a snapshot is all that is kept, the workspace is a new one.
        return prompts(prompt, earlier, None, files=self._worker.settings.snapshot is None)

    @asynccontextmanager
    async def kept_meanwhile(
        self,
        begun: Begun,
        meter: Meter,
        conversations: Conversations,
        snapshots: SnapshotStore | None,
    ) -> AsyncIterator[None]:
        """Keep the turn from time to time, for as long as it is under way and its agent allows."""
        settings, heard = self._worker.settings, 0
        if not settings.agent.resumes_mid_turn:
            yield
            return

        async def save(*, leaving: bool) -> bool:
            # Asked to leave or not: the agent works on, and there is something once it has spoken.
            nonlocal heard
            events = meter.events
            if events == heard:
                return True
            try:
                await self.keep(begun, meter, conversations, snapshots, ended=False)
            except (RedisUnavailableError, ResponseError, OSError) as error:
                self._worker.log.warning("turn_not_kept", leaving=leaving, error=f"{error}")
                return False
            heard = events
            return True

        asked_to_leave = self._worker.shutdown.requested
        async with meanwhile(
            from_time_to_time(
                save, lambda: meter.events > heard, settings.checkpoint_seconds, asked_to_leave
            )
        ):
            yield

    async def keep(
        self,
        begun: Begun,
        meter: Meter,
        conversations: Conversations,
        snapshots: SnapshotStore | None,
        *,
        ended: bool = True,
    ) -> bool:
        """Keep a turn; whether the next pod knows of it.

        Args:
            begun: The turn.
            meter: What has been heard of it.
            conversations: What this disk knows of them.
            snapshots: What stores the agent's memory, where no volume does.
            ended: Whether its agent has been ended. Of one at work no memory is stored that is so
                large that all others in Redis would wait for it, again and again.

        Raises:
            RedisUnavailableError: It could not be written.
        """
        if not meter.events:
            return await self._written(begun.entry, self._cut(begun, None, ended), None)
        session = begun.session
        if meter.conversation:
            session = replace(session, agent_session_id=meter.conversation)
        own = own_cost(meter.spent, await self._copies.recorded(session), begun.session)
        session = replace(session, resumed=True)
        unfinished = conversations.unfinished
        conversations.keep(session)
        conversations.begin(None)
        kept = False
        try:
            snapshot = await snapshots.take(session, conversations) if snapshots else None
            size = len(snapshot.data or b"") if snapshot else 0
            fits = ended or size <= MAX_CHECKPOINT_BYTES
            if fits and not (snapshot and snapshot.data is None):
                cut = self._cut(begun, own, ended, copied=True)
                kept = await self._written(begun.entry, cut, snapshot)
        finally:
            if not kept:
                conversations.begin(unfinished)
        self._worker.log.info("turn_kept", kept=kept, bytes=size)
        return kept

    def _cut(
        self, begun: Begun, own: Usage | None, ended: bool, *, copied: bool = False
    ) -> CutTurn:
        before = begun.cut.checkpoint if begun.cut else None
        cost = together(priced(before.usage, own) if before else None, own)
        seconds = asyncio.get_running_loop().time() - begun.at
        seconds += before.agent_seconds if before else 0.0
        cuts = begun.cut.cuts % MAX_GENERATION + 1 if begun.cut else 1
        return CutTurn(
            entry=begun.entry,
            session_id=begun.session.id,
            cuts=cuts,
            checkpoint=Checkpoint(
                time=self._worker.clock(),
                generation=cuts,
                turns=cost.turns if cost else 0,
                cost_usd=cost.cost_usd if cost else None,
                usage=cost,
                session=copied or (before is not None and before.session),
                disruption=ended,
                agent_seconds=min(seconds, MAX_TIMEOUT_SECONDS),
            ),
        )

    async def _written(self, entry: str, cut: CutTurn, snapshot: Snapshot | None) -> bool:
        settings, redis = self._worker.settings, self._worker.redis
        keys = [settings.keys.po_input(settings.worker_id), self._worker.state_key]
        words: list[str | bytes] = [PO_GROUP, settings.worker_id, entry, FIELD]
        words.append(cut.model_dump_json())
        if snapshot is not None and snapshot.data is not None:
            keys.append(snapshot.key)
            words.append(snapshot.data)
        return bool(await redis.run(KEEP_TURN, keys, *words, tries=2))
