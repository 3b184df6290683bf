import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from support.sqlite_writer import SqliteWriter

from orbiter.memory import MemoryRecord, MemoryStorageError, RecordFilter, SqliteStorage

WRITER = """
import asyncio, sys
from orbiter.memory import MemoryRecord, SqliteStorage

async def main(path, name):
    storage = SqliteStorage(path)
    for n in range(25):
        await storage.put([MemoryRecord(id=f"{name}-{n}", kind="fact", text=f"{name} {n}")])
    await storage.close()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""
FORGETFUL = """
import asyncio, sys
from orbiter.memory import MemoryRecord, SqliteStorage

storage = SqliteStorage(sys.argv[1])
asyncio.run(storage.put([MemoryRecord(id="a", kind="fact", text="a")]))
asyncio.run(storage.put([MemoryRecord(id="b", kind="fact", text="b")]))
"""


def fact(id: str) -> MemoryRecord:
    return MemoryRecord(id=id, kind="fact", text=id)


async def test_several_processes_write_one_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in ("x", "y")
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    storage = SqliteStorage(path)
    assert len(await storage.select(RecordFilter())) == 50
    assert len(await storage.search_text("y", RecordFilter(), limit=100)) == 25
    await storage.close()


async def test_a_new_file_that_somebody_is_about_to_write_is_waited_for(tmp_path: Path) -> None:
    storage, writer = SqliteStorage(tmp_path / "memory.db"), SqliteWriter(tmp_path / "memory.db")
    putting = asyncio.create_task(storage.put([fact("a")]))
    await asyncio.wait({putting}, timeout=0.5)
    writer.commit()
    await putting
    assert [record.id for record in await storage.select(RecordFilter())] == ["a"]
    await storage.close()


async def test_a_forgotten_close_keeps_no_process_alive_and_each_loop_may_use_it(
    tmp_path: Path,
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORGETFUL, str(tmp_path / "memory.db")], timeout=60
    )
    assert ended.returncode == 0
    storage = SqliteStorage(tmp_path / "memory.db")
    assert len(await storage.select(RecordFilter())) == 2
    await storage.close()


async def test_concurrent_writers_of_one_storage_take_turns(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path / "memory.db")
    await asyncio.gather(*(storage.put([fact(str(n)), fact(f"{n}-b")]) for n in range(30)))
    assert len(await storage.select(RecordFilter())) == 60
    await storage.close()


async def test_a_batch_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path / "memory.db")
    await storage.put([fact("a")])
    timeless = fact("c").model_copy(update={"created_at": None})
    with pytest.raises(MemoryStorageError, match=r"memory\.db.*NOT NULL"):
        await storage.put([fact("b"), timeless])
    assert [record.id for record in await storage.select(RecordFilter())] == ["a"]
    await storage.put([fact("c")])
    await storage.close()


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path / "nowhere" / "memory.db")
    with pytest.raises(MemoryStorageError, match=r"nowhere/memory\.db.*directory exist"):
        await storage.select(RecordFilter())


async def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    await SqliteStorage(tmp_path / "memory.db").close()
    assert list(tmp_path.iterdir()) == []
