"""The real pgvector: the same results as without it, and an index when somebody asks for one."""

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from orbiter.memory import (
    HashEmbedder,
    LongTermMemory,
    MemoryRecord,
    MemoryStorageError,
    PostgresStorage,
    RecordFilter,
    postgres,
)
from orbiter.memory.embedding import normalized

pytestmark = pytest.mark.integration

MANY = 400
LENGTH = 16


def some_records(count: int = MANY, **fields: Any) -> list[MemoryRecord]:
    chance = random.Random(7)
    return [
        MemoryRecord(
            id=f"{fields.get('user_id', '')}-{number}",
            kind="fact",
            text=f"fact {number}",
            vector=normalized([chance.gauss(0, 1) for _ in range(LENGTH)]),
            embedder=f"it's 100%s/{LENGTH}",
            **fields,
        )
        for number in range(count)
    ]


def mine(user_id: str | None = None) -> RecordFilter:
    return RecordFilter(embedder=f"it's 100%s/{LENGTH}", user_id=user_id)


def question(seed: int) -> tuple[float, ...]:
    chance = random.Random(1_000 + seed)
    return normalized([chance.gauss(0, 1) for _ in range(LENGTH)])


async def execute(dsn: str, *statements: str) -> list[Any]:
    import psycopg

    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as db:
        for statement in statements:
            cursor = await db.execute(statement.encode())
        return await cursor.fetchall() if cursor.description else []


@pytest.fixture
async def dsn(pgvector_server: Any) -> str:
    found: str = pgvector_server.new_database()
    await execute(found, "CREATE EXTENSION vector")
    return found


@pytest.fixture
async def storage(dsn: str) -> AsyncIterator[PostgresStorage]:
    opened = PostgresStorage(dsn)
    yield opened
    await opened.close()


async def nearest(storage: PostgresStorage, seed: int, where: RecordFilter) -> list[Any]:
    hits = await storage.search_vector(question(seed), where, limit=10)
    return [(hit.record.id, round(hit.score, 4)) for hit in hits]


async def test_with_and_without_the_extension_the_same_is_found(
    storage: PostgresStorage, pgvector_server: Any
) -> None:
    plain = PostgresStorage(pgvector_server.new_database())
    for each in (storage, plain):
        await each.put(some_records())
    for seed in range(20):
        assert await nearest(storage, seed, mine()) == await nearest(plain, seed, mine())
    await plain.close()


async def test_a_memory_works_the_same(storage: PostgresStorage) -> None:
    memory = LongTermMemory(storage, embedder=HashEmbedder())
    await memory.add("Ada collects saxophones.")
    await memory.add("Ada likes tea.")
    assert (await memory.search("saxofones"))[0].text == "Ada collects saxophones."


async def test_vectors_of_several_lengths_may_lie_in_one_table(storage: PostgresStorage) -> None:
    short = MemoryRecord(id="s", kind="fact", text="s", vector=(1.0, 0.0), embedder="x/2")
    await storage.put([*some_records(5), short])
    assert len(await storage.search_vector(question(0), mine(), limit=9)) == 5
    assert len(await storage.search_vector((1.0, 0.0), RecordFilter(), limit=9)) == 1


async def test_an_index_is_made_when_it_is_asked_for_and_once(
    storage: PostgresStorage, dsn: str
) -> None:
    await storage.put(some_records())
    indexes = "SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%hnsw%'"
    assert await execute(dsn, indexes) == []
    assert await storage.create_vector_index() == [f"it's 100%s/{LENGTH}"]
    assert await storage.create_vector_index() == []
    [[index]] = await execute(dsn, indexes)
    assert f"vector({LENGTH})" in index
    assert "it''s 100%s/16" in index
    again = PostgresStorage(dsn)
    assert await again.create_vector_index() == []
    await again.close()


