"""Takes a checkpoint of a context, and puts one back."""

import logging
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, Protocol

from orbiter.context._internal.conversation import Ledger
from orbiter.context._internal.knowledge import KnowledgeStore
from orbiter.context._internal.run_record import RunRecord
from orbiter.context._internal.saved import Checkpoint, CheckpointContent, CheckpointStore
from orbiter.context._internal.seams import Clock
from orbiter.context._internal.services import Services
from orbiter.context.config import ContextConfig
from orbiter.context.errors import CheckpointError
from orbiter.context.state import ContextState
from orbiter.context.token_tracker import TokenTracker
from orbiter.context.workspace import Workspace
from orbiter.types import Message

log = logging.getLogger(__name__)


class Captured(Protocol):
    """What of a context is saved; the context itself stands above this module."""

    task_id: str
    config: ContextConfig
    state: ContextState
    workspace: Workspace
    knowledge: KnowledgeStore
    archive: KnowledgeStore
    checkpoints: CheckpointStore
    clock: Clock
    tracker: TokenTracker
    ledgers: dict[str, Ledger]
    history: list[Message]
    origin_user_input: str
    task_output: str
    run: RunRecord

    @property
    def task_input(self) -> str:
        """What the newest run was started with."""
        ...


async def save(ctx: Captured, *, automatic: bool = False) -> Checkpoint:
    """Store a checkpoint of a context as it is now.

    Raises:
        CheckpointError: The state holds what cannot be copied or stored.
    """
    return await ctx.checkpoints.save(
        ctx.task_id,
        await _content(ctx),
        created_at=datetime.fromtimestamp(ctx.clock(), UTC),
        automatic=automatic,
    )


async def save_automatic(ctx: Captured) -> None:
    """Store a checkpoint at the end of a run; one that cannot be taken must not fail the run."""
    try:
        await save(ctx, automatic=True)
    except CheckpointError as error:
        log.warning("no automatic checkpoint: %s", error)


async def _content(ctx: Captured) -> CheckpointContent:
    inherited = ctx.state.parent
    directory = ctx.workspace.directory
    knowledge = await ctx.knowledge.snapshot()
    if ctx.archive is not ctx.knowledge:
        knowledge += await ctx.archive.snapshot()
    return CheckpointContent(
        config=ctx.config,
        state=_copied(ctx.task_id, ctx.state.local_dict()),
        inherited=None if inherited is None else _copied(ctx.task_id, inherited.to_dict()),
        origin_user_input=ctx.origin_user_input,
        task_input=ctx.task_input,
        task_output=ctx.task_output,
        history=tuple(ctx.history),
        artifacts=ctx.workspace.artifacts,
        workspace_directory=None if directory is None else str(directory),
        knowledge=knowledge,
        knowledge_task_id=ctx.knowledge.task_id,
        steps=ctx.tracker.logs(),
        ledgers={name: ledger.copy() for name, ledger in ctx.ledgers.items()},
    )


def services_of(checkpoint: Checkpoint) -> Services:
    """Return the services that a checkpoint has something for."""
    content = checkpoint.content
    return Services(
        workspace=Workspace(content.workspace_directory, artifacts=content.artifacts),
        knowledge=KnowledgeStore(task_id=content.knowledge_task_id),
        checkpoints=checkpoint.store,
    )


async def refill(ctx: Captured, content: CheckpointContent) -> None:
    """Put what a checkpoint holds into a new context."""
    if content.knowledge:
        await ctx.knowledge.restore(content.knowledge)
    state, inherited = deepcopy(content.state), deepcopy(content.inherited)
    parent = None if inherited is None else ContextState(inherited)
    ctx.state = ContextState(state, parent=parent)
    ctx.tracker = TokenTracker(content.steps)
    ctx.ledgers = {name: ledger.copy() for name, ledger in content.ledgers.items()}
    ctx.history = list(content.history)
    ctx.origin_user_input = content.origin_user_input
    ctx.run.input, ctx.task_output = content.task_input, content.task_output


def _copied(task_id: str, values: dict[str, Any]) -> dict[str, Any]:
    copies = {}
    for key, value in values.items():
        try:
            copies[key] = value if isinstance(value, str) else deepcopy(value)
        except Exception as error:  # copying runs code of the value's own class
            raise CheckpointError(
                task_id, f"state key '{key}' holds a {type(value).__name__} that cannot be copied"
            ) from error
    return copies
