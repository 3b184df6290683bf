"""A PO worker: one user's conversation, message after message, until it is asked to leave."""

import asyncio
from functools import partial
from uuid import NAMESPACE_URL, uuid5

from redis.exceptions import ResponseError
from structlog.contextvars import bound_contextvars

from orbiter_contracts import (
    InvalidMessageError,
    POState,
    POTurn,
    POWorkerInput,
    RotationReason,
    WorkerInput,
    excerpt,
)
from orbiter_contracts.bounds import Int64
from orbiter_contracts.queues import PO_GROUP
from worker_wrapper.handlers.message_handler import (
    DisruptedError,
    Worker,
    begin,
    handle,
)
from worker_wrapper.handlers.po_allowance import HELD_SECONDS, Allowance
from worker_wrapper.handlers.po_cut import CutTurns
from worker_wrapper.handlers.po_turn import Message, POTurns
from worker_wrapper.process.limits import BeyondUseError, Limits, used_up
from worker_wrapper.queue import session_state
from worker_wrapper.queue.claims import POClaim
from worker_wrapper.queue.connection import RedisUnavailableError
from worker_wrapper.queue.deliveries import delivered, poisoned
from worker_wrapper.queue.heartbeat import STANDALONE_SECONDS
from worker_wrapper.queue.lifecycle import event_for
from worker_wrapper.queue.spool import Spool
from worker_wrapper.queue.streams import Entry, InputStream
from worker_wrapper.session.conversations import Conversations
from worker_wrapper.session.embedding import Embedder, HashEmbedder
from worker_wrapper.session.record import Found, SessionTable
from worker_wrapper.session.rotation import (
    COMPARED_TURNS,
    Choice,
    asked_for,
    choose,
    renew_if_outgrown,
)
from worker_wrapper.turn.outputs import refusal
from worker_wrapper.turn.publishing import publishable

_WHY_CHARACTERS = 500
_FAILURES = 2
"""After failing at so many messages in a row it is not the messages."""


async def run(worker: Worker) -> None:
    """Answer messages in their order until we are asked to leave."""
    await PO(worker).run()


