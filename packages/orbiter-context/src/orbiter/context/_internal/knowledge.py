"""Knowledge: documents an agent can search, and read in whole or in part.

A document is cut into chunks (retriever), the chunks are kept in a memory storage, which indexes
their words and with an embedder their vectors, and a search ranks what both indexes find.
"""

import asyncio
from collections.abc import Iterable
from copy import copy
from hashlib import blake2b

from pydantic import BaseModel

from orbiter.context._internal.lines import line_breaks, lines_of, matching_lines
from orbiter.context._internal.retriever import TextChunk, chunks_of
from orbiter.context.errors import ArtifactNotFoundError, ContextError
from orbiter.context.tokens import TokenCounter, token_count
from orbiter.memory import InMemoryStorage, MemoryRecord, MemoryStorage, RecordFilter
from orbiter.memory.embedding import Embedder, embedder_of
from orbiter.memory.ranking import Reranker, hybrid_search
from orbiter.memory.vectors import with_vectors

LARGE_CHARS = 50_000


class KnowledgeChunk(BaseModel):
    """A passage that was found.

    Attributes:
        content: The passage.
        score: How well it fits, from 0 to 1.
        source: The document it is from.
        start: Its first line in the document, from 0.
    """

    model_config = {"frozen": True}

    content: str
    score: float
    source: str
    start: int


class KnowledgeStore:
    """The documents of one task."""

    def __init__(
        self,
        storage: MemoryStorage | None = None,
        *,
        task_id: str = "",
        embedder: Embedder | str | None = None,
        reranker: Reranker | None = None,
        token_counter: TokenCounter = token_count,
    ) -> None:
        """Create a store.

        Args:
            storage: Where chunks are kept; in this process when absent.
            task_id: Keeps the documents of tasks that share a storage apart.
            embedder: Adds a vector index to the full-text index: an object, a model's string such
                as "openai:text-embedding-3-small", or "hash", which sees spelling only.
            reranker: Orders what was found; by the query's words when absent.
            token_counter: Measures chunks.
        """
        self.storage = storage if storage is not None else InMemoryStorage()
        self.task_id = task_id
        self.revision = 0
        self._embedder = embedder_of(embedder)
        self._reranker = reranker
        self._token_counter = token_counter
        self._snapshot: tuple[int, tuple[MemoryRecord, ...]] = (0, ())

    def for_task(self, task_id: str) -> "KnowledgeStore":
        """Return the documents of another task in the same storage; this store if it is its own."""
        if task_id == self.task_id:
            return self
        other = copy(self)
        other.task_id, other.revision, other._snapshot = task_id, 0, (0, ())
        return other

    async def add(self, name: str, content: str) -> None:
        """Index a document; an old one of that name is replaced.

        Args:
            name: What the document is called.
            content: Its text.

        Raises:
            ContextError: The name is empty or the content is no text.
        """
        _check(name, content)
        cut = await self._cut(content)
        await self.storage.delete(self._where(name))
        await self._put(name, cut, first=0)

    async def append(self, name: str, *parts: str) -> None:
        """Add parts to the end of a document; no passage spans two of them.

        Args:
            name: The document, which is made when there is none of that name.
            parts: Texts that follow each other.
        """
        for part in parts:
            _check(name, part)
        last = await self.storage.select(self._where(name), limit=1)
        line, first = 0, 0
        if last:
            line = last[0].position + line_breaks(last[0].text)
            first = int(last[0].id.rpartition("-")[2], 16) + 1
        cut: list[TextChunk] = []
        for part in parts:
            cut += [TextChunk(text, line + start) for text, start in await self._cut(part)]
            line += line_breaks(part)
        await self._put(name, cut, first)

    async def remove(self, name: str) -> None:
        """Forget a document.

        Raises:
            ArtifactNotFoundError: There is none of that name.
        """
        if not await self.storage.delete(self._where(name)):
            raise ArtifactNotFoundError("knowledge document", name, await self.list())
        self.revision += 1

    async def search(
        self, query: str, top_k: int = 5, *, sources: Iterable[str] | None = None
    ) -> list[KnowledgeChunk]:
        """Find the passages that fit a question.

        Args:
            query: The question, in plain words.
            top_k: How many passages to return at most.
            sources: Only look in these documents.

        Returns:
            Passages, best first.
        """
        hits = await hybrid_search(
            self.storage,
            query,
            self._where(*(sources or ())),
            top_k=top_k,
            embedder=self._embedder,
            reranker=self._reranker,
        )
        return [
            KnowledgeChunk(
                content=hit.record.text.strip(),
                score=hit.score,
                source=hit.record.source,
                start=hit.record.position,
            )
            for hit in hits
        ]

    async def count(self, word: str, name: str, *, limit: int) -> int:
        """Return in how many chunks of a document a word occurs, counting up to `limit`."""
        return len(await self.storage.search_text(word, self._where(name), limit=limit))

    async def get(self, name: str) -> str:
        """Return a document as it was added.

        Raises:
            ArtifactNotFoundError: There is none of that name.
        """
        records = await self.storage.select(self._where(name))
        if not records:
            raise ArtifactNotFoundError("knowledge document", name, await self.list())
        return "".join(record.text for record in records)

    async def get_range(self, name: str, start: int, end: int) -> str:
        """Return the lines `start` to `end` (from 0, without `end`) of a document."""
        return lines_of(await self.get(name), start, end)

    async def grep(self, name: str, pattern: str) -> list[str]:
        """Return the lines of a document that match, see `matching_lines`."""
        return matching_lines(await self.get(name), pattern)

    async def snapshot(self) -> tuple[MemoryRecord, ...]:
        """Return all chunks when they would be lost with the process, else nothing."""
        if not isinstance(self.storage, InMemoryStorage):
            return ()
        if self._snapshot[0] != self.revision:
            self._snapshot = (self.revision, tuple(await self.storage.select(self._where())))
        return self._snapshot[1]

    async def restore(self, records: tuple[MemoryRecord, ...]) -> None:
        """Put back what `snapshot` returned."""
        await self.storage.put(records)
        self.revision += 1

    def _where(self, *names: str) -> RecordFilter:
        return RecordFilter(
            user_id="",
            session_id=self.task_id,
            agent_name="",
            kinds=("chunk",),
            sources=names or None,
        )

    async def _cut(self, content: str) -> list[TextChunk]:
        if len(content) > LARGE_CHARS:
            return await asyncio.to_thread(chunks_of, content, self._token_counter)
        return chunks_of(content, self._token_counter)

    async def _put(self, name: str, cut: list[TextChunk], first: int) -> None:
        document = blake2b(
            f"{self.task_id}\x1f{name}".encode(errors="surrogatepass"), digest_size=10
        ).hexdigest()
        records = [
            MemoryRecord(
                id=f"{document}-{number:x}",
                kind="chunk",
                text=chunk.text,
                session_id=self.task_id,
                source=name,
                position=chunk.line,
            )
            for number, chunk in enumerate(cut, start=first)
        ]
        if self._embedder is not None and records:
            records = await with_vectors(records, self.storage, self._embedder)
        await self.storage.put(records)
        self.revision += 1

    # Annotations below this method would take `list` for it: keep it the last one.
    async def list(self) -> list[str]:
        """Return the names of all documents, sorted."""
        return sorted({record.source for record in await self.storage.select(self._where())})


def _check(name: str, content: object) -> None:
    if not name:
        raise ContextError("a knowledge document needs a name, for example 'report.md'")
    if not isinstance(content, str):
        raise ContextError(
            f"knowledge document '{name}' must be text, not {type(content).__name__}; "
            "extract its text first"
        )
