import asyncio
import logging

import pytest

from orbiter import Agent, tool
from orbiter.hooks import Hook, HookPoint
from orbiter.models import ModelError, ScriptedModel, call
from orbiter.observer import Observer
from orbiter.tasks import (
    AgentSpec,
    EventType,
    TaskBroker,
    TaskNotFoundError,
    TaskState,
    TaskStoreMemory,
    TransitionError,
    Worker,
)
from orbiter.tasks._internal.agent_run import _followed, _Follower

QUICK = 0.02


async def test_a_submitted_task_is_completed_by_its_agent(store):
    model = ScriptedModel("Spooky.")
    async with TaskBroker(store, model=model, poll_interval=QUICK) as broker:
        task_id = await broker.submit("Explain it", system_prompt="You are a physicist.", mine=1)
        task = await broker.wait(task_id, timeout=5)
    assert (task.state, task.result) == (TaskState.COMPLETED, "Spooky.")
    assert task.metadata == {"system_prompt": "You are a physicist.", "mine": 1}
    system, user = model.requests[0].messages
    assert (system.content, user.content) == ("You are a physicist.", "Explain it")


async def test_a_failing_agent_fails_the_task_and_is_logged(store, caplog):
    model = ScriptedModel(ModelError("no credit left"))
    async with TaskBroker(store, model=model, poll_interval=QUICK) as broker:
        task = await broker.wait(await broker.submit("x"), timeout=5)
    assert task.state is TaskState.FAILED
    assert "no credit left" in task.error
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert any("no credit left" in text for text in errors)


async def test_an_unknown_agent_fails_the_task_and_names_the_known_ones():
    async with TaskBroker(agent_specs={"writer": AgentSpec()}) as broker:
        task = await broker.wait(await broker.submit("x", config_name="poet"), timeout=5)
    assert "unknown agent 'poet'; registered: writer" in task.error


async def test_a_spec_takes_any_type_of_an_answer(store):
    spec = AgentSpec(name="default", output_type=list[int])
    async with TaskBroker(store, model=ScriptedModel('{"result": [1, 2]}')) as broker:
        broker.register_agents([spec])
        task = await broker.wait(await broker.submit("x"), timeout=5)
    assert (task.state, task.result) == (TaskState.COMPLETED, "[1, 2]")
    with pytest.raises(ValueError, match=r"got 7 \(int\): give the class of a pydantic model"):
        AgentSpec(output_type=7)


async def test_an_agent_that_meets_its_limit_has_not_completed():
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    spec = AgentSpec(name="default", tools=(look,), max_steps=2)
    model = ScriptedModel(call("look"), repeat=True)
    async with TaskBroker(model=model) as broker:
        broker.register_agents([spec])
        task = await broker.wait(await broker.submit("x"), timeout=5)
    assert task.state is TaskState.FAILED
    assert "max_steps" in task.error


async def test_tasks_wait_in_the_store_until_the_broker_is_entered(store, gate):
    gate.open.set()
    broker = TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK)
    seen = []
    task_id = await broker.submit("x")
    cancelled_id = await broker.submit("y")

    async def note(task):
        seen.append(task.state)

    await broker.notify(task_id, {TaskState.COMPLETED}, note)
    assert (await broker.poll(task_id)).state is TaskState.PENDING
    assert (await broker.cancel(cancelled_id)).state is TaskState.CANCELLED
    async with broker:
        assert (await broker.wait(task_id, timeout=5)).result == "x!"
    assert seen == [TaskState.COMPLETED]
    assert gate.runs == [task_id]


async def test_two_brokers_on_one_store_run_each_task_once(store):
    runs = []

    async def agent(task):
        runs.append(task.id)
        await asyncio.sleep(0)
        return "done"

    options = {"agent_specs": {"default": agent}, "poll_interval": QUICK, "concurrency": 3}
    async with TaskBroker(store, **options) as one, TaskBroker(store, **options) as two:
        ids = [await broker.submit("x") for broker in (one, two) for _ in range(30)]
        for task_id in ids:
            assert (await two.wait(task_id, timeout=10)).state is TaskState.COMPLETED
    assert sorted(runs) == sorted(ids)


async def test_so_many_tasks_run_at_a_time_as_allowed(store, gate):
    broker = TaskBroker(store, agent_specs=gate.agents, concurrency=2, poll_interval=QUICK)
    ids = [await broker.submit(str(n)) for n in range(5)]
    async with broker:
        await broker.wait(ids[1], until={TaskState.RUNNING}, timeout=5)
        assert (await broker.poll(ids[2])).state is TaskState.PENDING
        gate.open.set()
        for task_id in ids:
            assert (await broker.wait(task_id, timeout=5)).state is TaskState.COMPLETED
    assert gate.runs == ids


async def test_waiting_ends_with_its_timeout_and_the_task_goes_on(store, gate):
    async with TaskBroker(store, agent_specs=gate.agents, poll_interval=QUICK) as broker:
        task_id = await broker.submit("x")
        with pytest.raises(TimeoutError, match=f"task {task_id} took longer than 0.05 s"):
            await broker.wait(task_id, timeout=0.05)
        gate.open.set()
        assert (await broker.wait(task_id, timeout=5)).state is TaskState.COMPLETED


async def test_an_unknown_task_is_none_to_poll_and_an_error_to_all_others(store):
    broker = TaskBroker(store)
    assert await broker.poll("nope") is None
    for doing in (broker.wait("nope"), broker.cancel("nope"), broker.answer("nope", "x")):
        with pytest.raises(TaskNotFoundError, match="nope not found"):
            await doing
    with pytest.raises(TaskNotFoundError):
        await anext(broker.stream("nope"))


