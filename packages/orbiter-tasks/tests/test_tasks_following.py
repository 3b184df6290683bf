"""The watch of a namespace and what this store does itself, in whatever order they are seen."""

import pytest
from support.eventually import eventually
from support.fake_api import api as api

from orbiter.tasks import KubernetesTaskStore, Task


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
