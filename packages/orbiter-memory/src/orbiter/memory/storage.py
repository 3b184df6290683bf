"""The seam between what is remembered and where it is kept.

Short-term and long-term memory and the context engine's knowledge all keep MemoryRecords through
these seven methods; InMemoryStorage, SqliteStorage and PostgresStorage have them.
"""

from collections.abc import Sequence
from typing import Protocol

from orbiter.memory.types import MemoryHit, MemoryRecord, RecordFilter


class MemoryStorage(Protocol):
    """Keeps records and finds them again by filter, words or vector."""

    async def put(self, records: Sequence[MemoryRecord]) -> None:
        """Keep records; one with a known id replaces the old one and counts as newest."""
        ...

    async def select(self, where: RecordFilter, *, limit: int | None = None) -> list[MemoryRecord]:
        """Return the records that fit, oldest put first; with `limit` only the newest so many."""
        ...

    async def search_text(self, query: str, where: RecordFilter, *, limit: int) -> list[MemoryHit]:
        """Return the best matches of the query's words, best first."""
        ...

    async def search_vector(
        self, vector: Sequence[float], where: RecordFilter, *, limit: int
    ) -> list[MemoryHit]:
        """Return the records whose vectors are nearest to `vector` (of length 1), best first."""
        ...

    async def delete(self, where: RecordFilter) -> int:
        """Delete the records that fit and return how many they were."""
        ...

    async def trim(self, where: RecordFilter, *, keep: int) -> None:
        """Delete all but the newest `keep` of the records that fit."""
        ...

    async def close(self) -> None:
        """Let go of files and connections; the storage opens anew when it is used again."""
        ...
