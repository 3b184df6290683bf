"""Vectors of one embedder in one storage: made, searched, never compared with another's.

A record says which embedder made its vector and how long it is. A search compares only vectors of
its own embedder, and where the storage holds others it says so: half of what is known would not be
found. `reembed` makes all of them anew.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Protocol, runtime_checkable

from orbiter.memory.embedding import Embedder, Vector, embedder_name, normalized
from orbiter.memory.storage import MemoryStorage
from orbiter.memory.types import (
    EmbedderMismatchError,
    MemoryHit,
    MemoryRecord,
    MemoryStorageError,
    RecordFilter,
    RecordKind,
)
from orbiter.types import OrbiterError

MAX_QUERY_CHARS = 6_000
"""What of a query a vector is made of: a pasted document is more than an embedding model takes."""
REEMBED_BATCH = 100
_SEARCHED: tuple[RecordKind, ...] = ("fact", "summary", "chunk")


@runtime_checkable
class VectorStorage(Protocol):
    """A storage whose vectors can be made anew, as those of this package can."""

    async def set_vectors(self, records: Sequence[MemoryRecord]) -> None:
        """Give records their vectors and keep their places; those that have changed are left."""
        ...


async def with_vectors(
    records: Sequence[MemoryRecord], storage: MemoryStorage, embedder: Embedder
) -> list[MemoryRecord]:
    """Return records with their vectors, for a storage that holds no other embedder's.

    Raises:
        EmbedderMismatchError: It does.
        OrbiterError: The embedder gave no usable vectors.
    """
    made = await _embedded(records, embedder)
    for space in {record.embedder for record in made if record.embedder}:
        await _check(storage, space)
    return made


async def search_by_vector(
    storage: MemoryStorage, query: str, where: RecordFilter, *, limit: int, embedder: Embedder
) -> list[MemoryHit]:
    """Return the records whose vectors are nearest to that of a query, best first.

    Raises:
        EmbedderMismatchError: The storage holds vectors of another embedder.
        OrbiterError: The embedder gave no usable vector.
    """
    text = query.strip()[:MAX_QUERY_CHARS]
    if not text:
        return []
    [vector] = await _vectors([text], embedder)
    space = _space(embedder, vector)
    await _check(storage, space)
    own = where.model_copy(update={"embedder": space})
    return await storage.search_vector(normalized(vector), own, limit=limit)


async def reembed(
    storage: MemoryStorage, embedder: Embedder, *, batch_size: int = REEMBED_BATCH
) -> int:
    """Make the vectors of all users' facts, summaries and chunks anew, where others made them.

    Records that have none get one. They keep their places; what was done stays done when it is
    interrupted, and the next call goes on.

    Args:
        storage: One that has `set_vectors`.
        embedder: Makes the vectors.
        batch_size: How many records are held in memory at once.

    Returns:
        How many records have a new vector.

    Raises:
        MemoryStorageError: The storage cannot change vectors.
        OrbiterError: The embedder gave no usable vectors.
    """
    if not isinstance(storage, VectorStorage):
        raise MemoryStorageError(_name(storage), "it has no set_vectors: put its records anew")
    [sample] = await _vectors(["length"], embedder)
    where = RecordFilter(kinds=_SEARCHED, other_embedder=_space(embedder, sample))
    done, seen = 0, set[str]()
    while records := await storage.select(where, limit=batch_size):
        # one that is changed under our hands is left for the next call
        fresh = [record for record in records if record.id not in seen]
        if not fresh:
            break
        seen.update(record.id for record in fresh)
        made = await _embedded(fresh, embedder, space=_space(embedder, sample))
        await storage.set_vectors(made)
        done += sum(record.vector is not None for record in made)
    return done


async def _embedded(
    records: Sequence[MemoryRecord], embedder: Embedder, space: str = ""
) -> list[MemoryRecord]:
    vectors = iter(await _vectors([r.text for r in records if r.text.strip()], embedder))
    found = []
    for record in records:
        vector = next(vectors) if record.text.strip() else None
        made_by = space if vector is None else _space(embedder, vector)
        new = {"vector": None if vector is None else normalized(vector), "embedder": made_by}
        found.append(record.model_copy(update=new))
    return found


async def _vectors(texts: Sequence[str], embedder: Embedder) -> list[Vector]:
    found = list(await embedder.embed(texts)) if texts else []
    problem = ""
    if len(found) != len(texts):
        problem = f"{len(found)} vectors for {len(texts)} texts"
    elif len({len(vector) for vector in found}) > 1:
        problem = "vectors of several lengths"
    elif not all(map(isfinite, (number for vector in found for number in vector))):
        problem = "numbers that are not finite"
    if problem:
        raise OrbiterError(f"embedder '{embedder_name(embedder)}' gave {problem}")
    return found


async def _check(storage: MemoryStorage, space: str) -> None:
    others = RecordFilter(other_embedder=space, with_vector=True)
    found = await storage.select(others, limit=1)
    # a storage that does not know these filters gives any record
    if not found or found[0].vector is None or found[0].embedder == space:
        return
    other = found[0].embedder or "one whose name was not kept"
    raise EmbedderMismatchError(
        _name(storage),
        f"it holds vectors of '{other}', which cannot be compared with those of '{space}': "
        f"use that embedder, or make them anew once by `await orbiter.memory.reembed(storage, "
        "embedder)`",
    )


def _space(embedder: Embedder, vector: Vector) -> str:
    """Name what vectors can be compared in: a model's, of one length."""
    return f"{embedder_name(embedder)}/{len(vector)}"


def _name(storage: MemoryStorage) -> str:
    return str(getattr(storage, "path", type(storage).__name__))
