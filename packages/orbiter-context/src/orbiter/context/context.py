"""The Context: what an agent knows while it works, and what of it the model gets to see.

Attached by `Agent(context=ctx)`, its engine methods (start_run to fail_run) are called by the run
loop; all else is for who made it. One serves one task; subtasks and parallel runs work on forks.
"""

import time
from typing import Any, Unpack

from orbiter.context._internal.blocks import Fitted
from orbiter.context._internal.capture import refill, save, save_automatic, services_of
from orbiter.context._internal.conversation import Ledger, fit, limits
from orbiter.context._internal.knowledge import KnowledgeStore
from orbiter.context._internal.modes import Processor, mode_registry
from orbiter.context._internal.recall import passages
from orbiter.context._internal.run_record import RunRecord
from orbiter.context._internal.seams import Clock, Memory, Summarizing
from orbiter.context._internal.services import Services, service
from orbiter.context._internal.windows import budget_of
from orbiter.context.checkpoint import Checkpoint, CheckpointStore, MemoryCheckpointStore
from orbiter.context.config import ContextConfig
from orbiter.context.errors import ContextError
from orbiter.context.state import ContextState
from orbiter.context.token_tracker import TokenTracker, Trajectory
from orbiter.context.tokens import TokenCounter, token_count
from orbiter.context.workspace import Workspace
from orbiter.outputs import as_text
from orbiter.types import Message, Usage

DEFAULT_CONFIG = ContextConfig()


