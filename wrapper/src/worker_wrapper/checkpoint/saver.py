"""Makes the checkpoints of a turn: from time to time, when we are asked to leave, and at its end.

The conversation is copied before the workspace, so that no edit which the agent remembers is
missing. Nothing here ends a turn or changes what comes of it: what cannot be kept is a warning.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from redis.exceptions import ResponseError

from orbiter_contracts import Checkpoint, Usage, WorkspaceReport
from orbiter_contracts.bounds import MAX_TIMEOUT_SECONDS
from orbiter_contracts.checkpoints import MAX_CHECKPOINT_BYTES, MAX_GENERATION
from worker_wrapper.agents.base import Agent, Session
from worker_wrapper.checkpoint.meter import Meter, own_cost
from worker_wrapper.checkpoint.resume import Earlier
from worker_wrapper.checkpoint.schedule import from_time_to_time
from worker_wrapper.logging import Log
from worker_wrapper.queue.checkpoints import Checkpoints, DamagedError, SaveResult, Stored
from worker_wrapper.queue.connection import RedisUnavailableError
from worker_wrapper.session.copies import SessionCopies
from worker_wrapper.session.tree import TooLargeError
from worker_wrapper.turn.usage import priced, together
from worker_wrapper.workspace.git import Git, GitError
from worker_wrapper.workspace.keeping import Kept, keep


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a checkpoint is made of.

    Attributes:
        agent: The adapter.
        session: The conversation as the turn began with it.
        directory: The workspace.
        prepared: What it began with; None for one without git.
        earlier: What earlier pods have left.
    """

    agent: Agent
    session: Session
    directory: Path
    prepared: WorkspaceReport | None
    earlier: Earlier


