"""Checkpoints: a context as it was at one moment, numbered per task, kept by a store.

Taking one copies the state deeply and shares what never changes, so the automatic checkpoint at
the end of every run costs microseconds. Stores hand out checkpoints that `Context.restore` takes.
"""

from collections import deque
from datetime import datetime

from orbiter.context._internal.saved import Checkpoint, CheckpointContent, CheckpointStore

__all__ = [
    "KEEP_AUTOMATIC",
    "Checkpoint",
    "CheckpointContent",
    "CheckpointStore",
    "MemoryCheckpointStore",
]

# Explicit checkpoints are kept until they are deleted, automatic ones only the newest so many.
KEEP_AUTOMATIC = 10


class MemoryCheckpointStore:
    """Keeps checkpoints in this process."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        self._explicit: dict[str, list[Checkpoint]] = {}
        self._automatic: dict[str, deque[Checkpoint]] = {}

    async def save(
        self, task_id: str, content: CheckpointContent, *, created_at: datetime, automatic: bool
    ) -> Checkpoint:
        """Keep a checkpoint under the task's next version and return it."""
        version = self._versions[task_id] = self._versions.get(task_id, 0) + 1
        saved = Checkpoint(task_id, version, created_at, automatic, content, self)
        if not automatic:
            self._explicit.setdefault(task_id, []).append(saved)
        elif (kept := self._automatic.get(task_id)) is not None:
            kept.append(saved)
        else:
            self._automatic[task_id] = deque([saved], KEEP_AUTOMATIC)
        return saved

    async def delete(self, task_id: str) -> int:
        """Delete the checkpoints of a task and return how many they were."""
        deleted = len(await self.list(task_id))
        for kept in (self._versions, self._explicit, self._automatic):
            kept.pop(task_id, None)
        return deleted

    # Annotations below this method would take `list` for it: keep it the last one.
    async def list(self, task_id: str) -> list[Checkpoint]:
        """Return the checkpoints of a task, oldest first."""
        kept = [*self._explicit.get(task_id, ()), *self._automatic.get(task_id, ())]
        return sorted(kept, key=lambda checkpoint: checkpoint.version)
