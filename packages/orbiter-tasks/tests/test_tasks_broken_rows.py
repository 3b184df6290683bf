"""A row or an object that cannot be read is its task's failure; every other task is done."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.strange_values import VALUES, written

from orbiter.tasks import Task, TaskBroker, TaskState, TaskStoreSqlite, page_of
from orbiter.tasks._internal.agent_tasks import RECORD, read

QUICK = 0.02
NESTED = "[" * 100_000
EVENT = "INSERT INTO task_events VALUES ('bad', ?, ?)"
BREAKS = {
    "empty": ("UPDATE tasks SET body = '' WHERE id = 'bad'", []),
    "no JSON": ("UPDATE tasks SET body = '{' WHERE id = 'bad'", []),
    "a list": ("UPDATE tasks SET body = '[]' WHERE id = 'bad'", []),
    "nested": ("UPDATE tasks SET body = ? WHERE id = 'bad'", [NESTED]),
    "no UTF-8": ("UPDATE tasks SET body = CAST(x'fffe' AS TEXT) WHERE id = 'bad'", []),
    "bytes": ("UPDATE tasks SET body = x'fffe' WHERE id = 'bad'", []),
    "another task": ("UPDATE tasks SET body = replace(body, 'bad', 'first') WHERE id = 'bad'", []),
    "a version in words": ("UPDATE tasks SET version = 'one' WHERE id = 'bad'", []),
    "a version in bytes": ("UPDATE tasks SET version = x'30' WHERE id = 'bad'", []),
    "an owner of bytes": ("UPDATE tasks SET owner = x'ff' WHERE id = 'bad'", []),
    "a lease in words": ("UPDATE tasks SET lease_until = 'soon' WHERE id = 'bad'", []),
    "an event that is no JSON": (EVENT, [1, "{"]),
    "an event of bytes": (EVENT, [1, b"\xff"]),
    "an event that is no object": (EVENT, [1, "1"]),
    "an event of an unknown state": (
        EVENT, [1, '{"task_id": "bad", "event_type": "state_change", "payload": {}}'],
    ),
    "an event without a number": (EVENT, ["one", "{"]),
}  # fmt: skip


async def shout(task):
    return task.input.upper()


def run_sql(path, query, values=()):
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(query, values).fetchall()


async def three_tasks(path):
    store = TaskStoreSqlite(path)
    for name in ("first", "bad", "last"):
        await store.create(Task(id=name, input=name))
    await store.close()


@pytest.mark.parametrize(("query", "values"), BREAKS.values(), ids=BREAKS)
async def test_a_row_that_cannot_be_read_fails_its_task_and_is_kept(
    tmp_path, caplog, query, values
):
    path = tmp_path / "tasks.db"
    await three_tasks(path)
    run_sql(path, query, values)
    store = TaskStoreSqlite(path)
    async with TaskBroker(store, agent_specs={"default": shout}, poll_interval=QUICK) as broker:
        task = await broker.wait("bad", timeout=20)
        for name in ("first", "last"):
            assert (await broker.wait(name, timeout=20)).result == name.upper()
        events = [event async for event in broker.stream("bad")]
    assert (task.id, task.state) == ("bad", TaskState.FAILED)
    assert "its row in the store could not be read: " in task.error
    assert events[-1].new_state is TaskState.FAILED
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len((await page_of(store)).tasks) == 3
    await store.close()
    assert run_sql(path, "SELECT count(*) FROM unreadable WHERE id = 'bad'")[0][0] >= 1
    assert caplog.text.count("task 'bad' has a row that cannot be read") == 1


@pytest.mark.parametrize("broken", BREAKS)
async def test_a_broken_row_costs_no_page_of_some_metadata(tmp_path, broken):
    path = tmp_path / "tasks.db"
    await three_tasks(path)
    run_sql(path, *BREAKS[broken])
    store = TaskStoreSqlite(path)
    mine = await store.create(Task(input="x", metadata={"user": "ada"}))
    page = await page_of(store, metadata={"user": "ada"})
    await store.close()
    assert ([task.id for task in page.tasks], page.total) == ([mine.id], 1)


async def test_what_was_in_the_row_and_its_events_is_kept_beside(tmp_path):
    path = tmp_path / "tasks.db"
    await three_tasks(path)
    run_sql(path, "UPDATE tasks SET body = 'what it was' WHERE id = 'bad'")
    run_sql(path, EVENT, [1, "an event"])
    store = TaskStoreSqlite(path)
    task = await store.get("bad")
    await store.close()
    assert task.events[0].payload == {"unreadable": "it is no JSON: JSONDecodeError"}
    kept = run_sql(path, "SELECT seq, body FROM unreadable ORDER BY seq")
    assert kept == [(None, "what it was"), (1, "an event")]


async def test_a_broken_event_takes_no_result_from_a_task_that_is_over(tmp_path):
    path = tmp_path / "tasks.db"
    store = TaskStoreSqlite(path)
    await store.create(Task(id="bad", input="x"))
    await store.update_state("bad", TaskState.COMPLETED, result="done")
    run_sql(path, EVENT, [2, "{"])
    assert [event.seq for event in await store.events_after("bad", 0)] == [1, 2]
    found = await store.get("bad")
    await store.close()
    assert (found.state, found.result) == (TaskState.COMPLETED, "done")


async def test_two_rows_of_one_name_are_two_tasks(tmp_path):
    path = tmp_path / "tasks.db"
    await three_tasks(path)
    run_sql(path, "UPDATE tasks SET id = CAST('first' AS BLOB) WHERE id = 'bad'")
    store = TaskStoreSqlite(path)
    first, last = await store.list_by_state(TaskState.PENDING)
    (failed,) = await store.list_by_state(TaskState.FAILED)
    await store.close()
    assert (first.id, last.id, failed.id) == ("first", "last", "first~2")


CELLS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.binary() | st.text(
    st.characters(exclude_categories=["Cs"])
) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps)  # fmt: skip
COLUMN = st.sampled_from(["body", "owner", "lease_until", "version", "state", "news", "event"])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(column=COLUMN, cell=CELLS)
def test_whatever_is_in_a_row_the_tasks_around_it_are_done(column, cell):
    async def check(path):
        await three_tasks(path)
        try:
            query = f"UPDATE tasks SET {column} = ? WHERE id = 'bad'"
            run_sql(path, EVENT if column == "event" else query, [1, cell][column != "event" :])
        except sqlite3.Error:
            pass  # SQLite itself does not take it
        store = TaskStoreSqlite(path)
        async with TaskBroker(store, agent_specs={"default": shout}, poll_interval=QUICK) as broker:
            for name in ("first", "last"):
                assert (await broker.wait(name, timeout=20)).result == name.upper()
            await broker._dispatcher._take_in_orphans()
            assert await broker.poll("bad") is not None
        await store.close()

    with TemporaryDirectory() as name:
        asyncio.run(check(Path(name) / "tasks.db"))


def obj(**parts):
    meta = {"name": "fix", "uid": "u", "resourceVersion": "7"}
    meta["creationTimestamp"] = "2026-01-02T03:04:05Z"
    body = {"metadata": meta | parts.pop("metadata", {}), "spec": {"prompt": "do it"}}
    return body | parts


MANAGED = {"prompt": "x", "managedBy": "orbiter.dev/task-broker"}


@pytest.mark.parametrize(
    "managed", ["{", "[1]", "[" * 100_000, '{"events": [{}]}', '{"state": "lost"}']
)
def test_an_object_with_a_broken_record_is_a_failed_task(managed, caplog):
    task = read(obj(spec=MANAGED, status={"managed": managed}))
    assert (task.id, task.state) == ("fix", TaskState.FAILED)
    assert "the AgentTask cannot be read" in task.error
    assert "AgentTask fix cannot be read" in caplog.text


def test_an_object_of_an_unknown_phase_is_a_failed_task():
    assert "'Dreaming'" in read(obj(status={"phase": "Dreaming"})).error


@pytest.mark.parametrize("attempts", [1001, 2**31, 2**63, 10**400])
def test_an_object_of_countless_attempts_is_a_failed_task(attempts):
    task = read(obj(status={"attempts": attempts, "phase": "Running"}))
    assert task.state is TaskState.FAILED
    assert "status.attempts is" in task.error


@pytest.mark.parametrize("record", ["{", "[]", "[" * 100_000, '{"created_at": "long ago"}'])
def test_an_annotation_that_somebody_else_wrote_is_left_out(record):
    task = read(obj(metadata={"annotations": {RECORD: record}}))
    assert (task.state, task.input, task.metadata) == (TaskState.PENDING, "do it", {})


@given(
    record=st.text() | VALUES.map(written),
    managed=st.text() | VALUES.map(written),
    status=st.dictionaries(
        st.sampled_from(["phase", "attempts", "conditions", "inputRequest", "startTime"]), VALUES
    ),
    spec=st.sampled_from([{"prompt": "x"}, MANAGED]),
)
def test_whatever_an_object_holds_it_is_a_task(record, managed, status, spec):
    meta = {"annotations": {RECORD: record}}
    assert read(obj(metadata=meta, spec=spec, status=status | {"managed": managed})).id == "fix"
