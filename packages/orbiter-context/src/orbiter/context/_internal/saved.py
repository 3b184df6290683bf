"""What a checkpoint is, and what keeps one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from orbiter.context._internal.conversation import Ledger
from orbiter.context.config import ContextConfig
from orbiter.context.token_tracker import StepLog
from orbiter.memory import MemoryRecord
from orbiter.types import Message


class CheckpointContent(NamedTuple):
    """What a checkpoint holds; none of it changes when the context goes on.

    Attributes:
        config: The context's configuration.
        state: What was set in the context itself.
        inherited: What its parents held; None without a parent.
        origin_user_input: The input of the task's first run.
        task_input: The input of the newest run.
        task_output: The output of the newest run.
        history: The conversation up to the end of the newest run.
        artifacts: The workspace's files, when it is in memory.
        workspace_directory: Where the workspace is, when it is in a directory.
        knowledge: The knowledge's chunks, when they are in memory.
        knowledge_task_id: The task whose documents the knowledge holds.
        steps: Token usage by agent.
        ledgers: What left the window, by agent.
    """

    config: ContextConfig
    state: dict[str, Any]
    inherited: dict[str, Any] | None
    origin_user_input: str
    task_input: str
    task_output: str
    history: tuple[Message, ...]
    artifacts: Mapping[str, str]
    workspace_directory: str | None
    knowledge: tuple[MemoryRecord, ...]
    knowledge_task_id: str
    steps: Mapping[str, StepLog]
    ledgers: Mapping[str, Ledger]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A context at one moment.

    Attributes:
        task_id: The context's task.
        version: Counts the task's checkpoints from 1, over all processes that share a store.
        created_at: When it was taken.
        automatic: Whether the end of a run took it, rather than `snapshot()`.
        content: What was saved.
        store: Where the restored context keeps its checkpoints; not part of what is saved.
    """

    task_id: str
    version: int
    created_at: datetime
    automatic: bool
    content: CheckpointContent = field(repr=False)
    store: "CheckpointStore | None" = field(default=None, compare=False, repr=False)


class CheckpointStore(Protocol):
    """Keeps checkpoints; MemoryCheckpointStore and SqliteCheckpointStore have these methods."""

    async def save(
        self, task_id: str, content: CheckpointContent, *, created_at: datetime, automatic: bool
    ) -> Checkpoint:
        """Keep a checkpoint under the task's next version and return it."""
        ...

    async def list(self, task_id: str) -> list[Checkpoint]:
        """Return the checkpoints of a task, oldest first."""
        ...

    async def delete(self, task_id: str) -> int:
        """Delete the checkpoints of a task and return how many they were."""
        ...
