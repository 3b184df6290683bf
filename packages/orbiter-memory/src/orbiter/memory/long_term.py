"""Long-term memory: what an agent knows of its user after the conversation is over.

After a run, facts and a summary of the session are extracted and kept; before a run, those that
matter for the input are recalled. The chain is extraction -> storage -> ranking. A model that
extracts is shown what is known, and says what no longer holds: that becomes history.
"""

import time
from copy import copy
from hashlib import blake2b
from typing import Literal

from orbiter.memory._internal.outage import search_anyway
from orbiter.memory._internal.succession import keep, known_facts, said_by_user
from orbiter.memory.embedding import Embedder, embedder_of
from orbiter.memory.extraction import extract
from orbiter.memory.in_memory import InMemoryStorage
from orbiter.memory.ranking import Reranker, hybrid_search
from orbiter.memory.reading import TextModel
from orbiter.memory.storage import MemoryStorage
from orbiter.memory.types import Clock, MemoryHit, MemoryRecord, RecordFilter, RecordKind
from orbiter.memory.vectors import with_vectors
from orbiter.types import Message

Visibility = Literal["user", "session", "agent"]
HEADING = "What you remember:"
# Without a model a session is summarised by the gist of its newest runs.
KEPT_GISTS = 20
# How many of the known facts a model is shown because they are near to what was said.
NEAREST_FACTS = 20


