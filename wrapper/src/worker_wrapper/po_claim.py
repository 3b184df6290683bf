"""A PO message that is ours to answer, and all that is stored with its answer.

Answer, state, turn and the agent's memory become true in one step, or none of them does.
"""

from dataclasses import dataclass, field, replace

from redis.exceptions import OutOfMemoryError

from orbiter_contracts import SnapshotReport
from orbiter_contracts.queues import LIFECYCLE, dead_letter, po_output, po_state, po_turns
from worker_wrapper.claims import QueueClaim
from worker_wrapper.connection import TRIES, RedisUnavailableError
from worker_wrapper.ledger import KEPT_TURNS
from worker_wrapper.memory import Snapshot
from worker_wrapper.po_scripts import SETTLE_TURN, Changes, flat
from worker_wrapper.streams import Entry, InputStream


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """What is stored with an answer.

    Attributes:
        changes: Of the state.
        turn: The turn's JSON; "" when the agent was not asked.
        snapshot: What the agent remembers.
    """

    changes: Changes = field(default_factory=dict)
    turn: str = ""
    snapshot: Snapshot | None = None


class POClaim(QueueClaim):
    """A claim with the bookkeeping of its answer, which is set when the work is done."""

    def __init__(self, stream: InputStream, entry: Entry, worker_id: str) -> None:
        super().__init__(stream, entry, output=po_output(worker_id))
        self.books = Bookkeeping()
        self._books_keys = (po_state(worker_id), po_turns(worker_id))

    async def settle(self, output: str, event: str, *, dead_reason: str = "") -> bool:
        """See `Claim`. A Redis without room for the snapshot gets the answer without it."""
        published = (output, event, dead_reason)
        try:
            return await self._settle_turn(self.books, *published, tries=1)
        except RedisUnavailableError as error:
            kept = self.books.snapshot
            if isinstance(error.__cause__, OutOfMemoryError) and kept and kept.data:
                self.books = _without_snapshot(self.books, len(kept.data))
        return await self._settle_turn(self.books, *published, tries=TRIES)

    async def put_aside(self, reason: str, output: str) -> bool:
        """Put a message that nobody can read on the dead-letter stream; it says nothing of us.

        Args:
            reason: Why.
            output: What its sender is told, as JSON; "" when nobody knows who that is.
        """
        return await super().settle(output, "", dead_reason=reason)

    async def _settle_turn(
        self, books: Bookkeeping, output: str, event: str, dead_reason: str, *, tries: int
    ) -> bool:
        key, snapshot = self._stream.key, books.snapshot
        keys = [key, self._output, LIFECYCLE, dead_letter(key), *self._books_keys]
        data: bytes | str = ""
        if snapshot is not None and snapshot.data is not None:
            keys.append(snapshot.key)
            data = snapshot.data
        command: list[str | int | bytes] = ["EVAL", SETTLE_TURN, len(keys), *keys]
        command += [*self._who, output, event, dead_reason, books.turn, KEPT_TURNS, data]
        command += flat(books.changes)
        return bool(await self._stream.redis.call(*command, tries=tries))


def _without_snapshot(books: Bookkeeping, size: int) -> Bookkeeping:
    report = SnapshotReport(stored=False, bytes=size, reason="NoMemory")
    changes = {**books.changes, "snapshot": report.model_dump_json(exclude_none=True)}
    return replace(books, changes=changes, snapshot=None)
