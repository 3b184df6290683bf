"""The agent's memory between two starts of its worker: stored in Redis, restored from there.

With SNAPSHOT_KEY a conversation needs no volume. A snapshot is made when a turn is over and stored
in the very step that publishes the answer (claims.py), so what Redis has is the memory after the
last answered message: a message whose turn was cut off is run again by an agent that does not know
of the first try. Where a turn was kept on its way (po_cut.py), it is the memory in the middle of
that, written in one step with where it goes on.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from redis.exceptions import ResponseError

from orbiter_contracts import SnapshotReport
from worker_wrapper.agents.base import Agent, Session
from worker_wrapper.logging import Log
from worker_wrapper.queue.connection import RedisConnection
from worker_wrapper.queue.session_state import Snapshot
from worker_wrapper.session import archive
from worker_wrapper.session.conversations import FILE, Conversations
from worker_wrapper.session.tree import TooLargeError
from worker_wrapper.settings import SnapshotSettings

_SKIPPED_LOGGED: Final = 10
_SAID_CHARACTERS: Final = 200


class SnapshotStore:
    """What the agent remembers, on this disk and in Redis."""

    def __init__(
        self,
        redis: RedisConnection,
        settings: SnapshotSettings,
        agent: Agent,
        environ: Mapping[str, str],
        home: Path,
        log: Log,
    ) -> None:
        self._redis = redis
        self._settings = settings
        self._agent = agent
        self._home = home
        self._log = log
        self._roots = {**session_roots(agent, environ, home), str(FILE): home / FILE}

    def conversations(self) -> Conversations:
        """What this disk knows of conversations now."""
        return Conversations(self._home, self._agent.name)

    async def restore(self, local: Conversations) -> SnapshotReport | None:
        """Put back what was stored. Call it before the first turn, and read conversations anew.

        Args:
            local: What this disk knows of conversations. The one begun last is removed from it: a
                worker in this container may have died before its answer was published.

        Returns:
            A report if there is something to say: what was stored cannot be read, or not all of it
            could be written.
        """
        key = self._settings.key
        try:
            data = await self._redis.call("GET", key, decode=False)
        except ResponseError as error:
            return self._lost(key, 0, error)
        skipped: list[str] = []

        def skip(name: str, error: Exception) -> None:
            skipped.append(name)
            if len(skipped) <= _SKIPPED_LOGGED:
                self._log.warning("snapshot_file_skipped", file=ascii(name), error=_said(error))

        def unpack() -> int:
            if local.unfinished:
                archive.forget(self._roots, local.unfinished)
            if data is None:
                return 0
            return archive.unpack(data, self._roots, agent=self._agent.name, skipped=skip)

        # Whatever the agent left on this disk: it may cost the memory and never the worker.
        try:
            files = await asyncio.to_thread(unpack)
        except Exception as error:
            return self._lost(key, len(data or b""), error)
        if data is None:
            return None
        self._log.info("snapshot_restored", files=files, skipped=len(skipped), bytes=len(data))
        if skipped:
            return SnapshotReport(stored=False, bytes=len(data), reason="Incomplete")
        return None

    def _lost(self, key: str, size: int, error: Exception) -> SnapshotReport:
        self._log.error("snapshot_unreadable", key=key, error=_said(error))
        return SnapshotReport(stored=False, bytes=size, reason="Unreadable")

    async def take(self, session: Session, conversations: Conversations) -> Snapshot:
        """Compress what the agent remembers now.

        Everything of the latest conversations is kept; when that is too large, the one of this
        session alone. When even that is, or when it cannot be read, nothing is stored: what was
        stored before stays. Whatever the agent left, this fails no turn.
        """
        own = self._agent.conversation_id(session)
        latest = {self._agent.conversation_id(known) for known in conversations.latest()}
        limit = self._settings.max_bytes
        refused = TooLargeError("")
        for sessions in ({own, *latest}, {own}):
            ids = [each for each in sessions if each]
            try:
                data = await asyncio.to_thread(
                    archive.pack, self._roots, agent=self._agent.name, sessions=ids, limit=limit
                )
            except TooLargeError as error:
                refused = error
                continue
            except Exception as error:
                self._log.warning("snapshot_failed", error=_said(error))
                why = f"could not be read ({_said(error)})"
                report = SnapshotReport(stored=False, reason="Failed")
                return Snapshot(self._settings.key, None, report, why)
            report = SnapshotReport(stored=True, bytes=len(data), limit=limit)
            return Snapshot(self._settings.key, data, report)
        why, reached = str(refused), refused.reached
        self._log.warning("snapshot_too_large", why=why, limit=limit, reached=reached)
        exceeded = limit if reached else None  # who reads a limit takes it for what was exceeded
        report = SnapshotReport(stored=False, bytes=reached, reason="TooLarge", limit=exceeded)
        return Snapshot(self._settings.key, None, report, why)


class AttemptMemory:
    """What a task's agent knows of an earlier attempt that ended with a question."""

    def __init__(
        self, session: Session, store: SnapshotStore | None, conversations: Conversations | None
    ) -> None:
        self.session = session
        """The session to run the agent in."""
        self._store = store
        self._conversations = conversations

    @classmethod
    async def of(cls, store: SnapshotStore | None, session_id: str) -> Self:
        """Restore what is stored; without SNAPSHOT_KEY every attempt begins from nothing."""
        if store is None:
            return cls(Session(session_id), None, None)
        await store.restore(store.conversations())
        conversations = store.conversations()
        return cls(conversations.session(session_id), store, conversations)

    async def keep(self, session: Session | None) -> tuple[Snapshot | None, list[str]]:
        """What to store for the next attempt, and warnings if that is nothing."""
        if self._store is None or self._conversations is None or session is None:
            return None, []
        self._conversations.keep(session)
        snapshot = await self._store.take(session, self._conversations)
        return snapshot, [] if snapshot.report.stored else [not_stored(snapshot)]


def session_roots(agent: Agent, environ: Mapping[str, str], home: Path) -> dict[str, Path]:
    """Where the agent keeps its conversations; a variable may have moved the first directory."""
    roots = {}
    for name in agent.session_paths:
        first, _, rest = name.partition("/")
        moved = environ.get(agent.home_variable or "")
        roots[name] = Path(moved, rest) if moved else home / first / rest
    return roots


def not_stored(snapshot: Snapshot) -> str:
    """Say to people that the agent's memory was not stored."""
    return (
        f"the agent's session {snapshot.why} and was not stored: "
        "after a restart it remembers an earlier state"
    )


def _said(error: Exception) -> str:
    return ascii(f"{type(error).__name__}: {error}"[:_SAID_CHARACTERS])[1:-1]
