"""Searching and ordering what was found: two searches, one list.

Words and vectors each give a ranking; `hybrid_search` fuses them by rank (their scores have
nothing in common) and lets a reranker look at the best candidates once more.
"""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from orbiter.memory.embedding import Embedder
from orbiter.memory.storage import MemoryStorage
from orbiter.memory.text import terms
from orbiter.memory.types import MemoryHit, RecordFilter
from orbiter.memory.vectors import search_by_vector

# A rank's weight in the fused list is 1 / (RANK_OFFSET + rank): Cormack et al., SIGIR 2009.
RANK_OFFSET = 60
CANDIDATES_PER_RESULT = 4
NEAR = 0.5


class Reranker(Protocol):
    """Orders the best candidates of a search anew."""

    async def rerank(self, query: str, hits: list[MemoryHit]) -> list[MemoryHit]:
        """Return the hits, best first, with new scores."""
        ...


class CoverageReranker:
    """Prefers texts that hold many of the query's words, near each other; needs no model."""

    async def rerank(self, query: str, hits: list[MemoryHit]) -> list[MemoryHit]:
        """Return the hits ordered by rank and coverage; scores lie between 0 and 1."""
        wanted = set(terms(query))
        if not hits or not wanted:
            return hits
        best = max(hit.score for hit in hits) or 1.0
        scored = [
            MemoryHit(
                record=hit.record,
                score=0.5 * hit.score / best + 0.5 * _coverage(wanted, terms(hit.text)),
            )
            for hit in hits
        ]
        return sorted(scored, key=lambda hit: -hit.score)


def fuse(rankings: Sequence[Sequence[MemoryHit]]) -> list[MemoryHit]:
    """Merge rankings by reciprocal rank; a record that several of them hold moves up."""
    scores: dict[str, float] = {}
    records = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, start=1):
            key = hit.record.id
            records[key] = hit.record
            scores[key] = scores.get(key, 0.0) + 1 / (RANK_OFFSET + rank)
    order = sorted(scores, key=lambda key: -scores[key])
    return [MemoryHit(record=records[key], score=scores[key]) for key in order]


async def hybrid_search(
    storage: MemoryStorage,
    query: str,
    where: RecordFilter,
    *,
    top_k: int,
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
) -> list[MemoryHit]:
    """Search by words and, with an embedder, by vectors; return the `top_k` best.

    Args:
        storage: Where to search.
        query: What is asked, in plain words.
        where: Which records may be found.
        top_k: How many hits to return at most.
        embedder: Makes the query's vector, which is compared with those that it made.
        reranker: Orders the candidates; CoverageReranker when absent.

    Returns:
        Hits, best first.

    Raises:
        EmbedderMismatchError: The storage holds vectors of another embedder.
        OrbiterError: The embedder did not answer.
    """
    candidates = top_k * CANDIDATES_PER_RESULT
    by_words = storage.search_text(query, where, limit=candidates)
    if embedder is None:
        rankings = [await by_words]
    else:
        by_vector = _search_vector(storage, query, where, candidates, embedder)
        rankings = list(await asyncio.gather(by_words, by_vector))
    hits = fuse(rankings)[:candidates]
    return (await (reranker or CoverageReranker()).rerank(query, hits))[:top_k]


async def _search_vector(
    storage: MemoryStorage, query: str, where: RecordFilter, limit: int, embedder: Embedder
) -> list[MemoryHit]:
    hits = await search_by_vector(storage, query, where, limit=limit, embedder=embedder)
    # Everything is a little similar to everything; only the near ones may push others down.
    return [hit for hit in hits if hit.score > max(0.0, NEAR * hits[0].score)]


def _coverage(wanted: set[str], words: list[str]) -> float:
    """Return the share of wanted words that occur, less when they lie far apart."""
    places = [place for place, word in enumerate(words) if word in wanted]
    if not places:
        return 0.0
    present = len({words[place] for place in places})
    gaps = [right - left for left, right in pairwise(places)]
    nearness = 1.0 if not gaps else 1 / min(gaps)
    return present / len(wanted) * (0.8 + 0.2 * nearness)