class PO:
    """One PO worker: its stream, its users' sessions and the agent's conversations."""

    def __init__(self, worker: Worker, embedder: Embedder | None = None) -> None:
        settings = worker.settings
        self._worker = worker
        self._stream = InputStream(
            *(worker.redis, settings.keys.po_input(settings.worker_id)),
            *(PO_GROUP, settings.worker_id),
            held=self._held,
        )
        records = settings.session_records
        self._sessions = SessionTable(worker.redis, clock=worker.clock, records=records)
        self._embedder = embedder or HashEmbedder()
        self._cuts = CutTurns(worker)
        self._snapshots = worker.snapshots()
        self._turns = self._with_conversations()
        self._limits, self._failures = Limits(), 0
        self._spool = Spool(worker.home, settings.snapshot_key, settings.redis_url)
        self._allowance = Allowance(worker, self._cuts, self._spool)

    async def run(self) -> None:
        """Answer messages in their order until we are asked to leave."""
        shutdown = self._worker.shutdown
        if not await shutdown.unless(begin(self._worker, self._stream, self._restore)):
            return
        while not shutdown.requested.is_set():
            self._limits.check()
            entry = await shutdown.unless(self._next())
            if entry is None or not await self._handle(entry):
                continue
            if not shutdown.superseded.is_set():
                await self._worker.lifecycle.publish("ready")

    async def _next(self) -> Entry | None:
        return await self._stream.next() if await self._allowance.opens() else None

    async def _handle(self, entry: Entry) -> bool:
        """Answer one message, or say why not; False when it was none.

        Whatever goes wrong with a message is that message's: the next one is answered.

        Raises:
            BeyondUseError: The message is answered, but this process would fail at the next too.
        """
        worker, settings = self._worker, self._worker.settings
        claim = POClaim(self._stream, entry, settings.keys, settings.worker_id)
        try:
            alone = bool(settings.key_prefix) or settings.session_users == "Own"
            message = read_message(entry, settings.user_id, alone=alone)
        except InvalidMessageError as error:
            worker.log.warning("dead_letter", entry=entry.id, reason=str(error))
            await self._refuse(claim, "InvalidMessage", str(error))
            return False
        try:
            if not await self._answer_again(claim, message):
                await self._answer(claim, message)
        except (RedisUnavailableError, ResponseError, DisruptedError):
            raise
        except Exception as error:
            worker.log.exception("message_failed", entry=entry.id)
            why = f"the worker failed at this message: {type(error).__name__}: {error}"
            await self._refuse(claim, "WorkerFailed", excerpt(why, _WHY_CHARACTERS))
            self._failures += 1
            if self._failures >= _FAILURES or used_up(error):
                raise BeyondUseError(why) from error
            return True
        self._failures = 0
        return True

    async def _held(self) -> bool:
        """Whether the operator has suspended the session; asked again soon while it is so."""
        settings = self._worker.settings
        held = await self._worker.redis.call("EXISTS", settings.keys.po_hold(settings.worker_id))
        if held:
            await asyncio.sleep(HELD_SECONDS)
        return bool(held)

    def _with_conversations(self) -> POTurns:
        conversations = Conversations(self._worker.home, self._worker.settings.agent.name)
        return POTurns(self._worker, conversations, self._snapshots, self._embedder)

    async def _restore(self) -> None:
        """Have the agent remember what it did when its last answer was published."""
        if not self._snapshots:
            return
        report = await self._snapshots.restore(self._turns.conversations)
        self._turns = self._with_conversations()
        if report:
            text = report.model_dump_json(exclude_none=True)
            await self._worker.redis.call("HSET", self._worker.state_key, "snapshot", text)

    async def _answer_again(self, claim: POClaim, message: POWorkerInput) -> bool:
        """Publish the answer that was there already when Redis went away, if there is one."""
        worker = self._worker
        known = self._spool.read(claim.entry.id, message.request_id, message.user_id)
        if known is None:
            return False
        status = known.output.status
        event = worker.lifecycle.event(
            event_for(status), {"request_id": message.request_id, "status": status}
        )
        settled = await claim.settle(
            publishable(known.output, worker.redactor).model_dump_json(),
            event.model_dump_json(),
            bookkeeping=known.bookkeeping,
            snapshot=known.snapshot,
        )
        self._spool.clear()
        worker.log.info("answered_later", entry=claim.entry.id, status=status, settled=settled)
        # What was forgotten at the start, because its answer was not known to be published.
        await self._restore()
        return True

    async def _answer(self, claim: POClaim, message: POWorkerInput) -> None:
        worker, settings, entry = self._worker, self._worker.settings, claim.entry
        asked, prompt = asked_for(message, settings.rotation.commands)
        before = await self._allowance.state()
        found = await self._sessions.read(message.user_id)
        choice = await self._choose(entry, message, asked, prompt, before, found)
        session_id = choice.record.session_id
        cut = await self._cuts.of(entry.id)
        cuts = cut.cuts if cut else 0
        delivery = await delivered(worker.redis, worker.state_key, entry, cuts=cuts)
        poison = poisoned(entry, cuts=cuts, moved=delivery.moved)
        if cut and cut.session_id != session_id:
            cut = None
        asks = bool(prompt) and not poison
        turn = await worker.shutdown.unless(
            self._allowance.turn(before, asks=asks, goes_on=cut is not None)
        )
        if turn is None:
            return
        record = self._sessions.key(message.user_id), found.rewritten(choice.record)
        details = {"request_id": message.request_id, "session_id": session_id}
        if choice.reason:
            details["rotation"] = choice.reason

        async def take_up() -> None:
            now = worker.clock()
            await worker.lifecycle.publish_with_state(
                "busy",
                session_state.taken(
                    *(message, session_id, choice.rotation(now), before, delivery, now),
                    turn=turn,
                ),
                details,
                record=record if found.ours else None,
            )

        with bound_contextvars(request_id=message.request_id, session_id=session_id):
            if choice.reason:
                worker.log.info("rotated", reason=choice.reason, previous=choice.previous)
            await handle(
                worker,
                claim,
                partial(
                    self._turns.answer,
                    Message(
                        *(message, prompt, session_id, poison, entry.id, entry.deliveries > 1),
                        *(cut, turn),
                    ),
                ),
                renew_seconds=STANDALONE_SECONDS,
                details=details,
                dead_reason=poison or "",
                take_up=take_up,
                spool=self._spool,
            )
        await self._sessions.touch(message.user_id, session_id)

    async def _refuse(self, claim: POClaim, reason: str, why: str) -> None:
        """Put a message that cannot be answered aside; tell its sender if it says who that is."""
        worker = self._worker
        why = worker.redactor.scrub(why)
        user_id, now = worker.settings.user_id, worker.clock()
        output = refusal(claim.entry, why, reason=reason, user_id=user_id, now=now)
        await claim.put_aside(why, output.model_dump_json() if output else "")

    async def _choose(
        self,
        entry: Entry,
        message: POWorkerInput,
        asked: RotationReason | None,
        prompt: str,
        before: POState,
        found: Found,
    ) -> Choice:
        """Find the session of a message; nothing is written yet."""
        worker, settings = self._worker, self._worker.settings
        new_id = str(uuid5(NAMESPACE_URL, f"orbiter:{settings.worker_id}:{entry.id}"))
        choice = choose(
            found.record_or_state(message.user_id, before, settings.worker_id),
            asked=asked,
            now=worker.clock(),
            idle_seconds=settings.rotation.idle_seconds,
            worker_id=settings.worker_id,
            previous=before.session_id if before.user_id == message.user_id else None,
            first_id=None if before.session_id else settings.session_id,
            new_id=new_id,
        )
        old = choice.record.session_id

        async def turns() -> list[POTurn]:
            kept = await self._turns.kept(last=COMPARED_TURNS)
            return [
                turn for turn in kept if (turn.session_id, turn.user_id) == (old, message.user_id)
            ]

        conversation = self._turns.conversations.session(old)
        return await renew_if_outgrown(
            choice, settings.rotation, conversation, prompt, turns, self._embedder, new_id=new_id
        )


class POMessage(WorkerInput):
    """A message that may leave out whose it is."""

    user_id: Int64 | None = None


def read_message(entry: Entry, user_id: int | None, *, alone: bool = False) -> POWorkerInput:
    """Read a message; one that does not say whose it is belongs to the worker's own user.

    Args:
        entry: Where it is.
        user_id: The worker's own user, if it has one.
        alone: Whether that user's record is the only one that it may touch.

    Raises:
        InvalidMessageError: It is none, or that of a user who is not to be answered here.
    """
    if user_id is None:
        return entry.message(POWorkerInput)
    said = entry.message(POMessage)
    whose = user_id if said.user_id is None else said.user_id
    if alone and whose != user_id:
        raise InvalidMessageError(f"user_id: {whose}, and this session is that of user {user_id}")
    return POWorkerInput.model_validate({**dict(said), "user_id": whose})
