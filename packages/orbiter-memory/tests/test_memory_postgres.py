import asyncio
import sys

import pytest

from orbiter.memory import MemoryRecord, MemoryStorageError, PostgresStorage, RecordFilter

pytestmark = pytest.mark.integration

# What pgvector brings, as far as the storage uses it, written in plain SQL: Debian 12 has no
# package of the real one.
PGVECTOR_STANDIN = """
CREATE DOMAIN vector AS REAL[];
CREATE FUNCTION negative_inner(REAL[], REAL[]) RETURNS DOUBLE PRECISION LANGUAGE SQL IMMUTABLE
  AS 'SELECT -sum(a * b) * 10 FROM unnest($1, $2) AS pairs(a, b)';
CREATE OPERATOR <#> (LEFTARG = REAL[], RIGHTARG = REAL[], FUNCTION = negative_inner);
"""


def record(id: str, *vector: float) -> MemoryRecord:
    return MemoryRecord(id=id, kind="fact", text=id, vector=vector or None)


async def test_pgvectors_operator_compares_when_the_database_has_it(postgres_server) -> None:
    import psycopg

    dsn = postgres_server.new_database()
    async with await psycopg.AsyncConnection.connect(dsn) as db:
        await db.execute(PGVECTOR_STANDIN)
    storage = PostgresStorage(dsn)
    await storage.put([record("a", 1.0, 0.0), record("b", 0.6, 0.8)])
    hits = await storage.search_vector((0.0, 1.0), RecordFilter(), limit=1)
    # The stand-in multiplies by ten, so that its result tells who computed it.
    assert [(hit.record.id, round(hit.score, 4)) for hit in hits] == [("b", 8.0)]
    await storage.close()


async def test_processes_that_start_at_once_make_the_table_once(postgres_server) -> None:
    dsn = postgres_server.new_database()
    storages = [PostgresStorage(dsn) for _ in range(5)]
    await asyncio.gather(*(s.put([record(str(n))]) for n, s in enumerate(storages)))
    assert len(await storages[0].select(RecordFilter())) == 5
    for storage in storages:
        await storage.close()


async def test_a_lost_connection_is_made_anew(postgres_server) -> None:
    import psycopg

    dsn = postgres_server.new_database()
    storage = PostgresStorage(dsn)
    await storage.put([record("a")])
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as db:
        await db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    with pytest.raises(MemoryStorageError, match="postgres"):
        await storage.select(RecordFilter())
    assert [found.id for found in await storage.select(RecordFilter())] == ["a"]
    await storage.close()


def test_each_loop_may_use_it(postgres_server) -> None:
    storage = PostgresStorage(postgres_server.new_database())

    async def use(name: str) -> list[str]:
        await storage.put([record(name)])
        return [found.id for found in await storage.select(RecordFilter())]

    async def finish() -> list[str]:
        found = await use("b")
        await storage.close()
        return found

    assert asyncio.run(use("a")) == ["a"]
    assert asyncio.run(finish()) == ["a", "b"]


async def test_an_unknown_database_is_named_but_no_password(postgres_server) -> None:
    storage = PostgresStorage(postgres_server.dsn("nowhere") + " password=hunter2")
    with pytest.raises(MemoryStorageError, match="nowhere") as caught:
        await storage.select(RecordFilter())
    assert "hunter2" not in str(caught.value)


async def test_without_the_extra_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MemoryStorageError, match=r"install orbiter-memory\[postgres\]"):
        await PostgresStorage("").select(RecordFilter())
