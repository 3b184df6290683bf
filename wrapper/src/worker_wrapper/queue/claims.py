"""An entry that is ours to answer: keeping the claim while the agent runs, and settling it once.

Three kinds. `QueueClaim` is held by the consumer group alone (standalone developers). `POClaim` is
one whose answer, state, turn and snapshot become true in one step, or none of them does.
`AttemptClaim` belongs to an attempt of an AgentTask, whose record operator and worker share.
"""

from dataclasses import replace
from typing import Literal, Protocol

from redis.exceptions import OutOfMemoryError, ResponseError

from orbiter_contracts import SnapshotReport
from orbiter_contracts.bounds import DEAD_LETTERS_KEPT
from orbiter_contracts.dead_letters import dead_letter_fields
from orbiter_contracts.queues import (
    ATTEMPT_FIELD,
    TASK_FIELD,
    Keys,
    dead_letter,
)
from orbiter_contracts.scripts import ATTEMPT_TTL_SECONDS, PUBLISH
from orbiter_contracts.worker_scripts import RENEW, SETTLE, SETTLE_TURN
from worker_wrapper.queue.changes import flat
from worker_wrapper.queue.connection import TRIES, RedisUnavailableError
from worker_wrapper.queue.session_state import KEPT_TURNS, Bookkeeping, Snapshot
from worker_wrapper.queue.streams import Entry, InputStream

ClaimState = Literal["held", "taken", "gone", "lost"]
"""`held`: ours. `taken`: another consumer has it. `gone`: settled or withdrawn. `lost`: Redis lost
its data, so that nobody else knows of the entry; it is still ours to answer."""


class Claim(Protocol):
    """What developer.py, po.py and heartbeat.py do with an entry."""

    @property
    def entry(self) -> Entry:
        """The entry."""

    async def renew(self, *, tries: int = TRIES) -> ClaimState:
        """Say where the claim stands; renew it when it is held."""

    async def settle(
        self,
        output: str,
        event: str,
        *,
        dead_reason: str = "",
        bookkeeping: Bookkeeping | None = None,
        snapshot: Snapshot | None = None,
    ) -> bool:
        """Publish the outcome and take the entry off the queue, in one step.

        Args:
            output: The output's JSON; "" for none.
            event: The lifecycle event's JSON; "" for none.
            dead_reason: Also put the entry on the dead-letter stream, for this reason.
            bookkeeping: What a PO's state says afterwards.
            snapshot: What the agent remembers, for a PO or an attempt with a record.

        Returns:
            False when nothing was done, because the entry was settled or withdrawn already, or
            another worker has it by now.
        """


class QueueClaim:
    """A claim that the consumer group keeps.

    Args:
        stream: The stream it came from.
        entry: The entry.
        output: The stream outputs go to.
        lifecycle: The stream events go to.
        firm: The entry is ours whoever was handed it meanwhile.
    """

    def __init__(
        self,
        stream: InputStream,
        entry: Entry,
        *,
        output: str,
        lifecycle: str,
        firm: bool = False,
    ) -> None:
        self.entry = entry
        self._lifecycle = lifecycle
        self._stream = stream
        self._output = output
        self._who = (stream.group, stream.consumer, entry.id, "1" if firm else "0")

    async def renew(self, *, tries: int = TRIES) -> ClaimState:
        """See `Claim`."""
        state: ClaimState = await self._stream.redis.run(
            RENEW, (self._stream.key,), *self._who, tries=tries
        )
        return state

    async def settle(
        self,
        output: str,
        event: str,
        *,
        dead_reason: str = "",
        bookkeeping: Bookkeeping | None = None,
        snapshot: Snapshot | None = None,
    ) -> bool:
        """See `Claim`; there is nowhere to store more than the outcome."""
        key, dead = self._stream.key, dead_letter(self._stream.key)
        routing = [
            text
            for name in (TASK_FIELD, ATTEMPT_FIELD)
            if name in self.entry.fields
            for text in (name, self.entry.fields[name])
        ]
        settled = await self._stream.redis.run(
            SETTLE,
            (key, self._output, self._lifecycle, dead),
            *(*self._who, output, event, dead_reason, *routing),
        )
        return bool(settled)