async def test_the_index_is_used_beyond_a_number_of_rows_and_finds_the_nearest(
    storage: PostgresStorage, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await storage.put(some_records())
    await storage.create_vector_index()
    exact = [await nearest(storage, seed, mine()) for seed in range(20)]
    scans = (
        "SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname LIKE 'memory_vectors_%'"
    )
    assert await execute(dsn, "SELECT pg_stat_force_next_flush()", scans) == [(0,)]
    monkeypatch.setattr(postgres, "EXACT_ROWS", MANY // 2)
    # of so few rows the planner would sort them all
    await execute(dsn, "ALTER ROLE test SET enable_sort = off")
    by_index = PostgresStorage(dsn)
    found = [await nearest(by_index, seed, mine()) for seed in range(20)]
    same = sum(len(set(a) & set(b)) for a, b in zip(exact, found, strict=True))
    assert same >= 0.95 * sum(map(len, exact))
    await by_index.close()
    [(used,)] = await execute(dsn, scans)
    assert used >= 20


async def test_a_filter_that_lets_few_through_loses_none(
    storage: PostgresStorage, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await storage.put(some_records(user_id="many"))
    await storage.put(some_records(3, user_id="few"))
    await storage.create_vector_index()
    monkeypatch.setattr(postgres, "EXACT_ROWS", 1)
    await execute(dsn, "ALTER ROLE test SET enable_sort = off")
    assert len(await nearest(storage, 0, mine("few"))) == 3
    assert len(await nearest(storage, 0, mine("many"))) == 10


async def test_an_index_that_was_interrupted_is_made_anew(
    storage: PostgresStorage, dsn: str
) -> None:
    await storage.put(some_records(20))
    await storage.create_vector_index()
    await execute(
        dsn,
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid IN "
        "(SELECT oid FROM pg_class WHERE relname LIKE 'memory_vectors_%')",
    )
    again = PostgresStorage(dsn)
    assert await again.create_vector_index() == [f"it's 100%s/{LENGTH}"]
    await again.close()


@pytest.mark.parametrize(("length", "kind"), [(2_000, "vector"), (3_072, "halfvec")])
async def test_long_vectors_are_indexed_by_halves(
    storage: PostgresStorage, dsn: str, length: int, kind: str
) -> None:
    one = MemoryRecord(id="a", kind="fact", text="a", vector=normalized([1.0] * length))
    await storage.put([one.model_copy(update={"embedder": f"long/{length}"})])
    assert await storage.create_vector_index() == [f"long/{length}"]
    [[index]] = await execute(dsn, "SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%hnsw%'")
    assert f"{kind}_ip_ops" in index


async def test_vectors_too_long_for_an_index_are_named(storage: PostgresStorage) -> None:
    one = MemoryRecord(id="a", kind="fact", text="a", vector=normalized([1.0] * 4_096))
    await storage.put([one.model_copy(update={"embedder": "long/4096"})])
    with pytest.raises(MemoryStorageError, match=r"'long/4096' are too long .* fewer dimensions"):
        await storage.create_vector_index()


async def test_without_the_extension_an_index_cannot_be_made(pgvector_server: Any) -> None:
    storage = PostgresStorage(pgvector_server.new_database())
    with pytest.raises(MemoryStorageError, match="CREATE EXTENSION vector"):
        await storage.create_vector_index()
    await storage.close()


async def test_a_table_of_an_earlier_version_goes_on(dsn: str) -> None:
    old = PostgresStorage(dsn)
    await old.put(some_records(3))
    await old.close()
    await execute(
        dsn,
        "ALTER TABLE memory_records DROP COLUMN embedder, DROP COLUMN superseded_at, "
        "DROP COLUMN superseded_by",
    )
    storage = PostgresStorage(dsn)
    found = await storage.select(RecordFilter())
    assert [(r.id, r.embedder, len(r.vector or ())) for r in found] == [
        (f"-{number}", "", LENGTH) for number in range(3)
    ]
    await storage.close()
