"""The watch of a namespace and what this store does itself, in whatever order they are seen."""

import asyncio

import pytest
from support.eventually import eventually
from support.fake_api import api as api

from orbiter.tasks import EventType, KubernetesTaskStore, Task, TaskEvent


@pytest.fixture
async def store(api, tmp_path):
    made = KubernetesTaskStore("default", run="here", kubeconfig=str(api.kubeconfig(tmp_path)))
    yield made
    await made.close()


async def test_a_task_that_was_listed_before_its_creation_was_answered_is_told_once(api, store):
    told = []
    leave = store.watch(lambda change: told.append((change.task_id, len(change.events))))

    async def until_listed(verb, plural, body):
        if verb == "create":
            await eventually(lambda: store._following.known("new") is not None)

    api.after = until_listed
    await store.create(Task(id="new", input="x"))
    assert told == [("new", 0)]
    leave()


async def test_a_list_from_before_a_creation_that_is_answered_late_forgets_nothing(api, store):
    told = []
    leave = store.watch(lambda change: told.append((change.task_id, len(change.events))))
    created, listed, watched = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def late(verb, plural, body):
        if verb == "list" and not listed.is_set():
            listed.set()
            await created.wait()

    async def behind_the_list(verb, plural, body):
        if verb == "create":
            await listed.wait()
        elif verb == "watch":
            watched.set()

    api.after, api.before = late, behind_the_list
    await store.create(Task(id="new", input="x"))
    created.set()
    await watched.wait()
    await store.add_event("new", TaskEvent(task_id="new", event_type=EventType.PROGRESS))
    await eventually(lambda: len(told) > 1)
    leave()
    assert told == [("new", 0), ("new", 1)]
