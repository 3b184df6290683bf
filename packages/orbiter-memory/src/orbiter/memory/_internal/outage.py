"""Going on without an embedding model that is not to be had just now.

A run does not fail because of it: what it learns is kept without vectors, what it recalls is found
by words. Failures that last, such as a wrong key, are raised.
"""

import logging
from collections.abc import Sequence

from orbiter.memory.embedding import Embedder
from orbiter.memory.ranking import Reranker, hybrid_search
from orbiter.memory.storage import MemoryStorage
from orbiter.memory.types import MemoryHit, MemoryRecord, RecordFilter
from orbiter.memory.vectors import with_vectors
from orbiter.types import OrbiterError

log = logging.getLogger(__name__)


async def embedded_if_possible(
    records: Sequence[MemoryRecord], storage: MemoryStorage, embedder: Embedder | None
) -> Sequence[MemoryRecord]:
    """Return records with vectors, or as they are."""
    if embedder is None or not records:
        return records
    try:
        return await with_vectors(records, storage, embedder)
    except OrbiterError as error:
        _pass_over(error, "kept without vectors, which `reembed` can make")
        return records


async def search_anyway(
    storage: MemoryStorage,
    query: str,
    where: RecordFilter,
    top_k: int,
    embedder: Embedder | None,
    reranker: Reranker | None,
) -> list[MemoryHit]:
    """Search as `hybrid_search` does, or by words alone."""
    try:
        return await hybrid_search(
            storage, query, where, top_k=top_k, embedder=embedder, reranker=reranker
        )
    except OrbiterError as error:
        _pass_over(error, "searched by words alone")
        return await hybrid_search(storage, query, where, top_k=top_k, reranker=reranker)


def _pass_over(error: OrbiterError, what: str) -> None:
    # the errors of models say so; this package does not know their class
    if not getattr(error, "retryable", False):
        raise error
    log.warning("Memories are %s: %s", what, error)
