"""What a developer worker's agent remembers of an attempt that ended with a question."""

from pathlib import Path
from typing import Self

from worker_wrapper.agents.base import Session
from worker_wrapper.conversations import Conversations
from worker_wrapper.exchange import Worker
from worker_wrapper.memory import Memory, Snapshot, not_stored


class Recall:
    """What a task's agent knows of an earlier attempt that ended with a question."""

    def __init__(
        self, session: Session, memory: Memory | None, conversations: Conversations | None
    ) -> None:
        self.session = session
        """The session to run the agent in."""
        self._memory = memory
        self._conversations = conversations

    @classmethod
    async def of(cls, worker: Worker, session_id: str) -> Self:
        """Restore what is stored; without SNAPSHOT_KEY every attempt begins from nothing."""
        settings, redis = worker.settings, worker.redis
        if settings.snapshot is None:
            return cls(Session(session_id), None, None)
        home = Path(worker.environ.get("HOME") or settings.spill_dir)
        agent = settings.agent
        memory = Memory(redis, settings.snapshot, agent, worker.environ, home, worker.log)
        await memory.restore(Conversations(home, agent.name))
        conversations = Conversations(home, agent.name)
        return cls(conversations.session(session_id), memory, conversations)

    async def keep(self, session: Session | None) -> tuple[Snapshot | None, list[str]]:
        """What to store for the next attempt, and warnings if that is nothing."""
        if self._memory is None or self._conversations is None or session is None:
            return None, []
        self._conversations.keep(session)
        snapshot = await self._memory.take(session, self._conversations)
        return snapshot, [] if snapshot.report.stored else [not_stored(snapshot)]
