"""Short-term memory: the last rounds of a conversation, for callers who pass no `messages=`.

A program that hands `result.messages` to the next run carries the conversation itself. With
`Agent(memory=ShortTermMemory())` the agent carries it: the rounds come with the newest message.
"""

import os
import time
from collections.abc import Iterator
from copy import copy
from functools import lru_cache
from random import Random

from orbiter.memory.extraction import transcript
from orbiter.memory.in_memory import InMemoryStorage
from orbiter.memory.storage import MemoryStorage
from orbiter.memory.types import Clock, MemoryRecord, RecordFilter
from orbiter.types import Message, UserMessage

# A pasted document is not repeated in the prompts of twenty runs.
MAX_MESSAGE_CHARS = 4_000
HEADING = "Earlier in this conversation:"
# Not the module's functions, which a program may seed. Asking the system for each id took a fifth
# of a run in which everything is on.
_ids = Random()  # noqa: S311 (names, no secrets)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ids.seed)


class ShortTermMemory:
    """Remembers the last rounds of one user's session, apart for each agent."""

    def __init__(
        self,
        storage: MemoryStorage | None = None,
        *,
        user_id: str = "",
        session_id: str = "",
        max_rounds: int = 20,
        ttl_seconds: float | None = None,
        clock: Clock = time.time,
    ) -> None:
        """Create a memory.

        Args:
            storage: Where rounds are kept; in this process when absent.
            user_id: Whose conversation it is.
            session_id: Which of the user's conversations it is.
            max_rounds: How many rounds are kept; older ones are deleted.
            ttl_seconds: After how many seconds a round is no longer recalled; None: never.
            clock: Gives the time in seconds since the epoch.
        """
        self.storage = storage if storage is not None else InMemoryStorage()
        self.user_id = user_id
        self.session_id = session_id
        self.max_rounds = max_rounds
        self.ttl_seconds = ttl_seconds
        self._clock = clock

    def scoped(self, *, user_id: str, session_id: str = "") -> "ShortTermMemory":
        """Return the memory of another user or session in the same storage."""
        other = copy(self)
        other.user_id, other.session_id = user_id, session_id
        return other

    async def recall(self, query: str, *, agent_name: str) -> str | None:
        """Return the last rounds as text for the model, oldest first, or None.

        Args:
            query: The new input; the whole window is recalled whatever it asks.
            agent_name: The agent that is about to run.
        """
        mine = RecordFilter(
            user_id=self.user_id,
            session_id=self.session_id,
            agent_name=agent_name,
            kinds=("message",),
            alive_at=self._clock(),
        )
        rounds = await self.storage.select(mine, limit=self.max_rounds)
        if not rounds:
            return None
        return "\n".join([HEADING, *[record.text for record in rounds]])

    async def remember(self, messages: list[Message], *, agent_name: str) -> None:
        """Keep the rounds of a finished run.

        Args:
            messages: What the run added to the conversation.
            agent_name: The agent that ran.
        """
        now = self._clock()
        records = [
            MemoryRecord(
                id=f"{_ids.getrandbits(96):024x}",
                kind="message",
                text=text,
                user_id=self.user_id,
                session_id=self.session_id,
                agent_name=agent_name,
                created_at=now,
                expires_at=None if self.ttl_seconds is None else now + self.ttl_seconds,
            )
            for part in _rounds(messages)
            if (text := transcript(part, MAX_MESSAGE_CHARS))
        ]
        if records:
            await self.storage.put(records)
            mine = _rounds_of(self.user_id, self.session_id, agent_name)
            await self.storage.trim(mine, keep=self.max_rounds)

    async def clear(self) -> int:
        """Forget this session, for all agents; return how many rounds it held."""
        return await self.storage.delete(
            RecordFilter(user_id=self.user_id, session_id=self.session_id, kinds=("message",))
        )

    async def forget_user(self, user_id: str | None = None) -> int:
        """Delete whatever the storage holds of a user, of every kind.

        Args:
            user_id: The user; this memory's own when absent.

        Returns:
            How many records were deleted.
        """
        whose = self.user_id if user_id is None else user_id
        return await self.storage.delete(RecordFilter(user_id=whose))


@lru_cache(maxsize=1_000)
def _rounds_of(user_id: str, session_id: str, agent_name: str) -> RecordFilter:
    """Return what selects the rounds of an agent in a session, however old they are."""
    return RecordFilter(
        user_id=user_id, session_id=session_id, agent_name=agent_name, kinds=("message",)
    )


def _rounds(messages: list[Message]) -> Iterator[list[Message]]:
    """Split messages before each thing the user says."""
    current: list[Message] = []
    for message in messages:
        if isinstance(message, UserMessage) and current:
            yield current
            current = []
        current.append(message)
    if current:
        yield current
