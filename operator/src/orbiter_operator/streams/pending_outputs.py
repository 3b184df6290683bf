"""Outputs that are received and not acknowledged: what the status does not have yet.

`outputs` writes it, `tasks/observe` reads it, and what `tasks/reconcile` has dealt with goes back
for the acknowledgement. Everything here may be lost at any time: outputs are read again from Redis.
"""

from collections import defaultdict
from datetime import datetime
from typing import NamedTuple

from orbiter_contracts import Checkpoint, DeveloperWorkerOutput
from orbiter_contracts.queues import BARE
from orbiter_operator.kube.models import Frozen
from orbiter_operator.kube.names import Key

HELD_BYTES = 64 * 1024 * 1024
"""How much of outputs is kept here. Beyond it a task is only told that there is one: Redis has it.

So many are never unsettled but when the API server is away, or after a long absence of ours.
"""
_HINTS = 8
"""Of how many attempts of a task it is kept that their workers said they are busy."""


class AttemptRecord(Frozen):
    """Where one attempt stands in Redis. All None: Redis knows nothing of it."""

    entry: str | None = None
    output_id: str | None = None
    output: DeveloperWorkerOutput | None = None
    checkpoint: Checkpoint | None = None


class PendingOutput(NamedTuple):
    """An output that was received and not yet acknowledged; None when it is to be had of Redis."""

    entry: str
    attempt: int
    output: DeveloperWorkerOutput | None
    size: int = 0
    stream: str = BARE.developer_output


class PendingOutputs:
    """Outputs not acknowledged, workers that said they are busy, and records known to be true."""

    def __init__(self) -> None:
        self._outputs: dict[Key, list[PendingOutput]] = defaultdict(list)
        self._busy: dict[Key, dict[int, datetime]] = defaultdict(dict)
        self._doing: dict[Key, tuple[int, str]] = {}
        self._records: dict[str, dict[int, AttemptRecord]] = defaultdict(dict)
        self._newer: dict[Key, int] = {}
        self._held = 0

    def deliver(self, key: Key, output: PendingOutput) -> None:
        """An output has been received for the task; one that is read anew is known already."""
        place = output.stream, output.entry
        if any((known.stream, known.entry) == place for known in self.of(key)):
            return
        if self._held + output.size > HELD_BYTES:
            output = output._replace(output=None, size=0)
        self._held += output.size
        self._outputs[key].append(output)

    def of(self, key: Key) -> tuple[PendingOutput, ...]:
        """Outputs of the task that nobody has dealt with."""
        return tuple(self._outputs.get(key, ()))

    def settle(self, key: Key, outputs: tuple[PendingOutput, ...]) -> None:
        """These have been dealt with; they are not pending any more."""
        before = self._outputs.get(key, [])
        left = [output for output in before if output not in outputs]
        self._held -= sum(output.size for output in before) - sum(output.size for output in left)
        if left:
            self._outputs[key] = left
        else:
            self._outputs.pop(key, None)

    def busy(self, key: Key, attempt: int, since: datetime) -> None:
        """A worker says that it has begun; the next pod of its attempt says it again."""
        since_by_attempt = self._busy[key]
        since_by_attempt[attempt] = max(since, since_by_attempt.get(attempt, since))
        if len(since_by_attempt) > _HINTS:
            del since_by_attempt[next(iter(since_by_attempt))]

    def does(self, key: Key, attempt: int, words: str) -> None:
        """The agent of an attempt does this, by its own word."""
        self._doing[key] = attempt, words

    def doing(self, key: Key, attempt: int) -> str | None:
        """What the agent of the attempt does, if anybody knows."""
        known, words = self._doing.get(key, (0, ""))
        return words if known == attempt else None

    def busy_since(self, key: Key, attempt: int, earliest: datetime) -> datetime | None:
        """When the attempt's worker began, by its own word. Nothing before `earliest` counts."""
        since = self._busy.get(key, {}).get(attempt)
        return since if since is not None and since >= earliest else None

    def checkpointed(self, key: Key, attempt: int) -> None:
        """A worker says that its attempt's record has a checkpoint that is not known here."""
        self._newer[key] = attempt

    def has_newer(self, key: Key, attempt: int) -> bool:
        """Whether the attempt's record has to be read again; asked once, it is taken for read."""
        return self._newer.pop(key, None) == attempt

    def learn(self, uid: str, attempt: int, record: AttemptRecord) -> None:
        """Redis has said this about an attempt."""
        self._records[uid][attempt] = record

    def record(self, uid: str, attempt: int) -> AttemptRecord | None:
        """What Redis last said about an attempt."""
        return self._records.get(uid, {}).get(attempt)

    def forget(self, key: Key, uid: str) -> None:
        """The task is at its end: keep nothing of it but what is not acknowledged."""
        self.nobody(key)
        self._records.pop(uid, None)

    def nobody(self, key: Key) -> None:
        """There is no such task: nothing that workers say of it is kept."""
        self._busy.pop(key, None)
        self._doing.pop(key, None)
        self._newer.pop(key, None)
