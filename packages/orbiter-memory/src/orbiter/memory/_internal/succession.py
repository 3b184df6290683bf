"""Facts that take the place of others: the others stay as history, which nobody recalls."""

from collections.abc import Callable, Sequence
from hashlib import blake2b

from orbiter.memory._internal.outage import embedded_if_possible
from orbiter.memory.embedding import Embedder
from orbiter.memory.extraction import transcript
from orbiter.memory.reading import FactChange
from orbiter.memory.storage import MemoryStorage
from orbiter.memory.types import MemoryHit, MemoryRecord, RecordFilter
from orbiter.memory.vectors import MAX_QUERY_CHARS
from orbiter.types import Message, UserMessage

# How many of the newest facts a model is shown, whatever was said.
NEWEST_FACTS = 10


def said_by_user(messages: Sequence[Message]) -> str:
    """Return the person's words of a run, as much as is searched for."""
    return transcript([m for m in messages if isinstance(m, UserMessage)])[:MAX_QUERY_CHARS]


async def known_facts(
    storage: MemoryStorage, facts: RecordFilter, nearest: Sequence[MemoryHit]
) -> list[MemoryRecord]:
    """Return the facts that a model may change: the nearest, and the newest behind them."""
    found = {hit.record.id: hit.record for hit in nearest}
    for record in await storage.select(facts, limit=NEWEST_FACTS):
        found.setdefault(record.id, record)
    return list(found.values())


async def keep(
    records: Sequence[MemoryRecord],
    changes: Sequence[FactChange],
    storage: MemoryStorage,
    *,
    facts: RecordFilter,
    new_fact: Callable[[str], MemoryRecord],
    embedder: Embedder | None,
    now: float,
) -> None:
    """Put what is new, and make history of what no longer holds.

    Args:
        records: What is new besides.
        changes: What becomes of known facts.
        storage: Where they are.
        facts: Which facts may be changed.
        new_fact: Makes the record of a fact.
        embedder: Makes vectors.
        now: When, in seconds since the epoch.

    Raises:
        OrbiterError: It cannot be put, or the embedder fails for good; nothing is changed then.
    """
    # somebody may have had one deleted while the model was reading
    known = await _still_there(changes, storage, facts)
    new = list(records)
    history: list[MemoryRecord] = []
    for change in changes:
        fact = new_fact(change.text) if change.action == "update" else None
        if fact is not None:
            new.append(fact)
        old = known.get(change.id)
        if old is not None and (fact is None or fact.id != old.id):
            history.append(_superseded(old, "" if fact is None else fact.id, now))
    new = list(await embedded_if_possible(new, storage, embedder))
    if new or history:
        await storage.put([*history, *new])
    # at last: what is interrupted before is done again by the next run, and nothing is lost. What
    # is told again in the same breath stays
    gone = known.keys() - {record.id for record in new}
    if gone:
        await storage.delete(facts.model_copy(update={"ids": tuple(gone)}))


async def _still_there(
    changes: Sequence[FactChange], storage: MemoryStorage, facts: RecordFilter
) -> dict[str, MemoryRecord]:
    if not changes:
        return {}
    where = facts.model_copy(update={"ids": tuple(change.id for change in changes)})
    return {record.id: record for record in await storage.select(where)}


def _superseded(old: MemoryRecord, by: str, now: float) -> MemoryRecord:
    # the same each time, so that what a crash interrupted is not history twice
    parts = f"superseded\x1f{old.id}\x1f{old.created_at!r}".encode()
    return old.model_copy(
        update={
            "id": blake2b(parts, digest_size=16).hexdigest(),
            "kind": "superseded",
            "vector": None,
            "embedder": "",
            "superseded_at": now,
            "superseded_by": by,
        }
    )
