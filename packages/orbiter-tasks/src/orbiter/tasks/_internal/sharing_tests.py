"""The part of the conformance tests that is about brokers that share a store."""

# ruff: noqa: S101 - these are tests
import asyncio

import pytest

from orbiter.tasks.contract import Change, FullStore, Guard
from orbiter.tasks.models import EventType, Task, TaskEvent
from orbiter.tasks.state import TaskState, TransitionError


def progress(task_id: str, n: int) -> TaskEvent:
    """Return an event to tell from others by its number."""
    return TaskEvent(task_id=task_id, event_type=EventType.PROGRESS, payload={"n": n})


class SharingConformance:
    """Claims, guards, leases and watchers; `full_store` is a fixture."""

    async def test_of_many_who_claim_each_gets_another_task(self, full_store: FullStore) -> None:
        """And the rest get none."""
        for n in range(5):
            await full_store.create(Task(input=str(n)))
        claimed = await asyncio.gather(*(full_store.claim(f"owner-{n}", 10) for n in range(8)))
        ids = [task.id for task in claimed if task is not None]
        assert len(ids) == len(set(ids)) == 5
        assert all(task is None or task.state is TaskState.RUNNING for task in claimed)

    async def test_only_one_of_many_equal_transitions_happens(self, full_store: FullStore) -> None:
        """Compare-and-set: the others are refused."""
        task = await full_store.create(Task(input="x"))
        outcomes = await asyncio.gather(
            *(full_store.move(task.id, TaskState.RUNNING, owner=f"owner-{n}") for n in range(8)),
            return_exceptions=True,
        )
        assert sum(isinstance(outcome, Task) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, TransitionError) for outcome in outcomes) == 7
        assert len(await full_store.events_after(task.id, 0)) == 1

    async def test_only_the_owner_may_settle_a_guarded_task(self, full_store: FullStore) -> None:
        """Whoever lost it is refused, and its lease is not renewed either."""
        task = await full_store.create(Task(input="x"))
        await full_store.claim("owner", 10)
        with pytest.raises(TransitionError, match="no longer by other"):
            await full_store.move(task.id, TaskState.COMPLETED, guard=Guard(owner="other"))
        assert await full_store.renew([task.id, "unknown"], "other", 10) == set()
        assert await full_store.renew([task.id, "unknown"], "owner", 10) == {task.id}
        settled = await full_store.move(task.id, TaskState.COMPLETED, guard=Guard(owner="owner"))
        assert settled is not None
        assert await full_store.renew([task.id], "owner", 10) == set()

    async def test_a_task_with_a_living_owner_is_no_orphan(self, full_store: FullStore) -> None:
        """And cannot be taken for one."""
        task = await full_store.create(Task(input="x"))
        await full_store.claim("owner", 10)
        assert await full_store.expired() == []
        with pytest.raises(TransitionError):
            await full_store.move(task.id, TaskState.FAILED, guard=Guard(expired=True))

    async def test_events_given_with_a_transition_stand_before_it(
        self, full_store: FullStore
    ) -> None:
        """All are there, or none."""
        task = await full_store.create(Task(input="x"))
        await full_store.move(task.id, TaskState.FAILED, events=[progress(task.id, 1)])
        kinds = [event.event_type for event in await full_store.events_after(task.id, 0)]
        assert kinds == [EventType.PROGRESS, EventType.STATE_CHANGE]

    async def test_watchers_are_told_of_every_change_until_they_leave(
        self, full_store: FullStore
    ) -> None:
        """With the state and the events."""
        seen: list[Change] = []
        leave = full_store.watch(seen.append)
        task = await full_store.create(Task(input="x"))
        await full_store.claim("owner", 10)
        await full_store.add_event(task.id, progress(task.id, 1))
        leave()
        await full_store.update_state(task.id, TaskState.COMPLETED)
        told = [(change.task_id, change.state, len(change.events)) for change in seen]
        assert told == [
            (task.id, TaskState.PENDING, 0),
            (task.id, TaskState.RUNNING, 1),
            (task.id, TaskState.RUNNING, 1),
        ]
