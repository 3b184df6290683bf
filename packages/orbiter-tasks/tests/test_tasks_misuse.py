"""What a person gets wrong first: a file where none can be, a wait that nobody will end."""

import asyncio
import logging
import subprocess
import sys

import pytest

from orbiter import Agent
from orbiter.tasks import TaskBroker, TaskError, TaskState, TaskStoreSqlite

BAD_PATH = """
import asyncio, sys
from orbiter.tasks import TaskBroker, TaskError, TaskStoreSqlite

async def main():
    async with TaskBroker(TaskStoreSqlite(sys.argv[1])) as broker:
        await broker.submit("hello")

try:
    asyncio.run(main())
except TaskError as error:
    print(error)
"""


@pytest.mark.parametrize("path", ["no/such/tasks.db", "."])
def test_a_file_that_cannot_be_opened_is_a_sentence_and_no_traceback(path, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BAD_PATH, path], cwd=tmp_path, capture_output=True, text=True
    )
    assert f"{path} cannot be opened: unable to open database file" in done.stdout
    assert "Traceback" not in done.stderr
    assert "Exception in thread" not in done.stderr


async def test_no_thread_stays_behind_a_file_that_cannot_be_opened(tmp_path, monkeypatch):
    import aiosqlite

    made = []

    def connect(*args, connect=aiosqlite.Connection, **options):
        made.append(connect(*args, **options))
        return made[-1]

    monkeypatch.setattr(aiosqlite, "Connection", connect)
    with pytest.raises(TaskError, match=r"its directory .* does not exist: make it, or name"):
        await TaskStoreSqlite(tmp_path / "none" / "tasks.db").get("x")
    assert [connection._thread.is_alive() for connection in made] == [False]


async def test_waiting_for_a_task_that_no_broker_runs_says_so_once(caplog):
    broker = TaskBroker(poll_interval=0.001)
    task_id = await broker.submit("hello")
    with caplog.at_level(logging.WARNING, "orbiter.tasks"), pytest.raises(TimeoutError):
        await broker.wait(task_id, timeout=0.1)
    [said] = [record.getMessage() for record in caplog.records]
    assert f"task {task_id} is pending" in said
    assert "`async with broker:`" in said


async def test_a_wait_that_began_before_the_broker_was_entered_ends_as_always(caplog):
    async def shout(task):
        return task.input.upper()

    broker = TaskBroker(agent_specs={"default": shout})
    task_id = await broker.submit("hello")
    waiting = asyncio.create_task(broker.wait(task_id))
    async with broker:
        assert (await waiting).result == "HELLO"
    assert not caplog.records


async def test_a_task_that_waits_for_its_turn_is_nothing_to_warn_of(caplog):
    async def slow(task):
        await asyncio.sleep(3600)

    broker = TaskBroker(agent_specs={"default": slow}, concurrency=1, poll_interval=0.001)
    async with broker:
        first, second = await broker.submit("one"), await broker.submit("two")
        await broker.wait(first, until={TaskState.RUNNING})
        with pytest.raises(TimeoutError):
            await broker.wait(second, timeout=0.05)
        await broker.cancel_all()
    assert not [record for record in caplog.records if "entered" in record.getMessage()]


@pytest.mark.parametrize(
    ("options", "value", "instead"),
    [
        ({"store": "tasks.db"}, "'tasks.db'", "TaskStoreSqlite("),
        ({"store": TaskStoreSqlite}, "the class TaskStoreSqlite", "TaskStoreSqlite("),
        ({"agent_specs": Agent(name="a")}, "Agent(name='a'", "[agent]"),
    ],
)
def test_a_broker_names_what_it_cannot_use_and_what_it_takes(options, value, instead):
    with pytest.raises(TaskError) as refused:
        TaskBroker(**options)
    assert value in str(refused.value)
    assert instead in str(refused.value)