class AttemptClaim:
    """The claim of an attempt of an AgentTask, which has a record of its own.

    Args:
        stream: The developer input stream.
        entry: The attempt's entry.
        keys: The keys it is one of.
        record: Key of the attempt's record.
        task: `<namespace>/<name>` of the AgentTask.
        attempt: The attempt's number.
    """

    def __init__(
        self,
        stream: InputStream,
        entry: Entry,
        *,
        keys: Keys,
        record: str,
        task: str,
        attempt: int,
    ) -> None:
        self.entry = entry
        self._published_to = (keys.developer_output, keys.lifecycle)
        self._stream = stream
        self._record = record
        self._task = task
        self._attempt = attempt

    async def renew(self, *, tries: int = TRIES) -> ClaimState:
        """See `Claim`. Never `taken`: an attempt's entry is run by its own Job alone."""
        redis, stream = self._stream.redis, self._stream
        try:
            held = await redis.call(
                *("XCLAIM", stream.key, stream.group, stream.consumer, 0, self.entry.id),
                *("FORCE", "JUSTID"),
                tries=tries,
            )
        except ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
            held = []
        if held:
            return "held"
        return "gone" if await redis.call("EXISTS", self._record, tries=tries) else "lost"

    async def settle(
        self,
        output: str,
        event: str,
        *,
        dead_reason: str = "",
        bookkeeping: Bookkeeping | None = None,
        snapshot: Snapshot | None = None,
    ) -> bool:
        """See `Claim`; the next attempt finds the snapshot."""
        redis, stream = self._stream.redis, self._stream
        if dead_reason:
            fields = dead_letter_fields(self.entry.fields, dead_reason)
            flat = [text for pair in fields.items() for text in pair]
            most = ("MAXLEN", DEAD_LETTERS_KEPT)
            await redis.call("XADD", dead_letter(stream.key), *most, "*", *flat)
        keys = [self._record, stream.key, *self._published_to]
        words: list[str | int | bytes] = [ATTEMPT_TTL_SECONDS, self.entry.id, stream.group]
        words += [output, event, self._task, self._attempt]
        if snapshot is not None and snapshot.data is not None:
            keys.append(snapshot.key)
            words.append(snapshot.data)
        published = await redis.run(PUBLISH, keys, *words)
        return published is not None


class POClaim(QueueClaim):
    """A claim of a PO, whose state, turns and snapshot are stored with its answer."""

    def __init__(self, stream: InputStream, entry: Entry, keys: Keys, worker_id: str) -> None:
        super().__init__(stream, entry, output=keys.po_output(worker_id), lifecycle=keys.lifecycle)
        self._state_keys = (keys.po_state(worker_id), keys.po_turns(worker_id))

    async def settle(
        self,
        output: str,
        event: str,
        *,
        dead_reason: str = "",
        bookkeeping: Bookkeeping | None = None,
        snapshot: Snapshot | None = None,
    ) -> bool:
        """See `Claim`. A Redis without room for the snapshot gets the answer without it."""
        published = (output, event, dead_reason)
        kept = bookkeeping or Bookkeeping()
        try:
            return await self._settle_turn(kept, snapshot, *published, tries=1)
        except RedisUnavailableError as error:
            if isinstance(error.__cause__, OutOfMemoryError) and snapshot and snapshot.data:
                kept, snapshot = _not_stored(kept, len(snapshot.data)), None
        return await self._settle_turn(kept, snapshot, *published, tries=TRIES)

    async def put_aside(self, reason: str, output: str) -> bool:
        """Put a message that nobody can read on the dead-letter stream; it says nothing of us.

        Args:
            reason: Why.
            output: What its sender is told, as JSON; "" when nobody knows who that is.
        """
        return await super().settle(output, "", dead_reason=reason)

    async def _settle_turn(
        self,
        kept: Bookkeeping,
        snapshot: Snapshot | None,
        output: str,
        event: str,
        dead_reason: str,
        *,
        tries: int,
    ) -> bool:
        key = self._stream.key
        keys = [key, self._output, self._lifecycle, dead_letter(key), *self._state_keys]
        data: bytes | str = ""
        if snapshot is not None and snapshot.data is not None:
            keys.append(snapshot.key)
            data = snapshot.data
        words = (*self._who, output, event, dead_reason, kept.turn, KEPT_TURNS, data)
        settled = await self._stream.redis.run(
            SETTLE_TURN, keys, *words, *flat(kept.changes), tries=tries
        )
        return bool(settled)


def _not_stored(kept: Bookkeeping, size: int) -> Bookkeeping:
    report = SnapshotReport(stored=False, bytes=size, reason="NoMemory")
    changes = {**kept.changes, "snapshot": report.model_dump_json(exclude_none=True)}
    return replace(kept, changes=changes)
