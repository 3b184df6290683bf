"""Stores of runs: what is appended is there, one at a time has a run, and broken files are said."""

import asyncio
import errno
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from orbiter import run_store
from orbiter.errors import JournalError, RunBusyError
from orbiter.run_store import MemoryRunStore, SqliteRunStore


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    return MemoryRunStore() if request.param == "memory" else SqliteRunStore(tmp_path / "runs.db")


async def kept(store, run_id):
    log = await store.open(run_id)
    await log.close()
    return list(log.entries)


async def test_entries_are_kept_in_their_order_apart_for_each_run(store):
    one, two = await store.open("one"), await store.open("two")
    for number in range(3):
        await one.append(f"one {number}")
        await two.append(f"two {number}")
    assert list(one.entries) == []
    await one.close()
    await two.close()
    assert await kept(store, "one") == ["one 0", "one 1", "one 2"]
    assert await kept(store, "two") == ["two 0", "two 1", "two 2"]


async def test_one_at_a_time_has_a_run(store):
    log = await store.open("one")
    with pytest.raises(RunBusyError, match=r"run 'one' goes on in .*process.*another run_id"):
        await store.open("one")
    with pytest.raises(RunBusyError):
        await store.delete("one")
    await log.close()
    assert await kept(store, "one") == []


async def test_a_run_can_be_forgotten(store):
    log = await store.open("one")
    await log.append("x")
    await log.close()
    assert await store.delete("one") is True
    assert await store.delete("one") is False
    assert await kept(store, "one") == []


async def test_nothing_is_left_beside_the_file_but_its_own(tmp_path):
    store = SqliteRunStore(tmp_path / "runs.db")
    await kept(store, "one")
    assert {path.name for path in tmp_path.iterdir()} <= {"runs.db", "runs.db-wal", "runs.db-shm"}


HOLDER = """
import asyncio, sys
from orbiter.run_store import SqliteRunStore
async def hold():
    log = await SqliteRunStore(sys.argv[1]).open("one")
    await log.append("x")
    print("held", flush=True)
    sys.stdin.read()
asyncio.run(hold())
"""


async def test_a_killed_process_has_its_run_no_more_and_one_that_lives_is_named(tmp_path):
    path = tmp_path / "runs.db"
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(RunBusyError, match=f"goes on in process {child.pid}"):
            await SqliteRunStore(path).open("one")
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert await kept(SqliteRunStore(path), "one") == ["x"]


async def test_many_who_want_one_run_at_once_get_it_one_at_a_time(tmp_path):
    store = SqliteRunStore(tmp_path / "runs.db")

    async def once():
        try:
            log = await store.open("one")
        except RunBusyError:
            return 0
        await log.append("x")
        await log.close()
        return 1

    got = sum(await asyncio.gather(*(once() for _ in range(20))))
    assert got >= 1
    assert await kept(store, "one") == ["x"] * got


async def test_who_is_cancelled_while_opening_leaves_the_run_to_others(tmp_path):
    store = SqliteRunStore(tmp_path / "runs.db")
    for _ in range(5):
        opening = asyncio.create_task(store.open("one"))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    assert await kept(store, "one") == []


async def test_each_entry_is_synced_to_the_disk(tmp_path):
    log = await SqliteRunStore(tmp_path / "runs.db").open("one")
    assert await log._do(lambda db: db.execute("PRAGMA synchronous").fetchone()) == (2,)
    await log.close()


@pytest.mark.parametrize("broken", ["no file of SQLite " * 100, None])
async def test_a_file_that_cannot_be_used_is_said_with_its_name(tmp_path, broken):
    path = tmp_path / "runs.db"
    if broken is None:
        path = tmp_path / "nowhere" / "runs.db"
    else:
        path.write_text(broken)
    with pytest.raises(JournalError, match=r"runs\.db.*does its directory exist"):
        await SqliteRunStore(path).open("one")


async def test_a_run_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    store = SqliteRunStore(tmp_path / "runs.db")
    log = await store.open("one")
    await log.append("x" * 100)
    await log.close()
    monkeypatch.setattr(run_store, "LARGEST_RUN", 99)
    with pytest.raises(JournalError, match="1 entries of 100 characters"):
        await store.open("one")
    monkeypatch.undo()
    assert len(await kept(store, "one")) == 1


async def test_text_that_is_no_text_is_an_error_of_the_journal(tmp_path):
    path = tmp_path / "runs.db"
    log = await SqliteRunStore(path).open("one")
    await log.append("x")
    await log.close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE run_entries SET data = CAST(x'ff' AS TEXT)")
    with pytest.raises(JournalError, match=r"runs\.db"):
        await SqliteRunStore(path).open("one")


async def test_a_run_is_one_run_whichever_link_leads_to_its_file(tmp_path):
    log = await SqliteRunStore(tmp_path / "runs.db").open("one")
    (tmp_path / "same.db").symlink_to("runs.db")
    with pytest.raises(RunBusyError):
        await SqliteRunStore(tmp_path / "same.db").open("one")
    await log.close()
    assert await kept(SqliteRunStore(tmp_path / "same.db"), "one") == []


async def test_a_lock_that_is_a_link_is_not_written_through(tmp_path):
    store = SqliteRunStore(tmp_path / "runs.db")
    log = await store.open("one")
    (lock,) = tmp_path.glob("*-run-*")
    await log.close()
    precious = tmp_path / "precious"
    precious.write_text("precious")
    lock.symlink_to(precious)
    with pytest.raises(JournalError, match="-run-"):
        await store.open("one")
    assert precious.read_text() == "precious"


async def test_a_full_disk_leaves_no_run_busy(tmp_path, monkeypatch):
    store = SqliteRunStore(tmp_path / "runs.db")
    await (await store.open("one")).close()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", full)
        log = await store.open("one")
        with pytest.raises(RunBusyError, match="another process"):
            await store.open("one")
        await log.close()
    assert await kept(store, "one") == []