class LongTermMemory:
    """Remembers facts about a user, and a summary of each session, across sessions."""

    def __init__(
        self,
        storage: MemoryStorage | None = None,
        *,
        user_id: str = "",
        session_id: str = "",
        visibility: Visibility = "user",
        provider: TextModel | None = None,
        embedder: Embedder | str | None = None,
        reranker: Reranker | None = None,
        top_k: int = 5,
        ttl_seconds: float | None = None,
        clock: Clock = time.time,
    ) -> None:
        """Create a memory.

        Args:
            storage: Where memories are kept; in this process when absent.
            user_id: Whose memories they are; one user never sees another's.
            session_id: The session that new memories come from.
            visibility: Who shares them: all sessions and agents of the user, only this session,
                or only the same agent in any session.
            provider: The model that extracts facts and summaries, and says which known facts no
                longer hold; patterns do without one, and change no fact.
            embedder: Adds vectors to the search by words: an object, a model's string such as
                "openai:text-embedding-3-small", or "hash", which sees spelling only.
            reranker: Orders what was found; CoverageReranker when absent.
            top_k: How many memories a run is given at most.
            ttl_seconds: After how many seconds a memory is no longer found; None: never.
            clock: Gives the time in seconds since the epoch.

        Raises:
            OrbiterError: The embedder's string names none, or one without a key.
        """
        self.storage = storage if storage is not None else InMemoryStorage()
        self.user_id = user_id
        self.session_id = session_id
        self.visibility = visibility
        self.provider = provider
        self.embedder = embedder_of(embedder)
        self.reranker = reranker
        self.top_k = top_k
        self.ttl_seconds = ttl_seconds
        self._clock = clock

    def scoped(self, *, user_id: str, session_id: str = "") -> "LongTermMemory":
        """Return the memory of another user or session in the same storage."""
        other = copy(self)
        other.user_id, other.session_id = user_id, session_id
        return other

    async def recall(self, query: str, *, agent_name: str) -> str | None:
        """Return the memories that matter for `query` as text for the model, or None.

        The best matches come first. Places that are left go to the newest facts, because what a
        person is asked about rarely repeats the words it was told in.

        Args:
            query: The new input.
            agent_name: The agent that is about to run.
        """
        hits = await self._found(query, self._visible(agent_name), self.top_k)
        found = {hit.record.id: hit.text for hit in hits}
        if len(found) < self.top_k:
            facts = self._visible(agent_name, "fact")
            for record in reversed(await self.storage.select(facts, limit=self.top_k)):
                if len(found) < self.top_k:
                    found.setdefault(record.id, record.text)
        if not found:
            return None
        return "\n".join([HEADING, *(f"- {text}" for text in found.values())])

    async def remember(self, messages: list[Message], *, agent_name: str) -> None:
        """Extract and keep what matters of a finished run.

        Args:
            messages: What the run added to the conversation.
            agent_name: The agent that ran.
        """
        if self.provider is None:
            found = await extract(messages)
            # Each run's gist is a summary of its own: small to index, exact to find.
            summary_id = self._id("summary", agent_name, f"{self.session_id} {found.summary}")
        else:
            summary_id = self._id("summary", agent_name, self.session_id)
            mine = RecordFilter(ids=(summary_id,), user_id=self.user_id, alive_at=self._clock())
            facts = self._visible(agent_name, "fact")
            nearest = await self._found(said_by_user(messages), facts, NEAREST_FACTS)
            found = await extract(
                messages,
                provider=self.provider,
                summary_so_far="".join(r.text for r in await self.storage.select(mine)),
                known=await known_facts(self.storage, facts, nearest),
            )
        records = [self._fact(fact, agent_name) for fact in found.facts]
        if found.summary:
            records.append(self._record(summary_id, "summary", found.summary, agent_name))
        await keep(
            records,
            found.changes,
            self.storage,
            facts=self._visible(agent_name, "fact"),
            new_fact=lambda text: self._fact(text, agent_name),
            embedder=self.embedder,
            now=self._clock(),
        )
        if self.provider is None:
            mine = RecordFilter(user_id=self.user_id, session_id=self.session_id)
            gists = mine.model_copy(update={"kinds": ("summary",)})
            await self.storage.trim(gists, keep=KEPT_GISTS)

    async def add(self, fact: str, *, agent_name: str = "") -> str:
        """Keep a fact as it is; return its id. The same fact is kept once."""
        record = self._fact(fact, agent_name)
        if self.embedder is not None:
            [record] = await with_vectors([record], self.storage, self.embedder)
        await self.storage.put([record])
        return record.id

    async def search(
        self, query: str, *, top_k: int | None = None, agent_name: str = ""
    ) -> list[MemoryHit]:
        """Return the facts and summaries that match, best first.

        Args:
            query: What is asked, in plain words.
            top_k: How many at most; the memory's own `top_k` when absent.
            agent_name: Who asks; matters with `visibility="agent"`.
        """
        return await hybrid_search(
            self.storage,
            query,
            self._visible(agent_name),
            top_k=self.top_k if top_k is None else top_k,
            embedder=self.embedder,
            reranker=self.reranker,
        )

    async def facts(self, *, agent_name: str = "") -> list[str]:
        """Return all facts that can be recalled, oldest first."""
        found = await self.storage.select(self._visible(agent_name, "fact"))
        return [record.text for record in found]

    async def history(self, *, agent_name: str = "") -> list[MemoryRecord]:
        """Return the facts that no longer hold, oldest first; `forget` takes their ids, too."""
        return await self.storage.select(self._visible(agent_name, "superseded"))

    async def forget(self, *ids: str) -> int:
        """Delete single memories of this user; return how many there were."""
        return await self.storage.delete(RecordFilter(ids=ids, user_id=self.user_id))

    async def forget_user(self, user_id: str | None = None) -> int:
        """Delete whatever the storage holds of a user, of every kind; return how many records.

        Args:
            user_id: The user; this memory's own when absent.
        """
        whose = self.user_id if user_id is None else user_id
        return await self.storage.delete(RecordFilter(user_id=whose))

    async def purge_expired(self) -> int:
        """Delete what has expired, of all users; return how many records that were."""
        return await self.storage.delete(RecordFilter(expired_at=self._clock()))

    async def _found(self, query: str, where: RecordFilter, top_k: int) -> list[MemoryHit]:
        return await search_anyway(self.storage, query, where, top_k, self.embedder, self.reranker)

    def _visible(self, agent_name: str, *kinds: RecordKind) -> RecordFilter:
        return RecordFilter(
            user_id=self.user_id,
            session_id=self.session_id if self.visibility == "session" else None,
            agent_name=agent_name if self.visibility == "agent" else None,
            kinds=kinds or ("fact", "summary"),
            alive_at=self._clock(),
        )

    def _id(self, kind: RecordKind, agent_name: str, text: str) -> str:
        within = {"user": "", "session": self.session_id, "agent": agent_name}[self.visibility]
        return _id_of(kind, self.user_id, within, text)

    def _fact(self, text: str, agent_name: str) -> MemoryRecord:
        return self._record(self._id("fact", agent_name, text), "fact", text, agent_name)

    def _record(self, id: str, kind: RecordKind, text: str, agent_name: str) -> MemoryRecord:
        now = self._clock()
        return MemoryRecord(
            id=id,
            kind=kind,
            text=text,
            user_id=self.user_id,
            session_id=self.session_id,
            agent_name=agent_name,
            created_at=now,
            expires_at=None if self.ttl_seconds is None else now + self.ttl_seconds,
        )


def _id_of(kind: RecordKind, user_id: str, within: str, text: str) -> str:
    """Make an id that is the same whenever the same is learnt within one visibility."""
    parts = (kind, user_id, within, " ".join(text.lower().split()))
    return blake2b("\x1f".join(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()
