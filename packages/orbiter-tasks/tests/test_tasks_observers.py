import asyncio

from support.eventually import eventually

from orbiter.tasks import TaskBroker, TaskEvent, TaskState, TaskStoreJson
from orbiter.tasks.models import EventType

QUICK = 0.02


async def collected(stream):
    return [event async for event in stream]


async def test_many_readers_see_the_same_events_in_the_same_order(store, gate):
    async with TaskBroker(store, agent_specs=gate.agents, poll_interval=1) as broker:
        task_id = await broker.submit("x")
        readers = [asyncio.create_task(collected(broker.stream(task_id))) for _ in range(200)]
        await gate.began.wait()
        full = broker._store
        for n in range(30):
            await full.add_event(
                task_id,
                TaskEvent(task_id=task_id, event_type=EventType.PROGRESS, payload={"n": n}),
            )
        gate.open.set()
        seen = await asyncio.gather(*readers)
    assert all(events == seen[0] for events in seen)
    assert [event.seq for event in seen[0]] == list(range(1, 33))
    assert [event.payload.get("n") for event in seen[0]][1:-1] == list(range(30))
    assert seen[0][-1].new_state is TaskState.COMPLETED


async def test_a_stream_resumes_after_what_was_seen(store, gate):
    gate.open.set()
    async with TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK) as broker:
        task_id = await broker.submit("x")
        events = await collected(broker.stream(task_id))
        assert await collected(broker.stream(task_id, after=1)) == events[1:]
        assert await collected(broker.stream(task_id, after=events[-1].seq)) == []


async def test_a_callback_is_called_once_for_each_transition(store, gate):
    gate.open.set()
    seen = []

    async def note(task):
        seen.append(task.state)

    broker = TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK)
    task_id = await broker.submit("x")
    await broker.notify(task_id, set(TaskState), note)
    assert seen == [TaskState.PENDING]
    async with broker:
        await broker.wait(task_id, timeout=5)
        assert seen == [TaskState.PENDING, TaskState.RUNNING, TaskState.COMPLETED]
    assert len(seen) == 3


async def test_a_callback_that_is_late_is_called_at_once(store, gate):
    gate.open.set()
    seen = []

    async def note(task):
        seen.append((task.state, task.result))

    async with TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK) as broker:
        task_id = await broker.submit("x")
        await broker.wait(task_id, timeout=5)
        await broker.notify(task_id, [TaskState.COMPLETED], note)
        await broker.notify(task_id, [TaskState.FAILED], note)
    assert seen == [(TaskState.COMPLETED, "x!")]


async def test_a_callback_that_raises_harms_nobody(store, gate, caplog):
    gate.open.set()
    seen = []

    async def broken(task):
        raise RuntimeError("callback broke")

    async def note(task):
        seen.append(task.state)

    async with TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK) as broker:
        task_id = await broker.submit("x")
        await broker.notify(task_id, {TaskState.COMPLETED}, broken)
        await broker.notify(task_id, {TaskState.COMPLETED}, note)
        task = await broker.wait(task_id, timeout=5)
    assert (task.state, seen) == (TaskState.COMPLETED, [TaskState.COMPLETED])
    assert "callback broke" in caplog.text


async def test_a_callback_may_use_the_broker(gate):
    gate.open.set()
    seen = []

    async def follow(task):
        seen.append(await broker.wait(task.id))
        seen.append(await broker.cancel(task.id))

    async with TaskBroker(agent_specs=gate.agents) as broker:
        task_id = await broker.submit("x")
        await broker.notify(task_id, {TaskState.COMPLETED}, follow)
        await broker.wait(task_id, timeout=5)
    assert [task.state for task in seen] == [TaskState.COMPLETED] * 2


async def test_a_callback_may_cause_the_next_transition(store, gate):
    seen = []

    async def stop(task):
        seen.append(task.state)
        await broker.cancel(task.id)

    async def note(task):
        seen.append(task.state)

    broker = TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK)
    task_id = await broker.submit("x")
    await broker.notify(task_id, {TaskState.RUNNING}, stop)
    await broker.notify(task_id, {TaskState.CANCELLED}, note)
    async with broker:
        await broker.wait(task_id, timeout=5)
        assert seen == [TaskState.RUNNING, TaskState.CANCELLED]


async def test_a_broker_that_runs_nothing_still_sees_what_another_does(store, gate):
    gate.open.set()
    watching = TaskBroker(store, poll_interval=QUICK)
    seen = []

    async def note(task):
        seen.append(task.state)

    task_id = await watching.submit("x")
    await watching.notify(task_id, {TaskState.RUNNING, TaskState.COMPLETED}, note)
    async with TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK):
        task = await watching.wait(task_id, timeout=5)
    assert task.result == "x!"
    assert seen == [TaskState.RUNNING, TaskState.COMPLETED]


async def test_a_task_is_cancelled_and_followed_through_another_store_object(tmp_path, gate):
    here, there = TaskStoreJson(tmp_path), TaskStoreJson(tmp_path)
    elsewhere = TaskBroker(there, poll_interval=QUICK)
    async with TaskBroker(here, agent_specs=gate.agents, poll_interval=QUICK):
        task_id = await elsewhere.submit("x")
        following = asyncio.create_task(collected(elsewhere.stream(task_id)))
        await gate.began.wait()
        await elsewhere.cancel(task_id)
        await eventually(lambda: gate.stopped == [task_id])
    states = [event.payload["state"] for event in await following]
    assert states == ["running", "cancelled"]
