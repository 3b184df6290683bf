import asyncio
from pathlib import Path

from support.sqlite_writer import SqliteWriter

from orbiter.tasks import Task, TaskStoreSqlite


async def test_a_new_file_that_somebody_is_about_to_write_is_waited_for(tmp_path: Path) -> None:
    store, writer = TaskStoreSqlite(tmp_path / "tasks.db"), SqliteWriter(tmp_path / "tasks.db")
    creating = asyncio.create_task(store.create(Task(id="a", input="count")))
    await asyncio.wait({creating}, timeout=0.5)
    writer.commit()
    await creating
    assert await store.get("a") is not None
    await store.close()
