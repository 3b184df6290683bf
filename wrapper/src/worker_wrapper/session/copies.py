"""The agent's conversation as a checkpoint has it: copied while the agent may still be at work."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from orbiter_contracts import Usage
from worker_wrapper.agents.base import Agent, Session
from worker_wrapper.session import archive, tree
from worker_wrapper.session.conversations import FILE, Conversations
from worker_wrapper.session.snapshot import session_roots

_AGAIN: Final = 2
_TAIL_BYTES: Final = 1024 * 1024
"""How much of a conversation is read for what it has cost; the CLIs write that down often."""


class SessionCopies:
    """Copies one conversation of an agent, and puts it back.

    Args:
        agent: The adapter.
        environ: Our environment.
        home: HOME of the agent.
    """

    def __init__(self, agent: Agent, environ: Mapping[str, str], home: Path) -> None:
        self._agent = agent
        self._home = home
        self._conversations = session_roots(agent, environ, home)
        self._roots = {**self._conversations, str(FILE): home / FILE}

    async def take(self, session: Session, *, limit: int) -> bytes:
        """Compress it as it is now.

        Raises:
            TooLargeError: It would be larger than `limit` bytes.
            OSError: It could not be read: it changed each time.
        """
        Conversations(self._home, self._agent.name).keep(session)
        own = self._agent.conversation_id(session)
        ids = [own] if own else []

        def copy() -> bytes:
            return archive.pack(self._roots, agent=self._agent.name, sessions=ids, limit=limit)

        for _ in range(_AGAIN):
            with suppress(OSError):  # A file that shrinks meanwhile.
                return await asyncio.to_thread(copy)
        return await asyncio.to_thread(copy)

    async def check(self, data: bytes) -> None:
        """Read a copy through, so that what cannot be used is known before anything is written.

        Raises:
            UnreadableError: It is damaged, or another agent's.
        """
        await asyncio.to_thread(archive.unpack, data, {}, agent=self._agent.name)

    async def put_back(self, data: bytes, session_id: str) -> Session:
        """Write a copy where the agent looks for it; return the session that goes on.

        It is the one that was copied, whatever its id: a task that is made of another one goes on
        with the conversation of that.

        Raises:
            UnreadableError: See `check`, which was content.
        """
        await asyncio.to_thread(archive.unpack, data, self._roots, agent=self._agent.name)
        copied = Conversations(self._home, self._agent.name).latest()
        return copied[-1] if copied else Session(session_id)

    async def recorded(self, session: Session) -> Usage | None:
        """What the conversation has cost, as its own file says."""
        own = self._agent.conversation_id(session)
        return await asyncio.to_thread(self._recorded, own) if own else None

    def _recorded(self, own: str) -> Usage | None:
        try:
            for found in tree.files(self._conversations):
                if found.parts and own.lower() in found.parts[-1].lower():
                    with tree.opened(found) as file:
                        file.seek(max(found.size - _TAIL_BYTES, 0))
                        if told := self._agent.recorded(file.read(_TAIL_BYTES)):
                            return told
        except (OSError, tree.TooLargeError):
            return None
        return None