class Saver:
    """Keeps one attempt, while this pod works on it.

    Args:
        attempt: What is kept.
        checkpoints: Where.
        copies: What copies the conversation.
        git: Runs git beside the agent.
        clock: Tells the time.
        log: Told of each.
        sleep: Waits so many seconds.
    """

    def __init__(
        self,
        attempt: Attempt,
        checkpoints: Checkpoints,
        copies: SessionCopies,
        git: Git,
        *,
        clock: Callable[[], datetime],
        log: Log,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._attempt = attempt
        self._checkpoints = checkpoints
        self._copies = copies
        self._git = git
        self._clock = clock
        self._log = log
        self._sleep = sleep
        self._meter = Meter(attempt.agent)
        self._kept_events = 0
        self._busy = asyncio.Lock()
        self._sent: Checkpoint | None = None
        self._began = asyncio.get_running_loop().time()
        earlier, resumed = attempt.earlier.spent, attempt.earlier.resumed
        self._generation = earlier.generation if earlier else 0
        self._last: Stored | None = resumed
        self._good = resumed.checkpoint.generation if resumed else self._generation

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take an event of the turn."""
        self._meter.hear(event)

    async def from_time_to_time(self, seconds: float, asked_to_leave: asyncio.Event) -> None:
        """Make them, until cancelled; the one when we are asked to leave be it only with the cost.

        For agents that go on from a copy made in the middle of their work.

        Args:
            seconds: How often; 0 for only when asked to leave.
            asked_to_leave: Set then.
        """
        await from_time_to_time(
            self.save,
            lambda: self._meter.events > self._kept_events,
            seconds,
            asked_to_leave,
            self._sleep,
        )

    async def save(self, *, leaving: bool) -> bool:
        """Make one now. Whatever goes wrong is in the log.

        Args:
            leaving: Whether this pod was asked to leave.

        Returns:
            False when another try may succeed: disk, git or Redis failed.
        """
        async with self._busy:
            try:
                await self._save(leaving)
            except (GitError, OSError, ResponseError, RedisUnavailableError) as error:
                self._log.warning("checkpoint_failed", error=f"{type(error).__name__}: {error}")
                return False
            except Exception:
                # A mistake of ours, or of a library: it must end neither the turn nor the saving.
                self._log.exception("checkpoint_failed")
                return False
            return True

    async def cost(self) -> Usage | None:
        """What all pods of the attempt have cost, as far as it is known yet."""
        earlier, own = self._attempt.earlier.spent, await self._own_cost()
        return together(priced(earlier.usage, own) if earlier else None, own)

    async def _save(self, leaving: bool) -> None:
        events = self._meter.events
        if not events:
            await self._what_was_paid(leaving)
            return
        session = replace(
            self._attempt.session,
            resumed=True,
            agent_session_id=self._meter.conversation or self._attempt.session.agent_session_id,
        )
        conversation, kept = b"", Kept("TooLarge", why="no conversation")
        try:
            conversation = await self._copies.take(session, limit=MAX_CHECKPOINT_BYTES)
            kept = await keep(
                self._git,
                self._attempt.directory,
                self._attempt.prepared,
                limit=MAX_CHECKPOINT_BYTES - len(conversation),
            )
        except TooLargeError as error:
            kept = Kept("TooLarge", why=f"the conversation {error}")
        except (GitError, OSError) as error:
            self._log.warning("checkpoint_failed", error=f"{type(error).__name__}: {error}")
            await self._what_was_paid(leaving)
            return
        except Exception:
            # What an agent leaves may find a mistake of ours: what was paid counts all the same.
            self._log.exception("checkpoint_failed")
            await self._what_was_paid(leaving)
            return
        if kept.state == "TooLarge":
            conversation = b""
            self._log.warning("checkpoint_too_large", why=kept.why, limit=MAX_CHECKPOINT_BYTES)
        said = await self._described(conversation, kept, leaving)
        stored, result = await self._written(Stored(said, conversation, kept.data))
        if result != "saved":
            self._log.warning("checkpoint_refused", state=result)
            return
        self._generation = stored.checkpoint.generation
        self._last = stored
        if stored.checkpoint.resumable:
            self._good = self._generation
        self._kept_events = events
        self._log.info(
            "checkpointed",
            generation=self._generation,
            bytes=stored.checkpoint.size_bytes,
            turns=stored.checkpoint.turns,
            workspace=kept.state,
        )

    async def _what_was_paid(self, leaving: bool) -> None:
        """Keep what the attempt has cost, with the work as it was when it was last copied.

        So it is while nothing was heard of the model: the conversation may not have the prompt yet.
        And an agent can prevent the copy, by a repository that git cannot read for instance. Its
        limits would begin anew with the next pod.
        """
        last = self._last or Stored(Checkpoint(time=self._clock(), generation=1))
        paid = await self._described(b"", Kept("Unchanged"), leaving)
        kept = {"time", "workspace", "session", "size_bytes", "base_commit"}
        said = paid.model_copy(update=last.checkpoint.model_dump(include=kept))
        stored, result = await self._written(replace(last, checkpoint=said))
        if result == "saved":
            self._generation = stored.checkpoint.generation
            if stored.checkpoint.resumable:
                self._good = self._generation

    async def _written(self, stored: Stored) -> tuple[Stored, SaveResult]:
        """Write it, behind one of ours whose answer was lost, but not behind another's."""
        before, self._sent = self._sent, stored.checkpoint
        result = await self._checkpoints.save(stored, beside=self._good)
        if result != "stale":
            return stored, result
        try:
            newest = await self._checkpoints.newest()
        except DamagedError:
            await self._checkpoints.discard()
            return stored, await self._checkpoints.save(stored, beside=self._good)
        if newest is None or newest not in (before, stored.checkpoint):
            return stored, result
        if newest == stored.checkpoint:
            return stored, "saved"
        self._sent = stored.checkpoint.model_copy(update={"generation": _after(newest.generation)})
        later = replace(stored, checkpoint=self._sent)
        return later, await self._checkpoints.save(later, beside=newest.generation)

    async def _described(self, conversation: bytes, kept: Kept, leaving: bool) -> Checkpoint:
        cost = await self.cost()
        size = len(conversation) + len(kept.data)
        earlier, prepared = self._attempt.earlier.spent, self._attempt.prepared
        seconds = asyncio.get_running_loop().time() - self._began
        seconds += earlier.agent_seconds if earlier else 0.0
        return Checkpoint(
            time=self._clock(),
            generation=_after(self._generation),
            turns=cost.turns if cost else 0,
            cost_usd=cost.cost_usd if cost else None,
            usage=cost,
            workspace=kept.state,
            session=bool(conversation),
            size_bytes=size,
            base_commit=prepared.base_sha if prepared else None,
            disruption=leaving,
            agent_seconds=min(seconds, MAX_TIMEOUT_SECONDS),
        )

    async def _own_cost(self) -> Usage | None:
        """What this pod has cost: the sum of what was told, with the money that the CLI counted."""
        heard = self._meter.spent
        session = self._attempt.session
        if self._meter.conversation:
            session = replace(session, agent_session_id=self._meter.conversation)
        recorded = await self._copies.recorded(session)
        return own_cost(heard, recorded, self._attempt.session)


def _after(generation: int) -> int:
    """The next one; behind the last one the count begins anew."""
    return generation % MAX_GENERATION + 1