class Context:
    """The context of one task.

    Attributes:
        task_id: The task.
        config: Mode and thresholds.
        parent: The context this one was forked from.
        state: Key-value state; inherits from the parent's.
        workspace: Artifacts; a child shares its parent's.
        knowledge: Searchable documents; a child shares its parent's.
        archive: Where rounds that left the window are filed, as `conversation/<agent>`; the
            knowledge itself unless that was given or inherited.
        memory: What is remembered beyond the task, if anything.
        checkpoints: Where snapshots are kept.
        run: The run that is going on, or the newest.
    """

    def __init__(
        self,
        task_id: str,
        config: ContextConfig | None = None,
        parent: "Context | None" = None,
        *,
        workspace: Workspace | None = None,
        knowledge: KnowledgeStore | None = None,
        memory: Memory | None = None,
        checkpoints: CheckpointStore | None = None,
        token_counter: TokenCounter | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Create a context.

        Args:
            task_id: Names the task; checkpoints are found by it.
            config: Mode and thresholds; those of the parent, or the defaults, when absent.
            parent: Gives its state to read, and all services below that are not given.
            workspace: Where artifacts are kept; in memory when absent.
            knowledge: Documents, perhaps shared with other tasks; empty when absent.
            memory: Told of every run, asked by the facts neuron.
            checkpoints: Keeps snapshots; in this process when absent.
            token_counter: Counts the tokens of a text; an estimate when absent.
            clock: Gives the time in seconds since the epoch.

        Raises:
            ContextError: The task id is empty.
        """
        if not task_id:
            raise ContextError("a context needs a task_id, for example 'task-1'")
        self.task_id = task_id
        self.parent = parent
        self.config: ContextConfig = config or (parent.config if parent else DEFAULT_CONFIG)
        self.state: ContextState = ContextState(parent=parent.state if parent else None)
        self.token_counter = service(token_counter, parent, "token_counter", lambda: token_count)
        self.clock = service(clock, parent, "clock", lambda: time.time)
        self.workspace = service(workspace, parent, "workspace", Workspace)
        self.knowledge = service(
            knowledge,
            parent,
            "knowledge",
            lambda: KnowledgeStore(task_id=task_id, token_counter=self.token_counter),
        )
        self.archive: KnowledgeStore = self.knowledge.for_task(task_id)
        self.memory: Memory | None = parent.memory if memory is None and parent else memory
        self.checkpoints: CheckpointStore = service(
            checkpoints, parent, "checkpoints", MemoryCheckpointStore
        )
        self.tracker = TokenTracker()
        self.ledgers: dict[str, Ledger] = {}
        self.history: list[Message] = []
        self.origin_user_input: str = parent.origin_user_input if parent else ""
        self.task_output = ""
        self.run = RunRecord()
        self._runs: dict[str, RunRecord] = {}
        self._processors: list[Processor] = []
        self._pipeline = mode_registry.get(self.config.mode)(self.config)
        for processor in parent._processors if parent else ():
            self.add_processor(processor)

    @property
    def task_input(self) -> str:
        """What the agent that runs, or ran last, was started with."""
        return self.run.input

    @property
    def token_usage(self) -> dict[str, int]:
        """Tokens used so far: prompt_tokens, completion_tokens and total_tokens."""
        return self.tracker.usage

    def get_trajectory(self, agent_name: str) -> Trajectory:
        """Return the model calls of an agent with their tokens."""
        return self.tracker.trajectory(agent_name)

    def add_processor(self, processor: Processor) -> None:
        """Add a processor behind the mode's own and those added before.

        Raises:
            ContextError: It belongs to no known event.
        """
        self._pipeline.add(processor)
        self._processors.append(processor)

    def fork(self, task_id: str, *, config: ContextConfig | None = None) -> "Context":
        """Return a child: it reads this state and writes its own, and shares the services."""
        return Context(task_id, config, self)

    def merge(self, child: "Context") -> None:
        """Take over what a child set in its state, and the tokens it used since it last merged.

        Raises:
            ContextError: The child is this context itself.
        """
        if child is self:
            raise ContextError(f"context '{self.task_id}' cannot be merged into itself")
        self.state.update(child.state.local_dict())
        self.tracker.merge(child.tracker)

    async def snapshot(self) -> Checkpoint:
        """Save a checkpoint and return it; later changes do not show in it.

        Raises:
            CheckpointError: The state holds what cannot be copied or stored.
        """
        return await save(self)

    async def list_checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints of this task, oldest first."""
        return await self.checkpoints.list(self.task_id)

    @classmethod
    async def restore(cls, checkpoint: Checkpoint, **services: Unpack[Services]) -> "Context":
        """Return a new context as it was at a checkpoint.

        Services are those of the constructor; what is not given starts with what the checkpoint
        saved. Processors and neurons are code: add them again. What was inherited can still be
        read, though the parent itself is not restored.
        """
        given = services_of(checkpoint)
        given.update(services)
        ctx = cls(checkpoint.task_id, checkpoint.content.config, **given)
        await refill(ctx, checkpoint.content)
        return ctx

    def turn_to(self, agent_name: str) -> RunRecord:
        """Make an agent's run the current one, for neurons that ask what is going on."""
        self.run = self._runs.get(agent_name, self.run)
        return self.run

    async def start_run(
        self, *, agent_name: str, input: str, history: list[Message], provider: Summarizing | None
    ) -> list[Message]:
        """Begin a run; return the history the model is to see. Called by the run loop."""
        old, room = self._runs.get(agent_name), budget_of(self.config, provider)
        run = RunRecord(agent_name, input, history, provider=provider, budget=room, before=old)
        self.run = self._runs[agent_name] = run
        self.history = self.run.history
        self.origin_user_input = self.origin_user_input or input
        self.run.shown.next_run(Fitted(history))
        if self.config.mode == "pilot" or len(history) < limits(self.config)[0]:
            return history
        fitted = await fit(
            history,
            input,
            self.ledgers,
            agent_name=agent_name,
            config=self.config,
            provider=provider,
            file=lambda document, texts: self.archive.append(document, *texts),
            recall=lambda document, rounds: passages(self.archive, document, rounds, input),
            record=lambda usage: self.record_step(f"{agent_name}/summary", usage),
        )
        self.run.shown.next_run(fitted)
        return fitted.messages

    async def process(self, event: str, payload: dict[str, Any]) -> None:
        """Run the processors of an event. Called by the run loop."""
        await self._pipeline.run(self, event, payload)

    def record_step(self, agent_name: str, usage: Usage) -> None:
        """Note the tokens of one model call. Called by the run loop."""
        self.tracker.record(agent_name, usage.input_tokens, usage.output_tokens)
        run = self._runs.get(agent_name)
        if run is not None:
            run.meter.heard(usage.input_tokens)

    async def finish_run(self, *, agent_name: str, messages: list[Message], output: Any) -> None:
        """End a run: remember it, save an automatic checkpoint. Called by the run loop."""
        self.history = self.turn_to(agent_name).end(messages)
        self.task_output = as_text(output)
        if self.memory is not None:
            await self.memory.remember(messages, agent_name=agent_name)
        if self.config.mode != "pilot":
            await save_automatic(self)

    async def fail_run(self, *, agent_name: str, messages: list[Message]) -> None:
        """End a run that failed or waits: save an automatic checkpoint. Called by the run loop."""
        run = self.turn_to(agent_name)
        if run.agent_name == agent_name and run.active:
            self.history = run.end(messages)
            if self.config.mode != "pilot":
                await save_automatic(self)