async def test_cancelling_stops_a_tool_and_leaves_one_event(store, gate):
    @tool
    async def work() -> str:
        """Work for long."""
        return await gate(await broker.poll(task_id))

    spec = AgentSpec(name="default", tools=(work,))
    model = ScriptedModel(call("work"), "never")
    seen = []

    async def note(task):
        seen.append(task.state)

    broker = TaskBroker(store, model=model, agent_specs=[spec], poll_interval=QUICK)
    async with broker:
        task_id = await broker.submit("x")
        await broker.notify(task_id, {TaskState.CANCELLED}, note)
        await gate.began.wait()
        task = await broker.cancel(task_id)
        assert (task.state, seen) == (TaskState.CANCELLED, [TaskState.CANCELLED])
        assert gate.stopped == [task_id]
        assert (await broker.cancel(task_id)) == (await broker.poll(task_id))
        events = [event async for event in broker.stream(task_id)]
    states = [event.payload["state"] for event in events if event.new_state]
    assert states == ["running", "cancelled"]
    assert len(model.requests) == 1


async def test_a_task_cancelled_in_the_store_is_stopped_too(gate):
    store = TaskStoreMemory()
    async with TaskBroker(store, agent_specs=gate.agents) as broker:
        task_id = await broker.submit("x")
        await gate.began.wait()
        await store.update_state(task_id, TaskState.CANCELLED)
        await broker.wait(task_id, timeout=5)
    assert gate.stopped == [task_id]


async def test_a_task_cancelled_while_it_is_being_claimed_does_not_begin(gate):
    class Slow(TaskStoreMemory):
        async def claim(self, owner, lease):
            task = await super().claim(owner, lease)
            if task is not None and task.input == "x":
                await self.update_state(task.id, TaskState.CANCELLED)
            return task

    gate.open.set()
    async with TaskBroker(Slow(), agent_specs=gate.agents, concurrency=1) as broker:
        await broker.submit("x")
        other_id = await broker.submit("y")
        await broker.wait(other_id, timeout=5)
    assert gate.runs == [other_id]


async def test_cancel_all_leaves_nothing_unfinished(store, gate):
    async with TaskBroker(
        store, agent_specs=gate.agents, concurrency=1, poll_interval=QUICK
    ) as broker:
        ids = [await broker.submit(str(n)) for n in range(3)]
        await gate.began.wait()
        cancelled = await broker.cancel_all()
    assert {task.id for task in cancelled} == set(ids)
    assert {task.state for task in cancelled} == {TaskState.CANCELLED}
    assert gate.runs == gate.stopped == ids[:1]


async def test_progress_of_the_agent_shows_in_the_events():
    @tool
    def look(secret: str) -> str:
        """Look."""
        return "found"

    spec = AgentSpec(name="default", tools=(look,))
    heard = []
    async with TaskBroker(
        model=ScriptedModel(call("look", secret="s3cret"), "done"),
        agent_specs=[spec],
        activity=heard.append,
    ) as broker:
        task = await broker.wait(await broker.submit("x"), timeout=5)
    kinds = [(event.event_type, event.payload) for event in task.events]
    assert kinds == [
        (EventType.STATE_CHANGE, {"state": "running"}),
        (EventType.PROGRESS, {"step": 1, "agent": "default"}),
        (EventType.LOG, {"tool": "look"}),
        (EventType.PROGRESS, {"step": 2, "agent": "default"}),
        (EventType.STATE_CHANGE, {"state": "completed"}),
    ]
    assert heard == task.events


async def test_an_agent_keeps_its_own_hooks_and_observer():
    seen = []
    observer = Observer()
    agent = Agent(
        name="default",
        instructions="Its own.",
        hooks=[Hook(HookPoint.FINISHED, lambda event: seen.append(event.output)), observer],
    )
    model = ScriptedModel("done", "done")
    async with TaskBroker(model=model, agent_specs=[agent]) as broker:
        for metadata in ({}, {"system_prompt": "The task's."}):
            task = await broker.wait(await broker.submit("x", **metadata), timeout=5)
            assert task.state is TaskState.COMPLETED
    assert seen == ["done", "done"]
    assert [request.messages[0].content for request in model.requests] == [
        "Its own.",
        "The task's.",
    ]
    assert _followed(agent, _Follower(None), {}).hooks.observer is observer


async def test_a_worker_refuses_a_task_that_is_not_pending(store, caplog):
    broker = TaskBroker(store)
    task_id = await broker.submit("x")
    worker = Worker(store, ScriptedModel("done"))
    await worker.execute(task_id)
    assert (await broker.poll(task_id)).result == "done"
    with pytest.raises(TransitionError, match="it is completed and stays so"):
        await worker.execute(task_id)
    await worker.execute("nope")
    assert "nope not found" in caplog.text


async def test_a_worker_that_is_cancelled_cancels_its_task(store, gate):
    broker = TaskBroker(store)
    task_id = await broker.submit("x")
    running = asyncio.create_task(Worker(store, None, gate.agents).execute(task_id))
    await gate.began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await broker.poll(task_id)).state is TaskState.CANCELLED


async def test_ten_thousand_tasks_complete():
    async def nothing(task):
        return task.input

    async with TaskBroker(agent_specs={"default": nothing}) as broker:
        ids = [await broker.submit(str(n)) for n in range(10_000)]
        tasks = [await broker.wait(task_id, timeout=60) for task_id in ids]
    assert [task.result for task in tasks] == [str(n) for n in range(10_000)]
