import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from orbiter.tasks import (
    Guard,
    TaskBroker,
    TaskState,
    TaskStoreJson,
    TaskStoreMemory,
    TaskStoreSqlite,
)

QUICK = 0.02


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture(params=["memory", "json", "sqlite"])
async def timed(request, tmp_path):
    clock = Clock()
    if request.param == "memory":
        yield TaskStoreMemory(clock=clock), clock
    elif request.param == "json":
        yield TaskStoreJson(tmp_path / "tasks", clock=clock), clock
    else:
        sqlite = TaskStoreSqlite(tmp_path / "tasks.db", clock=clock)
        yield sqlite, clock
        await sqlite.close()


async def test_a_lease_runs_out_unless_it_is_renewed(timed):
    store, clock = timed
    task_id = await TaskBroker(store).submit("x")
    await store.claim("owner", 10)
    clock.advance(9)
    assert await store.renew([task_id], "owner", 10) == {task_id}
    clock.advance(9)
    assert await store.expired() == []
    clock.advance(1)
    assert [task.id for task in await store.expired()] == [task_id]


async def test_a_running_task_without_a_lease_is_an_orphan_after_a_while(timed):
    store, clock = timed
    task_id = await TaskBroker(store).submit("x")
    await store.update_state(task_id, TaskState.RUNNING)
    clock.advance(9)
    assert await store.expired() == []
    clock.advance(1)
    assert [task.id for task in await store.expired()] == [task_id]


async def test_an_orphan_fails_and_says_why(timed):
    store, clock = timed
    task_id = await TaskBroker(store).submit("x")
    await store.claim("lost", 10)
    clock.advance(10)
    async with TaskBroker(store, poll_interval=QUICK) as broker:
        task = await broker.wait(task_id, timeout=5)
    assert task.state is TaskState.FAILED
    assert "the process that ran the task (lost) is gone, 1 time by now" in task.error


async def test_an_orphan_is_run_again_as_often_as_allowed(timed, gate):
    store, clock = timed
    gate.open.set()
    broker = TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK, orphan_retries=1)
    task_id, other_id = await broker.submit("x"), await broker.submit("y")
    await store.claim("lost", 10)
    await store.claim("lost", 10)
    clock.advance(10)
    orphaned = broker._dispatcher
    await orphaned._take_in_orphans()
    assert (await broker.poll(task_id)).state is TaskState.PENDING
    await store.claim("lost too", 10)
    clock.advance(10)
    async with broker:
        assert "2 times by now" in (await broker.wait(task_id, timeout=5)).error
        assert (await broker.wait(other_id, timeout=5)).result == "y!"


async def test_what_a_broker_finds_out_after_losing_its_lease_does_not_count(timed, gate):
    store, clock = timed
    async with TaskBroker(store, agent_specs=gate.agents, poll_interval=60) as broker:
        task_id = await broker.submit("x")
        await gate.began.wait()
        clock.advance(60)
        taken = await store.move(
            task_id, TaskState.FAILED, guard=Guard(expired=True), error="taken over"
        )
        gate.open.set()
        await asyncio.wait(broker._dispatcher._runs.values())
        task = await broker.poll(task_id)
    assert taken is not None
    assert (task.state, task.error, task.result) == (TaskState.FAILED, "taken over", None)


async def test_a_run_whose_lease_was_lost_is_stopped(timed, gate):
    store, clock = timed
    async with TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK) as broker:
        task_id = await broker.submit("x")
        await gate.began.wait()
        clock.advance(60)
        await store.move(task_id, TaskState.FAILED, guard=Guard(expired=True), error="taken over")
        await broker._dispatcher._renew()
        await asyncio.wait(broker._dispatcher._runs.values())
    assert gate.stopped == [task_id]


async def test_orphans_of_a_store_of_six_methods_are_found_at_once():
    from .six_methods import SixMethods

    store = SixMethods()
    task_id = await TaskBroker(store).submit("x")
    await store.update_state(task_id, TaskState.RUNNING)
    async with TaskBroker(store, poll_interval=QUICK) as broker:
        assert (await broker.wait(task_id, timeout=5)).state is TaskState.FAILED


async def test_leaving_lets_running_tasks_finish_and_begins_no_others(store, gate):
    async with TaskBroker(
        store, agent_specs=gate.agents, concurrency=1, poll_interval=QUICK
    ) as broker:
        running, waiting = await broker.submit("x"), await broker.submit("y")
        await gate.began.wait()
        asyncio.get_running_loop().call_later(0.05, gate.open.set)
    assert (await broker.poll(running)).state is TaskState.COMPLETED
    assert (await broker.poll(waiting)).state is TaskState.PENDING


@pytest.mark.parametrize("options", [{"on_exit": "requeue"}, {"exit_timeout": 0.05}])
async def test_leaving_requeues_what_does_not_finish(store, gate, options):
    async with TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK, **options) as broker:
        task_id = await broker.submit("x")
        await gate.began.wait()
    assert (await broker.poll(task_id)).state is TaskState.PENDING
    assert gate.stopped == [task_id]
    gate.open.set()
    async with TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK) as second:
        assert (await second.wait(task_id, timeout=5)).result == "x!"


async def test_leaving_by_an_exception_requeues_at_once(store, gate):
    broker = TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK)
    task_id = await broker.submit("x")

    async def leave() -> None:
        async with broker:
            await gate.began.wait()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await leave()
    assert (await broker.poll(task_id)).state is TaskState.PENDING


async def test_a_store_that_fails_now_and_then_loses_no_task(gate, caplog):
    class Shaky(TaskStoreMemory):
        failures = 3

        async def _swap(self, old, new):
            if new.state is TaskState.COMPLETED and self.failures:
                self.failures -= 1
                raise OSError("disk is away")
            return await super()._swap(old, new)

    gate.open.set()
    store = Shaky()
    async with TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK) as broker:
        broker._worker._sleep = lambda seconds: asyncio.sleep(0)
        task_id = await broker.submit("x")
        assert (await broker.wait(task_id, timeout=5)).result == "x!"
    assert "disk is away" in caplog.text
