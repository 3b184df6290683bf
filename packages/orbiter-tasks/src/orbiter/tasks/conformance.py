"""What every store has to do, as tests: derive from the class to test a store of your own.

    class TestMyStore(TaskStoreConformance):
        @pytest.fixture
        async def store(self, tmp_path):
            return MyStore(tmp_path)

        async def reopened(self, store):
            return MyStore(store.directory)

It needs pytest with pytest-asyncio in its `auto` mode. A store of the six methods is tested through
the adapter that brokers put around it.
"""

# ruff: noqa: S101 - these are tests
import asyncio
from datetime import timedelta
from typing import Any

import pytest

from orbiter.tasks._internal.adapter import full
from orbiter.tasks._internal.sharing_tests import SharingConformance, progress
from orbiter.tasks.contract import FullStore, TaskStore
from orbiter.tasks.models import Task, utc_now
from orbiter.tasks.state import TERMINAL_STATES, TaskError, TaskState, TransitionError

ILLEGAL = [
    (TaskState.PENDING, TaskState.INPUT_REQUIRED),
    (TaskState.PENDING, TaskState.PENDING),
    (TaskState.RUNNING, TaskState.RUNNING),
    *((ended, state) for ended in sorted(TERMINAL_STATES) for state in TaskState),
]


class TaskStoreConformance(SharingConformance):
    """Give it a fixture `store`; override `reopened` if tasks outlive the store object."""

    async def reopened(self, store: Any) -> TaskStore:
        """Return another store on the same tasks; the same one when they do not outlive it."""
        kept: TaskStore = store
        return kept

    @pytest.fixture
    def full_store(self, store: TaskStore) -> FullStore:
        """Return the store with all capabilities."""
        return full(store)

    async def test_a_created_task_is_returned_as_it_was_given(self, store: TaskStore) -> None:
        """Whatever a task carries comes back."""
        task = Task(input="Grüße\n\u2028\0", metadata={"a": {"b": [1, None, 2.5, "ü"]}})
        await store.create(task)
        found = await store.get(task.id)
        assert found is not None
        assert (found.id, found.input, found.metadata) == (task.id, task.input, task.metadata)
        assert (found.state, found.events) == (TaskState.PENDING, [])
        assert found.created_at == task.created_at

    async def test_an_unknown_id_is_none(self, store: TaskStore) -> None:
        """Neither reading nor changing raises."""
        assert await store.get("unknown") is None
        assert await store.update_state("unknown", TaskState.RUNNING) is None

    async def test_what_is_returned_is_a_snapshot(self, full_store: FullStore) -> None:
        """Changing it changes nothing in the store."""
        task = await full_store.create(Task(input="x"))
        found = await full_store.get(task.id)
        assert found is not None
        found.events.append(progress(task.id, 1))
        await full_store.add_event(task.id, progress(task.id, 2))
        again = await full_store.get(task.id)
        assert again is not None
        assert [event.payload["n"] for event in again.events] == [2]

    async def test_the_oldest_pending_task_is_next(self, store: TaskStore) -> None:
        """By the time it was made, also after reopening; looking does not take it."""
        now = utc_now()
        for age in (1, 3, 2):
            await store.create(Task(input=str(age), created_at=now - timedelta(hours=age)))
        for opened in (store, await self.reopened(store)):
            for expected in ("3", "3"):
                task = await opened.next_pending()
                assert task is not None
                assert task.input == expected
        oldest = await store.next_pending()
        assert oldest is not None
        await store.update_state(oldest.id, TaskState.RUNNING)
        second = await store.next_pending()
        assert second is not None
        assert second.input == "2"

    async def test_without_pending_tasks_none_is_next(self, store: TaskStore) -> None:
        """Also when there are others."""
        assert await store.next_pending() is None
        task = await store.create(Task(input="x"))
        await store.update_state(task.id, TaskState.CANCELLED)
        assert await store.next_pending() is None

    async def test_tasks_are_listed_by_state_oldest_first(self, store: TaskStore) -> None:
        """Each task is in one list."""
        now = utc_now()
        tasks = [
            await store.create(Task(input=str(n), created_at=now + timedelta(seconds=n)))
            for n in (2, 0, 1)
        ]
        await store.update_state(tasks[2].id, TaskState.RUNNING)
        pending = await store.list_by_state(TaskState.PENDING)
        assert [task.input for task in pending] == ["0", "2"]
        running = await store.list_by_state(TaskState.RUNNING)
        assert [task.input for task in running] == ["1"]

    async def test_result_and_error_are_kept(self, full_store: FullStore) -> None:
        """Beside the state, also after reopening."""
        task = await full_store.create(Task(input="x"))
        await full_store.update_state(task.id, TaskState.COMPLETED, result="done", error="odd")
        opened = full(await self.reopened(full_store))
        found = await opened.get(task.id)
        assert found is not None
        assert (found.state, found.result, found.error) == (TaskState.COMPLETED, "done", "odd")

    async def test_each_transition_has_one_event(self, full_store: FullStore) -> None:
        """And the events are numbered from 1."""
        task = await full_store.create(Task(input="x"))
        states = [TaskState.RUNNING, TaskState.INPUT_REQUIRED, TaskState.RUNNING, TaskState.FAILED]
        for state in states:
            await full_store.update_state(task.id, state)
        found = await full_store.get(task.id)
        assert found is not None
        assert [event.payload for event in found.events] == [{"state": s.value} for s in states]
        assert [event.seq for event in found.events] == [1, 2, 3, 4]

    @pytest.mark.parametrize(("now", "then"), ILLEGAL)
    async def test_an_illegal_transition_is_refused_with_the_reason(
        self, full_store: FullStore, now: TaskState, then: TaskState
    ) -> None:
        """And the task is as it was."""
        task = await full_store.create(Task(input="x"))
        if now is not TaskState.PENDING:
            await full_store.update_state(task.id, now)
        before = await full_store.get(task.id)
        with pytest.raises(TransitionError, match=f"{task.id}: it is {now}"):
            await full_store.update_state(task.id, then)
        assert await full_store.get(task.id) == before

    async def test_a_task_that_is_over_takes_no_events(self, full_store: FullStore) -> None:
        """Nothing happens to it any more."""
        task = await full_store.create(Task(input="x"))
        await full_store.update_state(task.id, TaskState.CANCELLED)
        with pytest.raises(TransitionError, match="takes no further events"):
            await full_store.add_event(task.id, progress(task.id, 1))

    async def test_events_are_kept_in_order_and_read_from_any_place(
        self, full_store: FullStore
    ) -> None:
        """As many as there are."""
        task = await full_store.create(Task(input="x"))
        await asyncio.gather(
            *(full_store.add_event(task.id, progress(task.id, n)) for n in range(20))
        )
        found = await full_store.get(task.id)
        assert found is not None
        assert [event.seq for event in found.events] == list(range(1, 21))
        assert sorted(event.payload["n"] for event in found.events) == list(range(20))
        assert await full_store.events_after(task.id, 17) == found.events[17:]
        assert await full_store.events_after(task.id, 20) == []

    async def test_an_id_is_taken_once(self, store: TaskStore) -> None:
        """The first task stays."""
        task = await store.create(Task(input="first"))
        with pytest.raises(TaskError, match=task.id):
            await store.create(Task(id=task.id, input="second"))
        found = await store.get(task.id)
        assert found is not None
        assert found.input == "first"
