"""Long lists of tasks, a page at a time, over every store."""

import math
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter.tasks import Task, TaskState, page_of
from orbiter.tasks.paging import read_cursor

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def seven(store):
    for minute in (3, 1, 6, 0, 5, 2, 4):
        at = BEGIN + timedelta(minutes=minute // 2)  # pairs of the same time
        await store.create(Task(id=f"task-{minute}", input="x", created_at=at))
    await store.update_state("task-6", TaskState.RUNNING)
    return store


async def pages(store, **options):
    after, found = None, []
    while True:
        page = await page_of(store, after=after, **options)
        found.append([task.id for task in page.tasks])
        after = page.next
        if after is None:
            return found, page.total


async def test_pages_have_each_task_once_the_newest_first(seven):
    found, total = await pages(seven, limit=3)
    assert found == [["task-6", "task-5", "task-4"], ["task-3", "task-2", "task-1"], ["task-0"]]
    assert total == 7


async def test_a_page_that_ends_with_the_last_task_has_no_next(seven):
    assert (await pages(seven, limit=7))[0] == [[f"task-{n}" for n in range(6, -1, -1)]]


async def test_pages_of_some_states_leave_out_the_others(seven):
    assert await pages(seven, states={TaskState.RUNNING}) == ([["task-6"]], 1)
    assert await pages(seven, states={TaskState.FAILED}) == ([[]], 0)


async def test_pages_of_some_metadata_leave_out_the_others(seven):
    wanted = []
    for place in range(3):
        task = Task(input="of ada", metadata={"user": "ada", 'a "b"': "c"})
        wanted.append((await seven.create(task)).id)
        await seven.create(Task(input="of bob", metadata={"user": "bob" if place else 7}))
    first = await page_of(seven, limit=2, metadata={"user": "ada", 'a "b"': "c"})
    second = await page_of(seven, limit=2, after=first.next, metadata={"user": "ada"})
    assert [task.id for task in first.tasks + second.tasks] == wanted[::-1]
    assert (first.total, second.total, second.next) == (3, 3, None)
    assert (await page_of(seven, metadata={"user": "ada", "other": "x"})).total == 0
    assert (await page_of(seven, states={TaskState.FAILED}, metadata={"user": "ada"})).total == 0


async def test_tasks_that_come_in_meanwhile_do_not_shift_the_pages(seven):
    first = await page_of(seven, limit=3)
    await seven.create(Task(id="late", input="x", created_at=BEGIN + timedelta(hours=1)))
    second = await page_of(seven, limit=3, after=first.next)
    assert [task.id for task in second.tasks] == ["task-3", "task-2", "task-1"]


@pytest.mark.parametrize("cursor", ["", "x", "1", "nan~a", "1e400~a"])
async def test_what_is_no_cursor_is_told(store, cursor):
    with pytest.raises(ValueError, match="no cursor"):
        await page_of(store, after=cursor)


@given(st.text() | st.tuples(st.floats() | st.integers(), st.text()).map("{0[0]}~{0[1]}".format))
def test_any_text_is_a_cursor_or_refused(text):
    with suppress(ValueError):
        moment, key = read_cursor(text)
        assert math.isfinite(moment)
        assert text.endswith(key)


async def test_a_page_has_a_size_that_can_be_served(store):
    with pytest.raises(ValueError, match="not 1001"):
        await page_of(store, limit=1001)
